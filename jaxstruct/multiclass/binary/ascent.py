"""Programs that train M binary machines: on whole kernel matrices, or on parts of large problems.

Where a kernel matrix of all examples of a machine fits, pairs are chosen among all of them. Else
they are chosen within a part, the examples that violate most on either side (Joachims 1999,
decomposition), for which alone a kernel matrix is made; the scores of the others follow through
the weights, so that n^2 numbers are never held.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.compiling import program
from jaxstruct.core.types import Array
from jaxstruct.multiclass.binary.examples import (
    Examples,
    gram_of,
    number_of,
    scores_of,
    scores_of_all,
    weights_of,
)
from jaxstruct.multiclass.binary.pairwise_ascent import (
    Terms,
    gradients,
    movable,
    pairwise_ascent,
    range_of,
)

STEPS = 20
"""Most pairwise steps on a part, in multiples of its size."""
ROUNDS = 50
"""Most parts that one call chooses."""
EASED = 0.1
"""A part is solved to this fraction of the violation that chose it."""


class Point(NamedTuple):
    """Where M machines stand.

    Fields:
      alpha: [M, s]. scores: [M, s] f_i without the bias. steps: [M] pairwise steps so far.
    """

    alpha: Array
    scores: Array
    steps: Array


def _grams(examples: Examples, members: Array) -> Array:
    return jax.lax.map(lambda index: gram_of(examples, index), members)


def _grams_of(examples: Examples, index: Array, wanted: Array, dtype: Any) -> Array:
    """[M, q, q] of the machines that want theirs, zeros of the others."""
    q = index.shape[1]

    def of_one(one: tuple[Array, Array]) -> Array:
        own, wants = one
        zeros = jnp.zeros((q, q), dtype)
        return jax.lax.cond(wants, lambda: gram_of(examples, own), lambda: zeros)

    return jax.lax.map(of_one, (index, wanted))


def _scores_by_gram(gram: Array, beta: Array) -> Array:
    highest = jax.lax.Precision.HIGHEST
    if gram.ndim == 2:
        return jnp.matmul(beta, gram, precision=highest)
    return jnp.einsum("mj,mji->mi", beta, gram, precision=highest)


def _ascend_whole(gram: Array, terms: Terms, point: Point, goal: Array) -> Point:
    """Steps over all examples, from scores that are made anew."""
    scores = _scores_by_gram(gram, point.alpha * terms.signs)
    limit = STEPS * point.alpha.shape[1] + 1000
    alpha, _, steps = pairwise_ascent(gram, terms, point.alpha, scores, goal, limit)
    return Point(alpha, _scores_by_gram(gram, alpha * terms.signs), point.steps + steps)


def _part(terms: Terms, alpha: Array, v: Array, half: int) -> Array:
    """[M, 2 half] places of the examples that violate most on either side; s where too few do."""
    machines, s = alpha.shape
    rows = jnp.arange(machines)[:, None]
    up, down = movable(terms, alpha)
    high, first = jax.lax.top_k(jnp.where(up, v, -jnp.inf), half)
    first = jnp.where(jnp.isfinite(high), first, s)
    taken = jnp.zeros((machines, s), bool).at[rows, first].set(True, mode="drop")
    low, second = jax.lax.top_k(jnp.where(down & ~taken, -v, -jnp.inf), half)
    return jnp.concatenate([first, jnp.where(jnp.isfinite(low), second, s)], axis=1)


def _scores(examples: Examples, members: Array | None, index: Array, beta: Array) -> Array:
    """[M, s] of all examples of each machine, for multipliers of some of them."""
    weights = jax.lax.map(lambda one: weights_of(examples, *one), (index, beta))
    if members is None:
        return scores_of_all(examples, weights.T).T
    return jax.lax.map(lambda one: scores_of(examples, *one), (weights, members))


def _ascend_parts(
    examples: Examples, members: Array | None, terms: Terms, point: Point, goal: Array, half: int
) -> Point:
    """Rounds of: choose a part, solve it, bring the scores of all up to date.

    members: [M, s] the examples of each machine, None where all have all.
    """
    rows = jnp.arange(len(goal))[:, None]

    def violation(point: Point) -> Array:
        v = gradients(terms, point.alpha, point.scores)
        return range_of(terms, point.alpha, v).violation

    def wanted(state: tuple) -> Array:
        _, found, count = state
        return jnp.any(found > goal) & (count < ROUNDS)

    def body(state: tuple) -> tuple:
        point, found, count = state
        part = _part(terms, point.alpha, gradients(terms, point.alpha, point.scores), half)

        def some(values: Array) -> Array:
            return values.at[rows, part].get(mode="fill", fill_value=0)

        index = part
        if members is not None:
            outside = number_of(examples)
            index = members.at[rows, part].get(mode="fill", fill_value=outside)
        own = Terms(*(some(each) for each in terms))
        rest = jnp.where(found > goal, jnp.maximum(goal, EASED * found), jnp.inf)
        old = some(point.alpha)
        new, _, steps = pairwise_ascent(
            _grams_of(examples, index, found > goal, old.dtype),
            own,
            old,
            some(point.scores),
            rest,
            2 * half * STEPS,
        )
        moved = _scores(examples, members, index, (new - old) * own.signs)
        alpha = point.alpha.at[rows, part].set(new, mode="drop")
        point = Point(alpha, point.scores + moved, point.steps + steps)
        return point, violation(point), count + 1

    point, _, _ = jax.lax.while_loop(wanted, body, (point, violation(point), jnp.int32(0)))
    scores = _all_scores(examples, members, point.alpha * terms.signs)
    return point._replace(scores=scores)


def _all_scores(examples: Examples, members: Array | None, beta: Array) -> Array:
    """[M, s] scores made anew from all multipliers."""
    machines, s = beta.shape
    index = jnp.broadcast_to(jnp.arange(s), (machines, s)) if members is None else members
    return _scores(examples, members, index, beta)


def _weights(examples: Examples, members: Array, beta: Array) -> Array:
    """[d, M] w of each machine (2.12); coefficients [n, M] of a kernel matrix."""
    return jax.lax.map(lambda one: weights_of(examples, *one), (members, beta)).T


grams = program(_grams)
ascend_whole = program(_ascend_whole)
ascend_parts = program(_ascend_parts, static_argnums=5)
expansion = program(_weights)
