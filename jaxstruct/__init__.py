"""jaxstruct: structural support vector machines in JAX (Tsochantaridis et al., 2005)."""

from jaxstruct.core.buckets import Buckets
from jaxstruct.core.problem import (
    Bounded,
    Contenders,
    Model,
    Oracles,
    Problem,
    Space,
    joint_feature,
    make_problem,
)
from jaxstruct.solvers.fit import fit, fit_path
from jaxstruct.solvers.predict import predict
from jaxstruct.solvers.problem_checks import check_problem
from jaxstruct.solvers.settings import Settings
from jaxstruct.solvers.solution import Solution, Status, support_outputs

__version__ = "0.1.0"

__all__ = [
    "Bounded",
    "Buckets",
    "Contenders",
    "Model",
    "Oracles",
    "Problem",
    "Settings",
    "Solution",
    "Space",
    "Status",
    "check_problem",
    "fit",
    "fit_path",
    "joint_feature",
    "make_problem",
    "predict",
    "support_outputs",
]
