"""The recursion that all chain oracles share, batch last, for chains of first and second order.

A chain of order o remembers its last o labels. With c = 1 for first order and c = S for second,
prefix scores are alpha[S, c, E, B]: for first order the label y^t is axis 0; for second order
axis 0 is y^{t-1} and axis 1 is y^t. E counts what the oracle keeps for each of them (one score,
the levels, the k best) and B is the batch. A step takes the best label of axis 0 out:

    alpha'[y^t.., y^{t+1}] = max over axis 0 of (alpha + table) + addend

so the axes move up by one by a mere reshape, whatever the order is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.potentials import ChainPotentials
from jaxstruct.core.loops import scan_first
from jaxstruct.core.types import Array, PyTree

UNROLLED = 16
"""Up to so many labels a maximum over them is written out; a loop over more takes a few a round."""


class Step(NamedTuple):
    """What changes from position to position; for all of them with a leading axis of T - 1.

    Fields:
      index: t of the step from position t to t + 1.
      emissions: [S, B] of position t + 1.
      transitions, triples: of this step, or None where they are constant (or absent).
    """

    index: Array
    emissions: Array
    transitions: Array | None
    triples: Array | None


def batch_size(*arguments: ChainPotentials | Array) -> int:
    """B: the largest trailing axis (an argument that all examples share has 1)."""
    return max(leaf.shape[-1] for leaf in jax.tree.leaves(arguments))


def first_scores(potentials: ChainPotentials, batch: int) -> Array:
    """alpha of position 0, [S, c, 1, B].

    A chain of second order has no label before position 0: its place is taken by label 0 alone.
    """
    score = potentials.emissions[0]
    if potentials.start is not None:
        score = score + potentials.start
    score = jnp.broadcast_to(score, (score.shape[0], batch))
    if potentials.triples is None:
        return score[:, None, None]
    nothing = jnp.full((score.shape[0] - 1, *score.shape), -jnp.inf, score.dtype)
    return jnp.concatenate([score[None], nothing])[:, :, None]


def all_steps(potentials: ChainPotentials) -> Step:
    """The steps of a chain, to scan over."""
    emissions, transitions, _, _, triples = potentials
    count = emissions.shape[0] - 1
    varying_triples = None
    if triples is not None and triples.ndim == 5:
        before = jnp.zeros((1, *triples.shape[1:]), triples.dtype)
        varying_triples = jnp.concatenate([before, triples])[:count]
    return Step(
        index=jnp.arange(count),
        emissions=emissions[1:],
        transitions=transitions if transitions.ndim == 4 else None,
        triples=varying_triples,
    )


def table_and_addend(potentials: ChainPotentials, step: Step) -> tuple[Array, Array]:
    """The table [S, c, S, 1 or B] and the addend [1 or c, S, 1 or B] of one step."""
    transitions = potentials.transitions if step.transitions is None else step.transitions
    if potentials.triples is None:
        return transitions[:, None], step.emissions[None]
    triples = potentials.triples if step.triples is None else step.triples
    table = jnp.where(step.index == 0, 0, triples)  # the first step has no label before it
    return table, step.emissions[None] + transitions


def accumulate(
    count: int, chunk: int, reduction: Callable, first: PyTree, term: Callable
) -> PyTree:
    """reduction(.. reduction(first, term(1), 1) .., term(count - 1), count - 1).

    A loop takes `chunk` terms at a time; with fewer than two rounds of it there is no loop.
    """

    def several(value: PyTree, labels: Iterable) -> PyTree:
        return reduce(lambda value, s: reduction(value, term(s), s), labels, value)

    rounds = (count - 1) // chunk
    if rounds < 2:
        return several(first, range(1, count))
    rest = count - rounds * chunk

    def body(i: Array, value: PyTree) -> PyTree:
        return several(value, (rest + i * chunk + j for j in range(chunk)))

    return jax.lax.fori_loop(0, rounds, body, several(first, range(1, rest)))


def best_before(alpha: Array, table: Array) -> Array:
    """[c, S, E, B]: max over axis 0 of alpha[:, :, None] + table[:, :, :, None].

    With E > 1 there always is a loop, even of a few labels: what reads the result at several levels
    would otherwise compute it several times over.
    """
    S, _, E, _ = alpha.shape
    chunk = 4 if S > UNROLLED else 8 if E == 1 else max(1, min(4, (S - 1) // 2))

    def term(s: Array | int) -> Array:
        return alpha[s][:, None] + table[s][:, :, None]

    return accumulate(S, chunk, lambda best, new, _: jnp.maximum(best, new), term(0), term)


def argmax_first(count: int, term: Callable, loop: bool = False) -> tuple[Array, Array]:
    """(max, argmax) over s = 0..count - 1 of term(s); ties to the lowest s.

    With `loop` there is a loop even for a few labels, for a result that is read several times.
    """
    chunk = max(1, min(2, (count - 1) // 2)) if loop and count <= UNROLLED else 8

    def reduction(best: tuple[Array, Array], new: Array, s: Array | int) -> tuple[Array, Array]:
        better = new > best[0]
        return jnp.where(better, new, best[0]), jnp.where(better, s, best[1])

    first = term(0)
    return accumulate(count, chunk, reduction, (first, jnp.zeros(first.shape, jnp.int32)), term)


def chosen(inside: Array, new: PyTree, old: PyTree) -> PyTree:
    """`new` in the columns of the batch that are `inside`, `old` in the others."""

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(inside.reshape((1,) * (new.ndim - 1) + (-1,)), new, old)

    return jax.tree.map(choose, new, old)


def forward(
    potentials: ChainPotentials, length: Array, alpha: PyTree, advance: Callable, keep: bool = True
) -> tuple[PyTree, PyTree | None]:
    """Run the recursion. After the last position of a sequence its prefix scores stay the same.

    It ends with the longest sequence of the batch, however far they are padded.

    Args:
      potentials: batch last.
      length: [1 or B].
      alpha: [S, c, E, B] at position 0.
      advance: (alpha, table, addend, index) -> alpha of position index + 1.
      keep: whether to return the prefix scores of all positions.

    Returns:
      alpha at the last position of every sequence, and [T - 1, S, c, E, B] at positions 0..T - 2
      (0 from the last one of the longest sequence on); pytrees of such, if alpha is one.
    """

    def body(alpha: PyTree, step: Step) -> tuple[PyTree, PyTree | None]:
        new = advance(alpha, *table_and_addend(potentials, step), step.index)
        return chosen(step.index + 1 < length, new, alpha), alpha if keep else None

    return scan_first(body, alpha, all_steps(potentials), jnp.max(length) - 1)


def with_stop(potentials: ChainPotentials, alpha: Array) -> Array:
    """Scores of whole sequences by their last labels, [S, c, E, B]."""
    if potentials.stop is None:
        return alpha
    stop = potentials.stop
    last = stop[:, None, None] if potentials.triples is None else stop[None, :, None]
    return alpha + last


def flat_index(index: Array, width: int) -> Array:
    """The place of entry `index[.., b]` of column b, where one axis holds entries and columns."""
    if width == 1:
        return index
    return index * width + jnp.arange(width).reshape((1,) * (index.ndim - 1) + (-1,))


def at_columns(table: Array, index: Array) -> Array:
    """[S, .., B] of a table [S, M, 1 or B]: entry (s, index[.., b], b); 0 <= index < M.

    A few columns are selected, as gathering does not vectorise on a CPU.
    """
    S, M, width = table.shape
    if M > 4:
        rows = table.reshape(S, M * width)
        return rows.at[:, flat_index(index, width)].get(mode="promise_in_bounds")
    columns = [table[:, m].reshape(S, *(1,) * (index.ndim - 1), width) for m in range(M)]
    result = jnp.broadcast_to(columns[0], (S, *index.shape))
    for m in range(1, M):
        result = jnp.where((index == m)[None], columns[m], result)
    return result
