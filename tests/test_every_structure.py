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

B, SCALES = 3, np.array([0, 0, 0, 0.5, 2.0], np.float32)
"""Examples, and of each the true output, then the best by other weights, where the scale of the
loss is 0, and by the weights themselves."""
K, OTHERS = 1 + len(SCALES), int(np.sum(SCALES == 0))


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
    augmented = problem.oracles.loss_augmented_decode

    def F(w: Any, x: Any, y: Any) -> jax.Array:
        return model.score(model.potentials(w, x), y)

    def best(w: Any, scale: jax.Array, x: Any, y_true: Any) -> Any:
        theta = model.potentials(w, x)
        return model.decode(theta) if augmented is None else augmented(theta, y_true, scale)

    found = jax.vmap(jax.vmap(best, (0, 0, None, None)), (None, None, 0, 0))(
        others, jnp.asarray(SCALES), x, y_true
    )
    bounded = isinstance(found, Bounded)
    y = jax.tree.map(
        lambda own, more: jnp.concatenate([own[:, None], more], axis=1),
        truth, found.output if bounded else found,
    )  # fmt: skip
    theta = jax.vmap(model.potentials, (None, 0))(w, x)
    return {
        "psi": jax.vmap(jax.vmap(jax.grad(F), (None, None, 0)), (None, 0, 0))(w, x, y),
        "scores": jax.vmap(space.plane_scores)(theta, y),
        "losses": jax.vmap(jax.vmap(model.loss, (None, 0)))(y_true, y),
        "bounds": found.bound if bounded else None,
        "values": space.plane_values(w, x, y),
        "sum": space.add_planes(w, x, y, c),
        "gram": jax.vmap(space.plane_gram)(x, truth, y, jax.tree.map(lambda leaf: leaf[:, 1], y)),
        "norms": jax.vmap(space.plane_norms)(x, truth, y),
        "squared norm": space.squared_norm(w, x),
    }


@pytest.mark.parametrize("name", CASES)
def test_sums_of_planes_are_those_of_psi(name: str) -> None:
    problem, x, y = CASES[name]()
    x, y = padded(problem.padding, x, y)
    if problem.padding is not None and problem.padding.complete is not None:
        x = problem.padding.complete(x)
    x, y = jax.tree.map(lambda leaf: np.asarray(leaf)[:B], (x, y))
    n, w = len(jax.tree.leaves(y)[0]), weights(problem, 0)
    others = jax.tree.map(lambda a, b: np.stack([*a, b, b]), weights(problem, 2, OTHERS), w)
    c = np.random.default_rng(1).normal(size=(n, K)).astype(np.float32)
    found = jax.device_get(asked(problem, w, others, x, y, c))
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
    if problem.oracles.loss_augmented_decode is not None:  # none of the K is better
        for k in range(OTHERS, K - 1):
            values = found["scores"] + SCALES[k] * found["losses"]
            reached = values[:, 1 + k] if found["bounds"] is None else found["bounds"][:, k]
            assert (values.max(axis=1) - reached).max() < 1e-3
