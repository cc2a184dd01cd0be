"""Slack re-scaling with costs of labels: units of the costs, and levels."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.chains.losses import (
    LEVELS,
    chain_loss,
    costs_in_units,
    level_losses_of_costs,
    units_at,
)
from tests.chains.oracles.truth import all_labelings

WEIGHTS = {
    "2:1": np.array([2, 1, 1]),
    "1:3:10": np.array([1, 3, 10]),
    "reals": np.array([1, 2.718281, 6.1234]),
    "one is 0": np.array([2, 1, 0]),
    "thirds": np.array([1, 2, 3]) / 7,
}


@pytest.mark.parametrize(("weights", "most"), [
    ([2, 1, 1], 2), ([1, 3, 10], 10), ([0.1, 0.3, 0.7], 7), ([5, 5, 5], 1), ([0, 2, 1], 2),
    ([0, 0, 0], 1), ([63, 64, 1], 64), ([1, 64.5, 3], None), ([1, np.e, np.pi], None),
])  # fmt: skip
def test_units(weights, most):
    costs = js.chains.label_weights(np.array(weights))
    units, exact = costs_in_units(costs)
    assert exact == (most is not None) and units.dtype == np.int32
    assert ((units > 0) == (costs > 0)).all()
    if exact:
        assert units[-1].max() == (most if costs.any() else 0)
        np.testing.assert_allclose(units[-1] * costs.max() / most, costs, rtol=1e-6)


def test_fewer_units_of_longer_sequences():
    few, reals = (
        chain_loss(js.chains.label_weights(w), 3, "float32")
        for w in np.array([[1, 3, 10], [1, np.e, np.pi]])
    )
    assert [units_at(few, T)[1] for T in (1, 100, 103, 5000)] == [True, True, False, False]
    for loss in (few, reals):
        most = [loss.kind.kinds[units_at(loss, T)[0]][-1] for T in (1, 5, 20, 100, 1000, 5000)]
        assert most == sorted(most, reverse=True) and most[-1] == 1
        assert 100 * most[3] <= LEVELS
    assert not units_at(reals, 5)[1]


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
def test_losses_of_levels(x64, weights):
    """The largest loss of the outputs of a level, the only one where units are exact."""
    loss = chain_loss(js.chains.label_weights(weights), 3, "float64")
    assert loss.units is not None
    place, exact = units_at(loss, 5)
    y_true, every = np.array([2, 0, 1, 2, -1]), all_labelings(3, 4)
    units, costs = (np.asarray(table)[y_true[:4], every].sum(axis=1)
                    for table in (loss.units[place], loss.costs))  # fmt: skip
    level = np.where((every == y_true[:4]).all(axis=1), 0, 1 + units)
    found = np.asarray(level_losses_of_costs(loss, jnp.asarray(y_true)))
    assert found.shape == (2 + 5 * loss.kind.kinds[place][-1],)
    for each in range(len(found)):
        inside = costs[level == each]
        np.testing.assert_allclose(found[each], inside.max(initial=0), atol=1e-12)
        assert not exact or np.ptp(inside) < 1e-12 if len(inside) else True
