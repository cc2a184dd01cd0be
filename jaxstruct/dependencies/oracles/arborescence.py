"""The best tree of any shape: a maximum spanning arborescence with one word on the root.

Y. Chu and T. Liu 1965, J. Edmonds 1967, in a form that contracts nothing: a word m keeps the total
D(m) that was taken from its arcs when the component around it was closed, and a component enters by
the best arc (h, m) from outside, the largest theta(h, m) - D(m). A circle of such arcs becomes one
component, until there is none; then components are opened again, the last one first. Every round is
a few maxima over tables [T + 1, T], the same for all sentences of a batch.

Scores are pairs (penalty, number), compared in this order: an arc from the root costs a penalty of
1 and a forbidden one more than T. The best tree of pairs is the best one among those with one word
on the root, without large numbers that would take precision from the scores.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array
from jaxstruct.dependencies.potentials import PADDING

COLUMNS, LONG, FEW = 32, 32, 4
"""Columns of a block, and those of sentences of more words than LONG, whose tables leave the caches
otherwise. With 8 to 16 columns XLA's code takes up to four times as long as with 4 or 32."""


class _Pair(NamedTuple):
    """A score: integers, the less the better, then numbers, the larger the better."""

    penalty: Array
    number: Array


class _Rounds(NamedTuple):
    """What the rounds know; components go by their first word.

    Fields:
      at: the number of rounds made. open: whether some sentence still has a circle.
      component: [T, B] of each word. taken: [T, B] D.
      circle: [T, T, B] by round, whether a component was in the circle that it closed.
      head, child: [T, T, B] by round, the best arc into each component.
      before: [T, T, B] by round, the component of each word when it began.
    """

    at: Array
    open: Array
    component: Array
    taken: _Pair
    circle: Array
    head: Array
    child: Array
    before: Array


def _best_first(scores: _Pair, allowed: Array) -> tuple[_Pair, Array]:
    """(the best along axis 0, the lowest place of it) among those allowed; 0 of none."""
    penalty = jnp.where(allowed, scores.penalty, jnp.iinfo(jnp.int32).max)
    least = jnp.min(penalty, axis=0)
    number = jnp.where(allowed & (penalty == least[None]), scores.number, -jnp.inf)
    largest = jnp.max(number, axis=0)
    places = jnp.arange(number.shape[0], dtype=jnp.int32).reshape(-1, *(1,) * (number.ndim - 1))
    place = jnp.min(jnp.where(number == largest[None], places, number.shape[0]), axis=0)
    return _Pair(least, largest), jnp.where(place < number.shape[0], place, 0)


def _at(table: Array, index: Array) -> Array:
    """[.., B] table[index[.., b], b] of a table [T, B]."""
    return table[index, jnp.arange(table.shape[1]).reshape((1,) * (index.ndim - 1) + (-1,))]


def _scores(arcs: Array, length: Array) -> _Pair:
    """Arcs [T + 1, T, B] as pairs; padded words hang on the root without a penalty."""
    T = arcs.shape[1]
    head, child = jnp.arange(T + 1)[:, None, None], jnp.arange(T)[None, :, None]
    length = length.reshape(1, 1, -1)
    real = (head <= length) & (child < length) & (arcs > -jnp.inf)
    penalty = jnp.where(real, (head == 0).astype(jnp.int32), T + 2)
    penalty = jnp.where((child >= length) & (head == 0), 0, penalty)
    return _Pair(penalty, jnp.where(real, arcs, 0))


def _first_circle(into: Array) -> Array:
    """[T, B] the components on one circle of the arcs, all False where there is none.

    Args:
      into: [T, B] from which component the arc into each one comes, T for the root; of a word that
        is no component anything.
    """
    T, B = into.shape
    words = jnp.arange(T, dtype=jnp.int32)[:, None]
    steps = jnp.concatenate([into, jnp.full((1, B), T, jnp.int32)])
    ends = steps
    for _ in range(max(T, 2).bit_length()):
        ends = _at(ends, ends)
    now = jnp.min(ends[:T], axis=0)

    def walk(_: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        circle, now = found
        return circle | (words == now[None]), _at(steps, now[None])[0]

    return jax.lax.fori_loop(0, T, walk, (jnp.zeros((T, B), bool), now))[0]


def _entering(scores: _Pair, component: Array, taken: _Pair) -> tuple[_Pair, Array, Array]:
    """Of each component the best arc from outside: (its score, head, child), all [T, B]."""
    T, B = component.shape
    outside = jnp.full((1, B), T, jnp.int32)
    around = jnp.concatenate([outside, component])
    reduced = _Pair(scores.penalty - taken.penalty[None], scores.number - taken.number[None])
    of_word, head = _best_first(reduced, around[:, None] != component[None])
    own = component[:, None] == jnp.arange(T, dtype=jnp.int32)[None, :, None]
    spread = _Pair(*(jnp.broadcast_to(leaf[:, None], (T, T, B)) for leaf in of_word))
    best, child = _best_first(spread, own)
    return best, _at(head, child), child


def _round(scores: _Pair, now: _Rounds) -> _Rounds:
    """Closes one circle of each sentence that has one."""
    T, B = now.component.shape
    words = jnp.arange(T, dtype=jnp.int32)[:, None]
    best, head, child = _entering(scores, now.component, now.taken)
    around = jnp.concatenate([jnp.full((1, B), T, jnp.int32), now.component])
    is_component = now.component == words
    into = jnp.where(is_component, _at(around, head), T)
    circle = _first_circle(into)
    first = jnp.min(jnp.where(circle, words, T), axis=0)
    inside = _at(circle, now.component)

    def put(table: Array, rows: Array) -> Array:
        return jax.lax.dynamic_update_index_in_dim(table, rows.astype(table.dtype), now.at, 0)

    return _Rounds(
        now.at + 1,
        jnp.any(circle),
        jnp.where(inside, first[None], now.component),
        _Pair(*(
            total + jnp.where(inside, _at(own, now.component), 0)
            for total, own in zip(now.taken, best, strict=True)
        )),
        put(now.circle, circle), put(now.head, head), put(now.child, child),
        put(now.before, now.component),
    )  # fmt: skip


def _opened(rounds: _Rounds) -> Array:
    """[T, B] the heads: circles are opened where they are entered, the last one first."""
    T = rounds.component.shape[0]
    words = jnp.arange(T, dtype=jnp.int32)[:, None]

    def turn(step: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        head, child = found
        at = rounds.at - 2 - step
        circle, before = rounds.circle[at], rounds.before[at]
        first = jnp.min(jnp.where(circle, words, T - 1), axis=0)[None]
        entered, entering = _at(child, first), _at(head, first)
        through = _at(before, entered)
        head = jnp.where(circle, jnp.where(words == through, entering, rounds.head[at]), head)
        child = jnp.where(circle, jnp.where(words == through, entered, rounds.child[at]), child)
        return head, child

    last = rounds.at - 1
    return jax.lax.fori_loop(0, last, turn, (rounds.head[last], rounds.child[last]))[0]


def best_arborescence(arcs: Array, length: Array) -> Array:
    """[T, B] heads of the best trees with one word on the root, crossing arcs or not, batch last.

    Args:
      arcs: [T + 1, T, B], finite or -inf. length: [B].

    Returns:
      Heads, PADDING beyond the length. Of equal trees one is taken by a fixed rule, the lowest head
      where no circle is involved. Where all trees are forbidden it is something else.
    """
    T, B = arcs.shape[1:]
    scores = _scores(arcs, length)
    words = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32)[:, None], (T, B))
    table = jnp.zeros((T, T, B), jnp.int32)
    start = _Rounds(
        jnp.int32(0), jnp.bool_(True), words,
        _Pair(jnp.zeros((T, B), jnp.int32), jnp.zeros((T, B), arcs.dtype)),
        table.astype(bool), table, table, table,
    )  # fmt: skip
    rounds = jax.lax.while_loop(lambda now: now.open, partial(_round, scores), start)
    real = jnp.arange(T)[:, None] < length[None]
    return jnp.where(real, _opened(rounds), PADDING)


def columns_of(words: int) -> int:
    """How many columns a block of sentences of T words has."""
    return COLUMNS if words <= LONG else FEW
