"""The recursion of all alignment oracles, forward and back, batch last, over any `core.semiring`.

    P[i, j] = plus(H[i-1, j-1] times pairs[i, j], begin)                  a pair, or the begin
    D[i, j] = plus(plus(P, G)[i-1, j] times -open, D[i-1, j] times -extend)  of the first on a gap
    G[i, j] = plus(plus(P, D)[i, j-1] times -open, G[i, j-1] times -extend)  of the second on a gap
    H[i, j] = plus(P, D, G)[i, j]

(Gotoh 1982.) An alignment begins everywhere (local) or at (0, 0). A run opens after something else
only. Its cost is then exact whatever the two costs are, also while they are learned. (Gotoh opens
it from H, which needs open >= extend.) A string of operations is one path through these states.

The cells of an anti-diagonal i + j = d depend on the two diagonals before it only. So a diagonal is
one step of a scan, which computes its cells for all pairs of a batch side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.alignments.potentials import DELETE, INSERT, PADDING, PAIR, AlignmentPotentials
from jaxstruct.core.batch_last import batch_size, in_column_blocks, of_one_example
from jaxstruct.core.semiring import Best
from jaxstruct.core.types import Array, PyTree

END, BEGIN = 3, -1
"""Behind and before the states, which are numbered as their operations PAIR, DELETE, INSERT."""
BLOCK, NARROWEST = 1 << 20, 16
"""Floats of a block of pairs at most, 4 MB, and its least number of pairs. 1,024 pairs of 50 x 50
letters are 69,000 best alignments a second in such blocks, in one batch 47,000."""


class Given(NamedTuple):
    """What is aligned, batch last.

    Fields:
      potentials: pairs [M, N, B], gaps [B]. lengths: [2, B].
      begin: [*E, B] values of the empty alignment.
      steps: [M, N, B] int32 the steps that pairs make from place to place, or None.
    """

    potentials: AlignmentPotentials
    lengths: Array
    begin: PyTree
    steps: Array | None = None


class States(NamedTuple):
    """Values [*E, M + 1, B] of P, D and G of the cells (i, d - i) of one diagonal, by i."""

    paired: PyTree
    delete: PyTree
    insert: PyTree


class Diagonal(NamedTuple):
    """What is known of a diagonal d once it is computed, [*E, M + 1, B].

    Fields:
      begins: the begin. paired: P without it. opened, later: of D and of G, before they are joined.
      states: P, D and G. whole: H. inside: whether there is a cell. ends: whether an alignment may
        end in it.
    """

    d: Array
    begins: PyTree
    paired: PyTree
    opened: tuple[PyTree, PyTree]
    later: tuple[PyTree, PyTree]
    states: States
    whole: PyTree
    inside: Array
    ends: Array


def _skewed(table: Array) -> Array:
    """[M + N + 1, M + 1, B] table[i - 1, d - i - 1] by diagonal d and i; 0 where there is none."""
    M, N, B = table.shape
    wide = jnp.pad(table, ((0, 0), (0, M), (0, 0)))  # row i moves by i when rows lose a column
    flat = wide.reshape(M * (N + M), B)[: M * (N + M - 1)]
    by_diagonal = jnp.swapaxes(flat.reshape(M, N + M - 1, B), 0, 1)
    return jnp.pad(by_diagonal, ((2, 0), (1, 0), (0, 0)))


def _below(values: PyTree) -> PyTree:
    """The cells (i - 1, .), moved to the places of (i, .)."""

    def moved(leaf: Array) -> Array:
        first = jnp.full_like(leaf[..., :1, :], -jnp.inf)
        return jnp.concatenate([first, leaf[..., :-1, :]], axis=-2)

    return jax.tree.map(moved, values)


def only(condition: Array, values: PyTree) -> PyTree:
    """Values where the condition [M + 1, B] holds, else none."""
    return jax.tree.map(lambda leaf: jnp.where(condition, leaf, -jnp.inf), values)


def forward(
    rule: Best, local: bool, given: Given, note: Callable, tally: Callable | None = None,
    total: PyTree = None,
) -> tuple[PyTree, PyTree]:  # fmt: skip
    """Run the recursion.

    Args:
      local: whether an alignment begins and ends anywhere, not at the first and last letters.
      note: Diagonal -> what is kept of it.
      tally: (total, Diagonal) -> total, from the `total` before the first diagonal.

    Returns:
      (the total, what is kept [M + N + 1, ..]).
    """
    (pairs, *gaps), lengths, begin, steps = given
    gap_open, gap_extend = (-gap[None] for gap in gaps)
    M, N, _ = pairs.shape
    batch = batch_size(given)
    rows, last = jnp.arange(M + 1)[:, None], jnp.sum(lengths, axis=0, keepdims=True)
    empty = jax.tree.map(lambda leaf: jnp.expand_dims(leaf, -2), begin)

    def step(carry: tuple, this: tuple) -> tuple[tuple, PyTree]:
        (P, D, G), whole, before, total = carry
        d, scores, ways = this
        opened_insert = rule.times(rule.plus(P, D), gap_open)
        opened_delete = rule.times(_below(rule.plus(P, G)), gap_open)
        later = rule.times(_below(D), gap_extend), rule.times(G, gap_extend)
        paired = rule.moved(rule.times(_below(before), scores), ways)  # it crosses two diagonals
        begins = only(jnp.broadcast_to(local | (d == 0), (M + 1, batch)), empty)
        found = (
            rule.plus(begins, paired),
            rule.plus(opened_delete, later[0]),
            rule.plus(opened_insert, later[1]),
        )
        inside = (rows <= lengths[:1]) & (d - rows <= lengths[1:]) & (d >= rows)
        states = States(*(only(inside, value) for value in found))
        new = rule.join(*states)
        ends = local | ((rows == lengths[:1]) & (d == last))
        own = Diagonal(
            d, begins, paired, (opened_delete, opened_insert), later, states, new, inside, ends
        )
        return (states, new, whole, tally and tally(total, own)), note(own)

    never = jax.tree.map(
        lambda leaf: jnp.full((*leaf.shape[:-2], M + 1, batch), -jnp.inf, pairs.dtype), empty
    )
    scanned = (
        jnp.arange(M + N + 1, dtype=jnp.int32),
        _skewed(jnp.broadcast_to(pairs, (M, N, batch))),
        None if steps is None else _skewed(jnp.broadcast_to(steps, (M, N, batch))),
    )
    carry = States(never, never, never), never, never, total
    (*_, total), kept = jax.lax.scan(step, carry, scanned)
    return total, kept


def values(rule: Best, local: bool, given: Given) -> States:
    """P without the begin, D and G of all cells, [M + N + 1, *E, M + 1, B]."""

    def note(own: Diagonal) -> States:
        return own.states._replace(paired=only(own.inside, own.paired))

    return forward(rule, local, given, note)[1]


def _at(leaf: Array, *place: Array) -> Array:
    """[*E, *Q, B] of a leaf [.., *E, .., B] at places [*Q, B] of axis 0 and of axis -2."""
    column = jnp.arange(leaf.shape[-1]).reshape((1,) * (place[0].ndim - 1) + (-1,))
    index = *place, jnp.broadcast_to(column, place[0].shape)
    return leaf[index] if leaf.ndim == 3 else jax.vmap(lambda own: own[index], 1)(leaf)


def ends(rule: Best, local: bool, given: Given, kept: States) -> tuple[PyTree, Array, Array]:
    """(values [*E, n, B] of what ends in cells, their diagonals [n, B], their i [n, B]).

    The empty alignment is one, and ends at (0, 0).
    """
    batch = batch_size(given)
    if not local:
        d, i = (
            jnp.broadcast_to(place, (1, batch))
            for place in (jnp.sum(given.lengths, axis=0, dtype=jnp.int32), given.lengths[0])
        )
        states = jax.tree.map(lambda leaf: _at(leaf, d, i), kept)
    else:
        diagonals, *_, rows, _ = jax.tree.leaves(kept)[0].shape
        d, i = (
            jnp.broadcast_to(place.reshape(-1, 1), (diagonals * rows, batch))
            for place in jnp.indices((diagonals, rows), dtype=jnp.int32)
        )

        def cells(leaf: Array) -> Array:
            leaf = jnp.moveaxis(leaf, 0, -3)
            return leaf.reshape(*leaf.shape[:-3], -1, batch)

        states = jax.tree.map(cells, kept)

    def with_empty(leaf: Array, begin: Array) -> Array:
        return jnp.where(d == 0, jnp.where(i == 0, begin[..., None, :], -jnp.inf), leaf)

    return jax.tree.map(with_empty, rule.join(*states), given.begin), d, i


def by_values(rule: Best, local: bool, given: Given, kept: States) -> Callable:
    """The `source` of `trace_back`, from all values; arguments as in `ends`, kept of `values`."""
    (pairs, gap_open, gap_extend), _, begin, steps = given
    M, N, _ = pairs.shape

    def source(state: Array, d: Array, i: Array, place: Array, noise: Any) -> tuple:
        pair, delete, end = state == PAIR, state == DELETE, state == END
        there = (d >= 0) & (i >= 0) & (i <= d)
        d, i = jnp.maximum(d, 0), jnp.clip(i, 0, M)
        letters = jnp.minimum(i, M - 1), jnp.clip(d - i, 0, N - 1)
        score = jnp.where(pair, _at(pairs, *letters), 0)
        other, own = (jnp.where(pair | end, score, -cost) for cost in (gap_open, gap_extend))
        begins = (d == 0) | (jnp.asarray(local) & ~end)

        def alternatives(begin: Array, *leaves: Array) -> Array:
            P, D, G = (jnp.where(there, _at(leaf, d, i), -jnp.inf) for leaf in leaves)
            begin = begin.reshape(*begin.shape[:-1], *(1,) * (d.ndim - 1), -1)
            empty = jnp.where(begins, begin, -jnp.inf)
            others = jnp.where(delete, G, D), jnp.where(delete, D, G)
            return jnp.stack([jnp.broadcast_to(empty, P.shape), P, *others], axis=rule.leading)

        found = jax.tree.map(alternatives, begin, *kept)
        way = None if steps is None else jnp.where(pair, _at(steps, *letters), 0)[None]
        n, place = rule.choose(found, jnp.stack([other] * 3 + [own]), place, way, noise)
        return jnp.where(delete & (n > 1), 4 - n, n - 1).astype(jnp.int32), place

    return source


def trace_back(
    source: Callable, end: tuple[Array, Array, Array], length: int, noise: Array | None = None
) -> tuple[Array, Array]:
    """The alignments that end in some cells.

    Args:
      source: (state, d, i, place, noise) -> (state, place) before a state that is reached from cell
        (i, d - i); END is reached from the cell itself.
      end: (d, i, place) of each, [*Q, B] int32. length: M + N.
      noise: [M + N + 1, 4, *Q, B] of `Sums`.

    Returns:
      (operations [M + N, *Q, B], begin [2, *Q, B]).
    """

    def step(at: tuple, noise: Any) -> tuple[tuple, Array]:
        state, d, i, place = at
        done = state == BEGIN
        d = jnp.where(done, d, d - jnp.where(state == PAIR, 2, 1))
        i = jnp.where(done, i, i - (state != INSERT))
        new, place = source(state, d, i, place, noise)
        return (jnp.where(done, BEGIN, new), d, i, place), jnp.where(done, PADDING, state)

    d, i, place = end
    first, rest = (None, None) if noise is None else (noise[0], noise[1:])
    state, place = source(jnp.full_like(d, END), d, i, place, first)
    (_, d, i, _), backward = jax.lax.scan(step, (state, d, i, place), rest, length=length)
    return in_order(backward), jnp.stack([i, d - i])


def of_one(kernel: Callable, scores: Callable, values: int, narrowest: int = NARROWEST) -> Callable:
    """`of_one_example`, where blocks of a wide batch have tables that fit the caches.

    Args:
      kernel: of potentials, lengths and more, batch last. scores: of its alignments.
      values: floats a cell. narrowest: pairs a block at least; 1 where memory limits them, too.
    """

    def whole(potentials: AlignmentPotentials, *more: Array) -> Any:
        M, N, _ = potentials.pairs.shape
        width = max(narrowest, BLOCK // (values * (M + 1) * (M + N + 1)))
        return in_column_blocks(kernel, width, of_memory=narrowest == 1)(potentials, *more)

    return of_one_example(whole, scores)


def in_order(backward: Array) -> Array:
    """[L, ..] operations turned around, the PADDING still at the end."""
    steps = jnp.arange(backward.shape[0]).reshape(-1, *(1,) * (backward.ndim - 1))
    count = jnp.sum(backward != PADDING, axis=0, keepdims=True)
    places = jnp.where(steps < count, count - 1 - steps, steps)
    return jnp.take_along_axis(backward, places, axis=0)
