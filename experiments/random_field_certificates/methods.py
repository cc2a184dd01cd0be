"""The trainers that `experiments.random_field_certificates` compares, each with its certificate."""

from __future__ import annotations

import importlib.util
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.lib.record import Stopwatch
from experiments.machines.dual_random_field import dual_random_field
from experiments.machines.stochastic_gradients import FIELD, fit_stochastic
from experiments.random_field_certificates.tasks import (
    METHODS,
    FieldTask,
    Options,
    weights_of_strings,
)
from jaxstruct import fit
from jaxstruct.baselines import certify_random_field, fit_random_field
from jaxstruct.core.types import PyTree

HINGE = "svm1_margin"
TITLES = {
    "lbfgs": "L-BFGS", "dual": "dual ascent", "stochastic": "stochastic gradients, averaged",
    "crfsuite": "CRFsuite, L-BFGS", "svm": "working sets",
    "svm_stochastic": "stochastic subgradients, averaged",
}  # fmt: skip
OBJECTIVES = {name: HINGE if name.startswith("svm") else FIELD for name in METHODS}


class Trained(NamedTuple):
    """What a trainer hands over.

    Fields:
      weights: w. status: its name. passes: over the examples, the method's own count.
      primal, dual: of w.
      curve: [k, 3] seconds, P, D since the start; empty where the method shows none.
    """

    weights: PyTree
    status: str
    passes: int
    primal: float
    dual: float
    curve: np.ndarray


def installed(name: str) -> bool:
    """Whether a method can run; CRFsuite is optional."""
    return name != "crfsuite" or importlib.util.find_spec("pycrfsuite") is not None


def _lbfgs(options: Options, task: FieldTask, C: float) -> Trained:
    found = fit_random_field(
        task.problem, task.inputs, task.outputs, C, tolerance=options.gradient_tolerance
    )
    seconds, primal, slope, calls = found.history.T
    dual = np.maximum.accumulate(primal - slope**2 / 2)
    curve = np.stack([seconds, primal, dual], axis=1)
    return Trained(
        found.weights, found.status.name, int(calls[-1]), found.primal, found.dual, curve
    )


def _dual(options: Options, task: FieldTask, C: float) -> Trained:
    found = dual_random_field(
        task.problem, task.inputs, task.outputs, C, tolerance=options.tolerance,
        max_passes=options.max_passes, group=options.group, seed=options.seed,
    )  # fmt: skip
    seconds, _, primal, dual = found.history.T
    curve = np.stack([seconds, primal, dual], axis=1)
    return Trained(found.weights, found.status.name, found.passes, found.primal, found.dual, curve)


def _online(objective: str) -> Callable[[Any, FieldTask, float], Trained]:
    def train(options: Options, task: FieldTask, C: float) -> Trained:
        found = fit_stochastic(
            task.problem, task.inputs, task.outputs, objective, C, max_epochs=options.epochs,
            batch=options.batch, rate=options.rate, seed=options.seed,
            evaluate_every=options.evaluate_every,
        )  # fmt: skip
        _, seconds, _, primal, dual = found.history.T
        curve = np.stack([seconds, primal, np.maximum.accumulate(dual)], axis=1)
        return Trained(
            found.averaged, found.status.name, len(found.losses), found.primal_averaged,
            found.dual, curve,
        )  # fmt: skip

    return train


def _svm(options: Options, task: FieldTask, C: float) -> Trained:
    found = fit(task.problem, task.inputs, task.outputs, HINGE, C, tolerance=options.svm_tolerance)
    passes = found.statistics.passes
    return Trained(
        found.weights, found.status.name, passes, found.primal, found.dual, np.zeros((0, 3))
    )


TRAINERS = {
    "lbfgs": _lbfgs, "dual": _dual, "stochastic": _online(FIELD), "svm": _svm,
    "svm_stochastic": _online(HINGE),
}  # fmt: skip


def _crfsuite(options: Options, task: FieldTask, C: float) -> tuple[Trained, dict[str, Any]]:
    """CRFsuite on the same weights, whose end point gets our certificate; and its seconds."""
    import pycrfsuite  # pyright: ignore[reportMissingImports]

    assert task.strings is not None, "CRFsuite reads strings"
    strings = task.strings()
    trainer = pycrfsuite.Trainer(  # pyright: ignore[reportAttributeAccessIssue]
        algorithm="lbfgs", verbose=False
    )
    every = {"feature.possible_states": True, "feature.possible_transitions": True}
    trainer.set_params({"c1": 0.0, "c2": task.n / (2 * C)} | every)
    for features, labels in zip(strings.features, strings.labels, strict=True):
        trainer.append(features, labels)
    with tempfile.TemporaryDirectory() as folder:
        path, watch = str(Path(folder) / "model"), Stopwatch()
        trainer.train(path)
        seconds = watch.elapsed()
        tagger = pycrfsuite.Tagger()  # pyright: ignore[reportAttributeAccessIssue]
        tagger.open(path)
        info = tagger.info()
        tagger.close()
    weights = weights_of_strings(task, strings, info.state_features, info.transitions)
    proven = certify_random_field(task.problem, weights, task.inputs, task.outputs, C)
    passes = trainer.logparser.iterations[-1]["num"] if trainer.logparser.iterations else 0
    point = np.array([[seconds.wall, proven.primal, proven.dual]])
    found = Trained(weights, "-", passes, proven.primal, proven.dual, point)
    times = {"wall": seconds.wall, "process": seconds.process}
    return found, {"first_seconds": None, "compile_seconds": None} | times


def _timed(
    options: Options, task: FieldTask, name: str, C: float
) -> tuple[Trained, dict[str, Any]]:
    """A run that compiles, and one that is measured."""
    if name == "crfsuite":
        return _crfsuite(options, task, C)
    watch = Stopwatch()
    TRAINERS[name](options, task, C)
    first, compiling = watch.elapsed(), watch.compiling()
    watch = Stopwatch()
    found = TRAINERS[name](options, task, C)
    seconds = watch.elapsed(found.weights)
    return found, {
        "first_seconds": first.wall, "compile_seconds": round(compiling.wall, 3),
        "wall": seconds.wall, "process": seconds.process,
    }  # fmt: skip


def reached(curve: np.ndarray, level: float) -> float | None:
    """The seconds after which (P - D) / P is at most `level`; None where it never is."""
    seconds, primal, dual = curve.T
    near = np.flatnonzero(primal - dual <= level * np.abs(primal))
    return float(seconds[near[0]]) if near.size else None


def measurements(options: Options, task: FieldTask) -> Iterator[dict[str, Any]]:
    """A row a method."""
    C = task.c_over_n * task.n
    for name in filter(installed, options.methods):
        if name == "crfsuite" and task.strings is None:
            continue
        found, seconds = _timed(options, task, name, C)
        gap = found.primal - found.dual
        yield seconds | {
            "task": task.name, "title": task.title, "c_over_n": task.c_over_n,
            "objective": OBJECTIVES[name], "method": name,
            "status": found.status, "passes": found.passes, "primal": found.primal,
            "dual": found.dual, "gap": gap if math.isfinite(gap) else None,
            "relative_gap": gap / abs(found.primal), "curve": found.curve,
            "reached": reached(found.curve, options.tolerance),
            "test_error": task.test(found.weights),
        }  # fmt: skip
