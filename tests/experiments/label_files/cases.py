"""Models of all output types as files, and what labels them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import jaxstruct as js
from experiments.label_files import command
from tests.models import model_cases

SEED = 4
ROWS = [[["f"], ["g"]], [["g"]]]
LATER = {
    "segments": lambda: js.segments.prepare([[["a"], ["b"]], [["b"]]], [[(0, 2, "P")], []]),
    "dependency_parser": lambda: js.dependencies.prepare([[{"word": "a"}]], [[0]], min_count=1),
    "assignment": lambda: js.assignments.prepare([[ROWS[0], ROWS[0]]], [[(0, 0), (1, 1)]]),
    "document_ranking": lambda: js.rankings.prepare(ROWS, [[1, 0], [1]]),
    "sample_labels": lambda: js.rankings.prepare_samples(ROWS, [[1, 0], [1]]),
}
"""Training sets of output types that `model_cases` has not."""


def model_of(name: str) -> js.models.TrainedModel:
    if name not in LATER:
        return model_cases.model_of(name, SEED)
    data, random = LATER[name](), np.random.default_rng(SEED)
    shapes = {key: leaf.shape for key, leaf in data.problem.initial_weights.items()}
    w = {key: random.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    return js.trained(data, w)


def saved(folder: Path, name: str) -> str:
    """The file of a model."""
    return str(js.save(model_of(name), folder / f"{name}.model"))


def labelled(model: str, *sources: Any, **options: Any) -> command.Run:
    """A run of the command without files of its own beside those asked for."""
    own = {"input": tuple(map(str, sources)), "batch": 4, "compilation_cache": False}
    return command.run(command.Options(model=model, progress=False, **(own | options)))
