"""Labels of n examples as one output: the most violated ones of losses of the contingency table.

F = sum of s_i over the examples labelled positive. Of all labels with a true and b false positives
the best ones are of the a true and the b false ones of the largest scores (T. Joachims, "A support
vector method for multivariate performance measures", ICML 2005, algorithm 2).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array
from jaxstruct.rankings.oracles.orders import inverse, sorted_places


def best_cell(
    scores: Array, y_true: Array, length: Array, value: Callable, at: int | None = None
) -> tuple[Array, Array]:
    """The labels of the best cell of the contingency table, O(n P) for P positives, of `at` O(n).

    Args:
      scores: [n] s_i, never read beyond the length. y_true: [n] 1 for the positives, 0, then -1.
      length: examples.
      value: (a, b, F) -> the value of the best labels with a true and b false positives, one of a
        and b a scalar or both [n + 1], -inf for those that are out. F: [n + 1].
      at: static; only labels with exactly so many ones (or all examples, if these are fewer) count;
        None for all.

    Returns:
      (y [n] int32 of the cell of the largest value, -1 on padding; that value). Of equal cells the
      one of the smallest a, then b; of equal scores the first example.
    """
    cells = jnp.arange(scores.shape[0] + 1, dtype=jnp.int32)
    real = cells[:-1] < length
    positive = real & (y_true > 0)
    P = jnp.sum(positive, dtype=jnp.int32)

    def best_first(kind: Array) -> tuple[Array, Array]:
        """([n] the place of each example in its kind, [n + 1] sums of their largest scores)."""
        order = sorted_places(~kind, jnp.where(kind, -scores, 0))
        sums = jnp.cumsum(jnp.where(kind, scores, 0)[order])
        return inverse(order), jnp.concatenate([jnp.zeros(1, scores.dtype), sums])

    (place, true), (other_place, false) = best_first(positive), best_first(real & ~positive)
    if at is None:

        def row(a: Array, best: tuple) -> tuple:
            F = true[a] + false
            values = jnp.where(cells <= length - P, value(a, cells, F), -jnp.inf)
            b = jnp.argmax(values).astype(jnp.int32)
            better = values[b] > best[0]
            new = values[b], a, b
            return jax.tree.map(lambda own, old: jnp.where(better, own, old), new, best)

        start = jnp.asarray(-jnp.inf, scores.dtype), jnp.int32(0), jnp.int32(0)
        found, a, b = jax.lax.fori_loop(0, P + 1, row, start)
    else:
        others = jnp.minimum(at, length) - cells
        inside = (cells <= P) & (others >= 0) & (others <= length - P)
        F = true + false[jnp.clip(others, 0, len(cells) - 1)]
        values = jnp.where(inside, value(cells, others, F), -jnp.inf)
        a = jnp.argmax(values).astype(jnp.int32)
        found, b = values[a], others[a]
    y = jnp.where(positive, place < a, other_place < b)
    return jnp.where(real, y, -1).astype(jnp.int32), found


def largest(scores: Array, length: Array, at: int | None = None) -> Array:
    """The labels of the largest F: y_i = [s_i > 0], or 1 for the `at` largest scores.

    Returns:
      [n] int32, -1 on padding; of equal scores the first examples are positive.
    """
    real = jnp.arange(scores.shape[0]) < length
    chosen = scores > 0
    if at is not None:
        chosen = inverse(sorted_places(~real, jnp.where(real, -scores, 0))) < at
    return jnp.where(real, chosen, -1).astype(jnp.int32)


def error_rate_augmented(scores: Array, y_true: Array, length: Array, scale: Array) -> Array:
    """The labels that maximise F + scale (share of wrong labels), example by example."""
    each = scale / length.astype(scores.dtype)
    y = jnp.where(y_true > 0, scores >= each, scores > -each)
    return jnp.where(jnp.arange(scores.shape[0]) < length, y, -1).astype(jnp.int32)
