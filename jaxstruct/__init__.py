"""jaxstruct: structural support vector machines in JAX (Tsochantaridis et al., 2005).

The output types (`jaxstruct.multiclass`, `chains`, `segments`, `trees`, `dependencies`,
`alignments`, `graphs`, `assignments`, `rankings`, `strings`, `decisions`) and `baselines`,
`confidence`, `estimators`, `evaluation`, `kernels`, `losses`, `models` and `plots` are imported
when they are first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from jaxstruct.core.buckets import take
from jaxstruct.core.compiling import keep_programs
from jaxstruct.core.contract import (
    Bounded,
    Contenders,
    Differences,
    Incomplete,
    Inference,
    InferenceFacts,
    Marginals,
    Model,
    Oracles,
    Padding,
    Problem,
    Space,
    Truth,
)
from jaxstruct.core.feature_encoding import from_scipy
from jaxstruct.core.host_oracle import HostOracle, host_oracle
from jaxstruct.core.known import Known, known_inputs, known_problem
from jaxstruct.core.prepared import Prepared
from jaxstruct.core.problem import joint_feature, make_problem
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.recursion import Recursion
from jaxstruct.core.status import Status
from jaxstruct.core.types import SparseFeatures
from jaxstruct.solvers.certifying import Certified, certify
from jaxstruct.solvers.fit import fit, fit_path
from jaxstruct.solvers.latent.fit_latent import fit_latent
from jaxstruct.solvers.loop.host_loop import Progress
from jaxstruct.solvers.loop.trace import Trace
from jaxstruct.solvers.memory import Memory, memory
from jaxstruct.solvers.out_of_core.fit_in_blocks import fit_in_blocks
from jaxstruct.solvers.predict import predict
from jaxstruct.solvers.settings import Settings
from jaxstruct.solvers.solution import Solution, support_outputs
from jaxstruct.solvers.validation.problem_checks import check_problem

if TYPE_CHECKING:
    from jaxstruct import (
        alignments,
        assignments,
        baselines,
        chains,
        confidence,
        decisions,
        dependencies,
        estimators,
        evaluation,
        graphs,
        kernels,
        losses,
        models,
        multiclass,
        plots,
        rankings,
        segments,
        strings,
        trees,
    )
    from jaxstruct.models.explanation import explain
    from jaxstruct.models.model_files import load, save
    from jaxstruct.models.store import open_store
    from jaxstruct.models.stream import predict_stream
    from jaxstruct.models.trained import trained

__version__ = "0.2.0"

__all__ = [
    "Bounded",
    "Certified",
    "Contenders",
    "Differences",
    "HostOracle",
    "Memory",
    "Model",
    "Incomplete",
    "Inference",
    "InferenceFacts",
    "Known",
    "Marginals",
    "Oracles",
    "Padding",
    "Prepared",
    "Problem",
    "Progress",
    "Ragged",
    "Recursion",
    "Settings",
    "Solution",
    "Space",
    "SparseFeatures",
    "Status",
    "Trace",
    "Truth",
    "alignments",
    "assignments",
    "baselines",
    "certify",
    "chains",
    "check_problem",
    "confidence",
    "decisions",
    "dependencies",
    "estimators",
    "evaluation",
    "explain",
    "fit",
    "fit_in_blocks",
    "fit_latent",
    "fit_path",
    "from_scipy",
    "graphs",
    "host_oracle",
    "joint_feature",
    "keep_programs",
    "kernels",
    "known_inputs",
    "known_problem",
    "load",
    "losses",
    "make_problem",
    "memory",
    "models",
    "multiclass",
    "open_store",
    "plots",
    "predict",
    "predict_stream",
    "ragged",
    "rankings",
    "save",
    "segments",
    "strings",
    "support_outputs",
    "take",
    "trained",
    "trees",
]

_LAZY = frozenset(
    {
        "alignments", "assignments", "baselines", "chains", "confidence", "decisions",
        "dependencies", "estimators", "evaluation", "graphs", "kernels", "losses", "models",
        "multiclass", "plots", "rankings", "segments", "strings", "trees",
    }
)  # fmt: skip
_OF_MODELS = {
    "explain": "explanation", "load": "model_files", "open_store": "store",
    "predict_stream": "stream", "save": "model_files", "trained": "trained",
}  # fmt: skip


def __getattr__(name: str) -> ModuleType | Callable:
    """An output type, or a function of `models`, imported at its first use."""
    if name in _OF_MODELS:
        return getattr(importlib.import_module(f"jaxstruct.models.{_OF_MODELS[name]}"), name)
    if name not in _LAZY:
        raise AttributeError(f"module 'jaxstruct' has no attribute {name!r}")
    return importlib.import_module(f"jaxstruct.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_OF_MODELS})
