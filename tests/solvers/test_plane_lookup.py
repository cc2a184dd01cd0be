"""An output against the planes at hand: what whole working sets say, read tile by tile."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.n_slack.oracle_pass import (
    TILE,
    Batch,
    filled_slots,
    look_up_planes,
)
from jaxstruct.solvers.n_slack.working_sets import bucket_of, empty_working_sets

N, B, T, S = 6, 4, 5, 3
_look_up, _filled = jax.jit(look_up_planes), jax.jit(filled_slots)
_potentials = jax.jit(lambda problem, w, x: jax.vmap(problem.model.potentials, (None, 0))(w, x))


@jax.jit
def _whole(problem, theta, x, y_true, held, y):
    """F of the planes at hand, their inner products with that of y, and its squared norm."""
    scores = jax.vmap(problem.space.plane_scores)(theta, held)
    gram = jax.vmap(problem.space.plane_gram)(x, y_true, held, y)
    return scores, gram, jax.vmap(problem.space.plane_norms)(x, y_true, y[:, None])[:, 0]


def chains(random):
    x = chain_inputs(random.normal(size=(N, T, 4)), random.integers(1, T + 1, N))
    real = np.arange(T) < x.length[:, None]

    def draw(*shape):
        y = random.integers(0, S, (*shape, T))
        return np.where(real.reshape(N, *[1] * (len(shape) - 1), T), y, -1).astype(np.int32)

    return chain(4, S, dtype="float64"), x, draw


def classes(random):
    def draw(*shape):
        return random.integers(0, 50, shape).astype(np.int32)

    return multiclass(4, 50, dtype="float64"), random.normal(size=(N, 4)), draw


@pytest.mark.parametrize("slots, filled", [(8, 1), (8, 8), (20, 3), (20, 9), (20, 20), (5, 4)])
@pytest.mark.parametrize("output_type", [chains, classes])
def test_every_filled_slot_is_met(x64, output_type, slots, filled):
    """Scores and inner products of occupied slots, 0 in empty ones; a plane at hand is known."""
    random = np.random.default_rng([slots, filled])
    problem, x, draw = output_type(random)
    truth, held = draw(N), draw(N, slots)
    held[:, 0] = truth
    occupied = (random.random((N, slots)) < 0.7) & (np.arange(slots) < filled)
    occupied[:, 0] = True
    sets = bucket_of(empty_working_sets((truth,), slots, "float64"), 0)
    sets = sets._replace(outputs=held, occupied=occupied)
    w = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), problem.initial_weights)
    index = random.permutation(N)[:B]
    some = jax.tree.map(lambda leaf: np.asarray(leaf)[index], x)
    theta = _potentials(problem, w, some)
    y = draw(N)[index]
    y[1], y[2] = held[index[1], 0], held[index[2], slots - 1]  # known; known if occupied
    scores, lookup = _look_up(problem, sets, Batch(index, some, truth[index], theta), y, x)
    wanted, gram, own = _whole(problem, theta, some, truth[index], held[index], y)
    inside = occupied[index]
    np.testing.assert_allclose(np.where(inside, scores, 0), np.where(inside, wanted, 0), atol=1e-12)
    np.testing.assert_allclose(lookup.products, np.where(inside, gram, 0), atol=1e-12)
    np.testing.assert_allclose(lookup.squared, own, atol=1e-12)
    same = (held[index] == y[:, None]).reshape(B, slots, -1).all(axis=2) & inside
    np.testing.assert_array_equal(lookup.known, same.any(axis=1))
    assert lookup.known[1]
    last = np.max(np.where(inside, np.arange(slots) + 1, 0))
    assert _filled(inside) == last
    beyond = np.arange(slots) >= min(-(-last // TILE) * TILE, slots)
    assert not np.any(np.asarray(scores)[:, beyond])
