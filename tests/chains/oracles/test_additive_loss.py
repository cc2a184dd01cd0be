"""An additive loss in the emissions: every score, and the loss-augmented argmax, by enumeration."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.chains.oracles.additive_loss import loss_augmented
from jaxstruct.chains.oracles.decoding import viterbi
from jaxstruct.chains.potentials import ChainPotentials, score_labels
from tests.chains.oracles.truth import STRUCTURES, Cases, as_dtype, cases, preferred
from tests.lib.refusals import refused

FIRST, SECOND = STRUCTURES[0].values[0], STRUCTURES[4].values[0]


def _weights(given: Cases, shape: tuple[int, ...]) -> np.ndarray:
    """Integers, so that ties stay ties; nan beyond the length, as nothing may read there."""
    random = np.random.default_rng(len(shape))
    weights = random.integers(0, 3, (len(given.length), *shape)).astype(float)
    weights[np.arange(shape[0]) >= given.length[:, None]] = np.nan
    return weights


def _losses(given: Cases, i: int, weights: np.ndarray) -> np.ndarray:
    """Delta of every label sequence of chain i."""
    y, true = given.labelings[i], given.y_true[i]
    total = np.zeros(len(y))
    for t in range(given.length[i]):
        cost = weights[t] if weights.ndim == 1 else weights[t][y[:, t]]
        total += np.where(y[:, t] != true[t], cost, 0)
    return total


@jax.jit
@partial(jax.vmap, in_axes=(0, 0, 0, 0, None))
def decode(potentials, y_true, length, weights, scale):
    return viterbi(loss_augmented(potentials, y_true, length, weights, scale), length)


@pytest.mark.parametrize(("structure", "shape"), [(FIRST, (5,)), (SECOND, (5, 3))])
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_decode_is_loss_augmented(
    structure: dict[str, bool], shape: tuple[int, ...], scale: float
) -> None:
    """The loss moves emissions alone, whatever the order is."""
    given = cases(structure)
    weights = _weights(given, shape)
    potentials = as_dtype(given.potentials, "float32")
    found = decode(potentials, given.y_true, given.length, weights, scale)
    found = jax.tree.map(np.asarray, found)
    assert found.score.dtype == jnp.float32
    for i, (y, F) in enumerate(zip(given.labelings, given.scores, strict=True)):
        total = F + scale * _losses(given, i, weights[i])
        np.testing.assert_allclose(found.score[i], total.max(), rtol=1e-5, atol=1e-5)
        if given.tied[i] and total.max() > -np.inf:
            np.testing.assert_array_equal(found.labels[i], y[preferred(y, total)[0]])


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("shape", [(5,), (5, 3)])
def test_every_score_of_one_chain(shape: tuple[int, ...]) -> None:
    given = cases(FIRST)
    i = int(np.argmax((given.length == 4) & np.asarray([F.min() > -np.inf for F in given.scores])))
    weights = _weights(given, shape)[i]
    own = jax.tree.map(lambda leaf: leaf[i], given.potentials)

    @jax.jit
    def scores(own: ChainPotentials, weights: np.ndarray) -> jax.Array:
        augmented = loss_augmented(own, given.y_true[i], 4, weights, -1.5)
        return jax.vmap(score_labels, (None, 0, None))(augmented, given.labelings[i], 4)

    found = scores(own, weights)
    assert found.dtype == jnp.float64
    expected = given.scores[i] - 1.5 * _losses(given, i, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


def test_other_potentials_are_left_alone() -> None:
    potentials = ChainPotentials(jnp.ones((4, 3)), jnp.ones((3, 3)), jnp.ones(3), jnp.ones(3))
    augmented = loss_augmented(potentials, jnp.asarray([0, 1, -1, -1]), 2, jnp.ones(4), 1)
    for name in ("transitions", "start", "stop", "triples"):
        assert getattr(augmented, name) is None or (getattr(augmented, name) == 1).all()
    np.testing.assert_array_equal(augmented.emissions, [[1, 2, 2], [2, 1, 2], [1, 1, 1], [1, 1, 1]])


def test_wrong_weights_are_named() -> None:
    potentials = ChainPotentials(jnp.zeros((4, 3)), jnp.zeros((3, 3)))
    with refused(r"weights must be \[T\] = \[4\] or \[T, S\] = \[4, 3\]"):
        loss_augmented(potentials, jnp.zeros(4, int), 4, jnp.ones(3), 1)
