"""Classes of which some are possible: superset learning, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.contract import Incomplete
from tests.lib.refusals import refused

pytestmark = pytest.mark.usefixtures("x64")
COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
LABELS = [0, {0, 1}, None, 2, {1, 2}, 1, {0}]


def objective(X: np.ndarray, w: dict, C: float) -> float:
    """J(w) by its definition; a class costs what it does beside the cheapest possible one."""
    W = np.asarray(w["weights"])
    total = float((W**2).sum()) / 2
    for x, label in zip(X, LABELS, strict=True):
        may = list(range(3)) if label is None else sorted(label if type(label) is set else {label})
        F = x @ W
        total += C / len(X) * ((F + COSTS[may].min(axis=0)).max() - F[may].max())
    return total


@pytest.mark.parametrize("restarts", [0, 3])
def test_the_objective_is_as_defined(restarts: int) -> None:
    X = np.random.default_rng(0).normal(size=(len(LABELS), 2))
    data = js.multiclass.prepare(X, LABELS, constant=0, loss=COSTS, dtype="float64")
    found = js.fit_latent(*data, C=3.0, tolerance=1e-6, restarts=restarts)
    assert found.status is js.Status.CONVERGED
    assert found.primal == pytest.approx(objective(X, found.weights, 3.0), rel=1e-9)
    assert found.dual > 0, "three points have one class alone"
    steps = np.random.default_rng(1).normal(scale=1e-3, size=(200, 2, 3))
    w = np.asarray(found.weights["weights"])
    nearby = [objective(X, {"weights": w + step}, 3.0) for step in steps]
    assert found.primal <= min(nearby) + 1e-5
    for may, y in zip(data.outputs.known, found.details.completions, strict=True):
        assert may[y]


def test_labels_are_read_and_what_does_not_fit_is_refused() -> None:
    X = np.eye(len(LABELS))
    data = js.multiclass.prepare(X, LABELS)
    assert isinstance(data.outputs, Incomplete)
    np.testing.assert_array_equal(data.outputs.known.sum(axis=1), [1, 2, 3, 1, 2, 1, 1])
    refused(
        r"labels\[1\] is an empty set", js.multiclass.prepare, X[:2], [0, set()], classes=[0, 1]
    )
    nothing = Incomplete(np.zeros(7, int), np.zeros((7, 3), bool))
    refused("is none of its possible classes", js.fit_latent, *data[:2], nothing)
    other = Incomplete(np.zeros(7, int), np.ones((7, 2), bool))
    refused("outputs.numbers|broadcast|incompatible", js.fit_latent, *data[:2], other)
