"""Of every output type what sums planes, against Psi: the slope of F in the weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.contract import Bounded, output_of
from jaxstruct.core.padding import padded
from tests.estimators.cases import NAMED, SIDES, WAYS
from tests.lib.enumeration import flat

B, K = 3, 4
"""Examples, and outputs of each: the true one, then the best by other weights."""
SCALES = np.array([0.5, 2.0], np.float32)


def decisions(shared: bool) -> tuple:
    """The two best of four."""
    random, every = np.random.default_rng(0), js.decisions.top_k(4, 2)
    costs = random.normal(size=(B, 4)).astype(np.float32)
    rows = random.normal(size=(B, 4, 3) if shared else (B, 3)).astype(np.float32)
    y = js.Truth(js.decisions.decide(every, costs), costs)
    return js.decisions.problem(every, 3, shared=shared), js.decisions.DecisionInput(rows), y


CASES = {name: way.prepared for name, way in WAYS.items() if way.prepared}
CASES["sets by named rows"] = lambda: js.graphs.prepare_sets(NAMED, [{one} for one in SIDES])
CASES["decisions"] = partial(decisions, False)
CASES["decisions of shared weights"] = partial(decisions, True)


def weights(problem: js.Problem, seed: int, *shape: int) -> Any:
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: random.normal(size=(*shape, *leaf.shape)).astype(leaf.dtype),
        problem.initial_weights,
    )


@jax.jit
def asked(problem: js.Problem, w: Any, others: Any, x: Any, y_true: Any, c: jax.Array) -> dict:
    """What the structure says of B examples and K outputs of each, and Psi of these."""
    model, space, truth = problem.model, problem.space, output_of(y_true)

    def F(w: Any, x: Any, y: Any) -> jax.Array:
        return model.score(model.potentials(w, x), y)

    def best(x: Any) -> Any:
        return jax.vmap(lambda w: model.decode(model.potentials(w, x)))(others)

    y = jax.tree.map(
        lambda own, more: jnp.concatenate([own[:, None], more], axis=1), truth, jax.vmap(best)(x)
    )
    theta = jax.vmap(model.potentials, (None, 0))(w, x)
    scores = jax.vmap(space.plane_scores)(theta, y)
    losses = jax.vmap(jax.vmap(model.loss, (None, 0)))(y_true, y)

    def shortfall(scale: jax.Array) -> jax.Array:
        """[B] by how much what is found for a loss of this scale is below the best of the K."""
        found = jax.vmap(problem.oracles.loss_augmented_decode, (0, 0, None))(theta, y_true, scale)
        y = found.output if isinstance(found, Bounded) else found
        value = jax.vmap(model.score)(theta, y) + scale * jax.vmap(model.loss)(y_true, y)
        value = found.bound if isinstance(found, Bounded) else value
        return jnp.max(scores + scale * losses, axis=1) - value

    return {
        "psi": jax.vmap(jax.vmap(jax.grad(F), (None, None, 0)), (None, 0, 0))(w, x, y),
        "scores": scores,
        "values": space.plane_values(w, x, y),
        "sum": space.add_planes(w, x, y, c),
        "gram": jax.vmap(space.plane_gram)(x, truth, y, jax.tree.map(lambda leaf: leaf[:, 1], y)),
        "norms": jax.vmap(space.plane_norms)(x, truth, y),
        "squared norm": space.squared_norm(w, x),
        "shortfall": None
        if problem.oracles.loss_augmented_decode is None
        else jax.vmap(shortfall)(jnp.asarray(SCALES)),
    }


@pytest.mark.parametrize("name", CASES)
def test_sums_of_planes_are_those_of_psi(name: str) -> None:
    problem, x, y = CASES[name]()
    x, y = padded(problem.padding, x, y)
    if problem.padding is not None and problem.padding.complete is not None:
        x = problem.padding.complete(x)
    x, y = jax.tree.map(lambda leaf: np.asarray(leaf)[:B], (x, y))
    n, w = len(jax.tree.leaves(y)[0]), weights(problem, 0)
    c = np.random.default_rng(1).normal(size=(n, K)).astype(np.float32)
    found = jax.device_get(asked(problem, w, weights(problem, 2, K - 1), x, y, c))
    psi, own = flat(found["psi"], 2).astype(float), flat(w, 0).astype(float)
    away = psi[:, :1] - psi
    assert np.abs(away).max() > 0.1

    def close(found: Any, wanted: np.ndarray) -> None:
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())

    close(found["scores"], psi @ own)
    close(found["values"] - found["values"][:, :1], -away @ own)
    close(flat(found["sum"], 0), own + np.einsum("bk,bkd->d", c, psi))
    close(found["gram"], np.einsum("bkd,bd->bk", away, away[:, 1]))
    close(found["norms"], np.square(away).sum(axis=2))
    close(found["squared norm"], own @ own)
    if found["shortfall"] is not None:
        assert found["shortfall"].max() < 1e-3
