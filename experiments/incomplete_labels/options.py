"""The options of `experiments.incomplete_labels`, and what its tasks hand over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import fields
from experiments.lib.options import flag
from jaxstruct import Incomplete, Problem, Ragged, fit, fit_latent
from jaxstruct.baselines import fit_random_field
from jaxstruct.core.types import PyTree

TASKS = ("tagging", "digits", "offset", "motif", "grid")
METHODS = ("known", "latent", "field", "rest", "whole", "outside", "linear", "kernel")


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    tasks: Sequence[str] = flag(TASKS, "Some of these.", TASKS, some=True)
    methods: Sequence[str] = flag(METHODS, "Some of these.", METHODS, some=True)
    seeds: int = flag(5, "Data sets of each task.", least=1)
    shares: Sequence[str] = flag(
        ("10", "50", "90"), "tagging: labels taken away, in %.", each=int, least=1, most=99,
        some=True,
    )  # fmt: skip
    sentences: int = flag(200, "tagging: training sentences.", least=2)
    test_sentences: int = flag(500, "tagging: held-out sentences.", least=1)
    examples: int = flag(0, "The others: training examples at most; 0: all of a task.", least=0)
    tolerance: float = 1e-2


class Job(NamedTuple):
    """One training.

    Fields:
      setting: what is known. method: one of `METHODS`.
      train: -> a solution or a random field. score: of it, on held-out examples, in %.
    """

    setting: str
    method: str
    train: Callable[[], Any]
    score: Callable[[Any], float]


def incomplete(y: Ragged, blank: np.ndarray, labels: int) -> Incomplete:
    """The labels without those that are taken away."""
    known = np.eye(labels, dtype=bool)[y.rows] | blank[:, None]
    shown = known.argmax(axis=1).astype(np.int32)
    return Incomplete(Ragged(shown, y.offsets, -1), Ragged(known, y.offsets, False))


def trainer(
    options: Options, method: str, problem: Problem, x: PyTree, y: PyTree, C: float, **how: Any
) -> Callable[[], Any]:
    """The training of a method: by `fit_latent`, by the likelihood of what is known, or by `fit`.

    Args:
      how: further options of `fit` or `fit_latent`.
    """
    if method == "field":
        return partial(fit_random_field, problem, x, y, C)
    by = fit_latent if method == "latent" else fit
    return partial(by, problem, x, y, "svm1_margin", C, tolerance=options.tolerance, **how)
