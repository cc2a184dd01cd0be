"""Eisner's algorithm: the best projective tree, in O(T^3) (J. Eisner, COLING 1996); see `spans`."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import in_column_blocks
from jaxstruct.core.types import Array
from jaxstruct.dependencies.oracles.spans import Charts, fill, of_arcs, whole_sentences

CELLS, FEWEST = 2**15, 4
"""Numbers of one chart of a block of columns, so that all its charts stay in the caches, and how
many columns a block has at least."""


def _best(value: Callable, begin: int, turns: Array) -> tuple[Array, tuple[Array]]:
    """(the maximum, the lowest place that attains it)."""

    def turn(step: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        new = value(step + begin)
        better = new > found[0]
        return jnp.where(better, new, found[0]), jnp.where(better, step + begin, found[1])

    shape = jax.eval_shape(value, turns)
    none = jnp.full(shape.shape, -jnp.inf, shape.dtype), jnp.full(shape.shape, begin, jnp.int32)
    found, place = jax.lax.fori_loop(0, turns, turn, none)
    return found, (place,)


def _fill(right_arcs: Array, left_arcs: Array) -> Charts:
    return fill(right_arcs, left_arcs, _best, (jnp.zeros(right_arcs.shape, jnp.int32),) * 3)


def traced(split: Callable, words: int, root: Array, length: Array) -> Array:
    """[T, B] heads of the tree whose one word on the root is `root` [B].

    Args:
      split: (turn, first, width, kind) -> [B] the place q - i of the split of the span that each
        column opens in this turn, of 2 T - 2 at most; any number where the width is 0.
      words: T. length: [B].

    A stack holds the spans to be opened: [2 T, B] of first word, width and kind (0 joined to the
    right, 1 joined to the left, 2 right, 3 left).
    """
    T, B = words, root.shape[0]
    columns = jnp.arange(B)
    heads = jnp.where(jnp.arange(T)[:, None] == root[None], 0, -1).astype(jnp.int32)

    def push(stack: Array, top: Array, first: Array, width: Array, kind: Array) -> tuple:
        where = jnp.where(width > 0, top, 2 * T)
        span = jnp.stack([first, width, kind], axis=-1)
        return stack.at[where, columns].set(span, mode="drop"), top + (width > 0)

    def opened(state: tuple) -> tuple:
        turn, stack, top, heads = state
        busy, top = top > 0, jnp.maximum(top - 1, 0)
        first, width, kind = jnp.moveaxis(stack[top, columns], -1, 0)
        width = jnp.where(busy, width, 0)
        place = split(turn, first, width, kind)
        last = first + width
        arc = busy & (kind < 2)
        child, head = jnp.where(kind == 0, last, first), jnp.where(kind == 0, first, last)
        heads = heads.at[jnp.where(arc, child, T), columns].set(head + 1, mode="drop")
        low = jnp.where(kind < 2, 2, jnp.where(kind == 2, 0, 3))
        high = jnp.where(kind < 2, 3, jnp.where(kind == 2, 2, 1))
        after = first + place + (kind < 2)
        stack, top = push(stack, top, first, jnp.where(busy, place, 0), low)
        stack, top = push(stack, top, after, jnp.where(busy, last - after, 0), high)
        return turn + 1, stack, top, heads

    stack, top = jnp.zeros((2 * T, B, 3), jnp.int32), jnp.zeros(B, jnp.int32)
    none = jnp.zeros(B, jnp.int32)
    stack, top = push(stack, top, none, root, none + 3)
    stack, top = push(stack, top, root, length - 1 - root, none + 2)
    start = jnp.int32(0), stack, top, heads
    return jax.lax.while_loop(lambda state: jnp.any(state[2] > 0), opened, start)[3]


def _decoded(arcs: Array, length: Array) -> Array:
    """[T, B] heads of the best projective trees.

    Args:
      arcs: [T + 1, T, B]. length: [B].
    """
    T, B = arcs.shape[1:]
    charts = _fill(*of_arcs(arcs))
    root = jnp.argmax(whole_sentences(charts, arcs[0], length), axis=0).astype(jnp.int32)
    joined, right, left = (table.reshape(T, T, B) for table in charts.kept)
    columns = jnp.arange(B)

    def split(_: Array, first: Array, width: Array, kind: Array) -> Array:
        at = width, first, columns
        return jnp.where(kind < 2, joined[at], jnp.where(kind == 2, right[at], left[at]))

    return traced(split, T, root, length)


def best_projective(arcs: Array, length: Array) -> Array:
    """[T, B] heads of the best projective trees with one word on the root, batch last.

    Args:
      arcs: [T + 1, T, B], finite or -inf. length: [1 or B].

    Returns:
      Heads, PADDING beyond the length. Of equal trees one is taken by a fixed rule: the first word
      on the root, then of each span the first split. Where all are forbidden it is some tree.
    """
    T, B = arcs.shape[1], max(arcs.shape[2], length.shape[0])
    length = jnp.broadcast_to(length, (B,))
    arcs = jnp.broadcast_to(arcs, (*arcs.shape[:2], B))
    width = max(FEWEST, CELLS // (T * T))
    return in_column_blocks(_decoded, width)(arcs, length)
