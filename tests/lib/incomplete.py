"""Outputs of which a part is known against all outputs, written once for all output types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.contract import Bounded, Truth
from jaxstruct.core.padding import padded
from jaxstruct.core.transposition import linear_leaves, with_linear_leaves
from tests.lib.enumeration import flat

Outputs = Callable[[int], tuple[Any, np.ndarray, np.ndarray]]
"""The number of an example -> (all its K outputs, padded to some size; [K] bool, which agree with
what is known; [K] Delta of each)."""


def padded_as(like: Any, every: Any, count: int) -> Any:
    """Outputs [K, ..] with -1 up to the sizes of one output, the first again up to `count`."""

    def of_leaf(leaf: np.ndarray, wanted: jax.Array) -> np.ndarray:
        more = np.subtract(wanted.shape, leaf.shape[1:])
        leaf = np.pad(leaf, [(0, 0), *((0, int(n)) for n in more)], constant_values=-1)
        return np.concatenate([leaf, np.repeat(leaf[:1], count - len(leaf), axis=0)])

    return jax.tree.map(of_leaf, every, like)


def place_of(every: Any, output: Any) -> int:
    """Where an output stands in the list of all."""
    found = np.flatnonzero((flat(every, 1) == flat(output, 0)).all(axis=1))
    assert len(found) == 1, output
    return int(found[0])


def weights(problem: js.Problem, random: np.random.Generator, n: int) -> Any:
    """[n] weights: one after the other reals, small integers for ties, zeros."""

    def of_leaf(leaf: jax.Array) -> np.ndarray:
        drawn = np.empty((n, *leaf.shape))
        for i in range(n):
            reals = random.normal(size=leaf.shape)
            drawn[i] = (reals, random.integers(-1, 2, leaf.shape), 0 * reals)[i % 3]
        return drawn.astype(leaf.dtype)

    return jax.tree.map(of_leaf, problem.initial_weights)


def _likelihoods(problem: js.Problem, theta: Any, truth: Truth, every: Any, agrees: Any) -> tuple:
    """-log P of all that agree, as the problem has it and listed, each with its slopes."""

    def own(leaves: list) -> jax.Array:
        return problem.inference.log_loss(with_linear_leaves(theta, leaves), truth)

    def listed(leaves: list) -> jax.Array:
        F = jax.vmap(problem.model.score, (None, 0))(with_linear_leaves(theta, leaves), every)
        among = [jnp.where(which, F, -jnp.inf) for which in (agrees >= 0, agrees > 0)]
        return jax.nn.logsumexp(among[0]) - jax.nn.logsumexp(among[1])

    return tuple(jax.value_and_grad(each)(linear_leaves(theta)) for each in (own, listed))


def _asked(problem: js.Problem, log_loss: bool, one: tuple) -> dict[str, Any]:
    """What is asked of one example; agrees: [K] 1 where an output agrees, 0, -1 beyond the list."""
    w, x, known, every, agrees = one
    theta = problem.model.potentials(w, x)
    h = problem.model.complete(theta, known)
    truth = Truth(h, known)
    found = problem.oracles.loss_augmented_decode(theta, truth, jnp.ones((), theta[0].dtype))
    return {
        "F": jax.vmap(problem.model.score, (None, 0))(theta, every),
        "completed": h,
        "losses": jax.vmap(problem.model.loss, (None, 0))(truth, every),
        "violated": found.output if isinstance(found, Bounded) else found,
        "likelihoods": _likelihoods(problem, theta, truth, every, agrees) if log_loss else None,
    }


_ask = jax.jit(jax.vmap(_asked, (None, None, 0)), static_argnums=1)


def _listed(data: Any, outputs: Outputs) -> tuple[Any, Any, Any, np.ndarray, list]:
    """(inputs, known, all outputs [n, K], [n, K] which agree, [n] (agrees, Delta))."""
    x, y = padded(data[0].padding, data[1], Truth(*data[2]))
    each = [outputs(i) for i in range(len(jax.tree.leaves(y)[0]))]
    count, like = max(len(agrees) for _, agrees, _ in each), jax.tree.map(lambda a: a[0], y.output)
    every = [padded_as(like, own, count) for own, *_ in each]
    marks = np.full((len(each), count), -1)
    for row, (_, agrees, _) in zip(marks, each, strict=True):
        row[: len(agrees)] = agrees
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *every)
    return x, y.numbers, stacked, marks, [own[1:] for own in each]


def check_completions(
    data: Any, outputs: Outputs, log_loss: bool = True, tolerance: float | None = None
) -> None:
    """Completions, losses, violated outputs and likelihoods of every example are as defined."""
    problem = data[0]
    x, known, every, marks, listed = _listed(data, outputs)
    w = weights(problem, np.random.default_rng(0), len(marks))
    given = (w, x, known, every, marks)
    found = jax.tree.map(np.asarray, _ask(problem, log_loss, given))
    if tolerance is None:
        tolerance = 1e-9 if jax.tree.leaves(w)[0].dtype == np.float64 else 1e-4
    for i, (agrees, delta) in enumerate(listed):
        K, own = len(agrees), jax.tree.map(lambda leaf, i=i: leaf[i], found)
        F, all_ = own["F"][:K], jax.tree.map(lambda leaf, i=i, K=K: leaf[i][:K], every)
        assert agrees.any()
        place = place_of(all_, own["completed"])
        assert agrees[place] and F[place] == pytest.approx(F[agrees].max(), abs=tolerance)
        np.testing.assert_allclose(own["losses"][:K], delta, atol=tolerance)
        assert not own["losses"][:K][agrees].any()
        place = place_of(all_, own["violated"])
        assert (F + delta)[place] == pytest.approx((F + delta).max(), abs=tolerance)
    if log_loss:
        mine, wanted = found["likelihoods"]
        np.testing.assert_allclose(mine[0], wanted[0], atol=tolerance)
        for slope, other in zip(mine[1], wanted[1], strict=True):
            np.testing.assert_allclose(slope, other, atol=10 * tolerance)
    w, x, known = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[0]), given[:3])
    complete = problem.model.complete
    h = jax.eval_shape(lambda: complete(problem.model.potentials(w, x), known))
    assert jax.tree.all(jax.tree.map(lambda a, b: a.shape == b.shape[1:], h, found["completed"]))


@jax.jit
def _scores(problem: js.Problem, w: Any, x: Any, every: Any) -> jax.Array:
    """[n, K] F of all outputs."""

    def of_one(x: Any, every: Any) -> jax.Array:
        theta = problem.model.potentials(w, x)
        return jax.vmap(problem.model.score, (None, 0))(theta, every)

    return jax.vmap(of_one)(x, every)


def check_training(data: Any, outputs: Outputs, C: float, **options: Any) -> js.Solution:
    """`fit_latent` ends at a critical point whose J is as defined, and J never rose."""
    found: Any = js.fit_latent(*data, C=C, **options)
    assert found.status is js.Status.CONVERGED
    course = found.details.trace.objective[~found.details.trace.warm]
    assert (np.diff(course) <= 0).all()
    x, _, every, _, listed = _listed(data, outputs)
    J = sum(float(np.sum(np.square(leaf))) for leaf in jax.tree.leaves(found.weights)) / 2
    scores = np.asarray(_scores(data[0], found.weights, x, every), float)
    for F, (agrees, delta) in zip(scores, listed, strict=True):
        F = F[: len(agrees)]
        J += C / len(listed) * ((F + delta).max() - F[agrees].max())
    assert found.primal == pytest.approx(J, rel=1e-6)
    return found
