"""The fitted temperature against a minimiser over the list of all outputs."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import jaxstruct as js
from tests.confidence.cases import case, one, ranked
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after


@pytest.mark.parametrize("name", thorough_after(2, ["classes", "chain", "graph", "own"]))
def test_it_minimises_the_held_out_log_loss(name) -> None:
    """On outputs that were drawn at another temperature, with the loss before and after."""
    given = case(name)
    scale = {"chain": 3.0}.get(name, 0.5)
    sharp = jax.tree.map(lambda leaf: scale * leaf, given.weights)
    n = len(jax.tree.leaves(given.inputs)[0])
    few = 6
    drawn = js.confidence.sample(given.problem, given.weights, given.inputs, jax.random.key(5), few)
    which = np.tile(np.arange(n), few)
    inputs = jax.tree.map(
        lambda leaf: leaf.take(which) if isinstance(leaf, js.Ragged) else np.asarray(leaf)[which],
        given.inputs,
    )
    outputs = jax.tree.map(_joined, *drawn)
    found = js.confidence.fit_temperature(given.problem, sharp, inputs, outputs)
    best = ranked(name)  # in the order of F, whatever its scale
    F, K = scale * best.scores.astype(float), best.scores.shape[1]
    own = np.array([
        [F[i, next(j for j in range(K) if one(best.outputs[j], i) == one(y, i))] for i in range(n)]
        for y in drawn
    ])  # fmt: skip

    def loss(log_t: float) -> float:
        b = np.exp(-log_t)
        return float(np.mean(np.logaddexp.reduce(b * F, axis=1)[None] - b * own))

    wanted = minimize_scalar(loss, bounds=(-6, 6), method="bounded", options={"xatol": 1e-9})
    assert found.value == pytest.approx(np.exp(wanted.x), rel=2e-3)
    assert found.log_loss == pytest.approx(wanted.fun, abs=2e-5)
    assert found.log_loss_before == pytest.approx(loss(0), abs=2e-5)
    assert found.log_loss <= found.log_loss_before + 1e-6
    assert abs(found.slope) < 1e-2 and 2 <= found.evaluations <= 30
    losses = js.confidence.log_losses(given.problem, sharp, inputs, outputs, temperature=found)
    assert losses.mean() == pytest.approx(found.log_loss, abs=2e-5)


def _joined(*leaves):
    """Outputs of several draws one after the other."""
    if isinstance(leaves[0], js.Ragged):
        return js.ragged([row for leaf in leaves for row in leaf], leaves[0].fill)
    return np.concatenate(leaves)


def test_held_out_examples_without_a_best_temperature_are_refused() -> None:
    """All outputs right: T falls to 0; outputs that score least: T rises for ever."""
    given = case("classes")
    best = ranked("classes")
    call = given.problem, given.weights, given.inputs
    with refused("every held-out output is the best by a margin: give mo"):
        js.confidence.fit_temperature(*call, best.outputs[0])
    with refused("no better than the mean of all outputs: the weights s"):
        js.confidence.fit_temperature(*call, best.outputs[2])
