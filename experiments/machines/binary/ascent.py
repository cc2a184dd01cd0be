"""Programs that train M binary machines: on whole kernel matrices, or on parts of large problems.

Where a kernel matrix of all examples of a machine fits, pairs are chosen among all of them. Else
they are chosen within a part, the examples that violate most on either side (Joachims 1999,
decomposition), for which alone a kernel matrix is made; the scores of the others follow through
the weights, so that n^2 numbers are never held.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from experiments.machines.binary.examples import (
    Examples,
    centred_gram_of,
    gram_of,
    number_of,
    scores_of,
    scores_of_all,
    weights_of,
)
from experiments.machines.binary.pairwise_ascent import (
    Terms,
    movable,
    pairwise_ascent,
    violation_of,
)
from jaxstruct.core.compiling import program
from jaxstruct.core.types import Array

STEPS = 20
"""Most pairwise steps on a part, in multiples of its size."""
ROUNDS = 50
"""Most parts that one call chooses."""
EASED = 0.1
"""A part is solved to this fraction of the violation that chose it."""


def _grams(examples: Examples, members: Array) -> Array:
    return jax.lax.map(lambda index: centred_gram_of(examples, index), members)


def _gram(examples: Examples) -> Array:
    return gram_of(examples, jnp.arange(number_of(examples)))


def _grams_of(examples: Examples, index: Array, wanted: Array, dtype: Any) -> Array:
    """[M, q, q] of the machines that want theirs, zeros of the others."""
    q = index.shape[1]

    def of_one(one: tuple[Array, Array]) -> Array:
        own, wants = one
        zeros = jnp.zeros((q, q), dtype)
        return jax.lax.cond(wants, lambda: centred_gram_of(examples, own), lambda: zeros)

    return jax.lax.map(of_one, (index, wanted))


def _ascend_whole(gram: Array, terms: Terms, v: Array, goal: Array) -> tuple[Array, Array, Array]:
    """Steps over all examples."""
    limit = STEPS * v.shape[1] + 1000
    return pairwise_ascent(gram, terms, jnp.zeros_like(v), v, goal, limit)


def _part(terms: Terms, change: Array, v: Array, half: int) -> Array:
    """[M, 2 half] places of the examples that violate most on either side; s where too few do."""
    machines, s = change.shape
    rows = jnp.arange(machines)[:, None]
    up, down = movable(terms, change)
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
    examples: Examples, members: Array | None, terms: Terms, v: Array, goal: Array, half: int
) -> tuple[Array, Array, Array]:
    """Rounds of: choose a part, solve it, bring the v of all up to date.

    members: [M, s] the examples of each machine, None where all have all.
    """
    rows = jnp.arange(len(goal))[:, None]

    def wanted(state: tuple) -> Array:
        _, _, _, found, count = state
        return jnp.any(found > goal) & (count < ROUNDS)

    def body(state: tuple) -> tuple:
        change, v, steps, found, count = state
        part = _part(terms, change, v, half)

        def some(values: Array) -> Array:
            return values.at[rows, part].get(mode="fill", fill_value=0)

        index = part
        if members is not None:
            outside = number_of(examples)
            index = members.at[rows, part].get(mode="fill", fill_value=outside)
        own = Terms(*(some(each) for each in terms))
        rest = jnp.where(found > goal, jnp.maximum(goal, EASED * found), jnp.inf)
        old = some(change)
        grams = _grams_of(examples, index, found > goal, old.dtype)
        new, _, made = pairwise_ascent(grams, own, old, some(v), rest, 2 * half * STEPS)
        step = (new - old) * own.signs
        v = v - _scores(examples, members, index, step)
        v = v.at[rows, part].add(-own.ridge * step, mode="drop")
        change = change.at[rows, part].set(new, mode="drop")
        return change, v, steps + made, violation_of(terms, change, v), count + 1

    change, counts = jnp.zeros_like(v), jnp.zeros(len(goal), jnp.int32)
    state = (change, v, counts, violation_of(terms, change, v), jnp.int32(0))
    change, _, steps, violation, _ = jax.lax.while_loop(wanted, body, state)
    return change, violation, steps


whole_gram = program(_gram)
grams = program(_grams)
ascend_whole = program(_ascend_whole)
ascend_parts = program(_ascend_parts, static_argnums=5)
