"""The best tree of one sentence, with labels: the argmax over trees of either kind."""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.semiring import Best
from jaxstruct.core.types import Array
from jaxstruct.dependencies.oracles import projective as spans
from jaxstruct.dependencies.oracles.arborescence import best_arborescence
from jaxstruct.dependencies.potentials import (
    PADDING,
    Decoded,
    checked_potentials,
    is_word,
    score_tree,
)

CELLS, FEWEST = 2**15, 4
"""Numbers of one chart of a block of columns, so that all its charts stay in the caches, and how
many columns a block has at least."""


def _best(arcs: Array, length: Array) -> Array:
    """[T, B] heads of the best projective trees; arcs [T + 1, T, B], length [B]."""
    rule, given = Best(), spans.of_arcs(arcs)
    charts = spans.fill(rule, given, places=True)
    _, whole = spans.whole_sentences(rule, charts, given, length)
    columns = jnp.arange(len(length))
    way = spans.Way(rule, charts, given, columns)
    return spans.trace_back(way, whole, length, jnp.zeros_like(length))[0]


_projective = of_one_example(spans.in_blocks(_best, lambda words: max(FEWEST, CELLS // words**2)))
_any_tree = of_one_example(best_arborescence)


def _decoded(potentials: Array, length: Array, projective: bool) -> Decoded:
    _, T, R = potentials.shape
    arcs = jnp.max(potentials, axis=2)
    heads = (_projective if projective else _any_tree)(arcs, length)
    chosen = potentials[jnp.maximum(heads, 0), jnp.arange(T)]
    labels = jnp.where(is_word(length, T), jnp.argmax(chosen, axis=1), PADDING).astype(jnp.int32)
    one_root = jnp.sum(heads == 0) == 1
    score = score_tree(potentials, heads, labels, length)
    return Decoded(heads, labels, jnp.where(one_root, score, -jnp.inf))


def best_tree(potentials: Array, length: Array, *, projective: bool) -> Decoded:
    """argmax_y F(y) over the trees of one sentence with one word on the root.

    Args:
      potentials: [T + 1, T, R] of one sentence, finite or -inf, which forbids an arc with a label;
        see `jaxstruct.dependencies.potentials`. A score that holds the loss is a score, too.
      length: int32 scalar, 1 <= length <= T.
      projective: whether crossing arcs are none: Eisner's algorithm, O(T^3); otherwise a maximum
        spanning arborescence (Chu and Liu, Edmonds), O(T^2) for each circle that is closed.

    Returns:
      Decoded: heads and labels [T] int32, PADDING beyond the length, and their F. Ties go to the
      lowest label, and among trees to one by a fixed rule. If every tree is forbidden the score is
      -inf and heads are some numbers. Under `vmap`, nested or not, one batched program runs for all
      sentences. The derivative of the score counts the arcs of the tree; heads have none.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    return _decoded(*checked_potentials(potentials, length), projective)
