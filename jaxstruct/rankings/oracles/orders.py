"""Rankings of the documents of one query: orders, and the most violated ones of three measures.

With s_i the score of document i, F of a ranking is a sum over pairs of documents of different
relevance, of the scores of the one that stands first less that of the other:

    F = sum over pairs of y_ij (s_i - s_j),    y_ij = 1 where i stands before j, else -1

Let the loss stay as it is where documents of one relevance change places. Then F + lambda Delta has
its maximum where it has it with F over ALL pairs: documents of one relevance stand there in the
order of their scores, and what pairs of one relevance add is then a constant. F over all pairs is
sum_i s_i (l - 1 - 2 place_i), so that a loss that adds up over places makes it an assignment, and a
loss of two classes a choice for each irrelevant document of how many relevant ones stand before it.

A ranking is y [k] int32, the number of documents that a document stands before, so that larger is
better as with relevance; -1 on padding.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxstruct.core.assigning import cheapest_assignment
from jaxstruct.core.types import Array

_COLUMNS = 64
"""Irrelevant documents looked at side by side."""


def sorted_places(*keys: Array) -> Array:
    """[k] the places that sort by the first key, then by the next, then by place."""
    places = jnp.arange(keys[0].shape[0], dtype=jnp.int32)
    return jax.lax.sort((*keys, places), num_keys=len(keys))[-1]


def inverse(order: Array) -> Array:
    """[k] int32 where each entry stands in an order."""
    return jnp.zeros_like(order).at[order].set(jnp.arange(order.shape[0], dtype=order.dtype))


def ranked(scores: Array, length: Array) -> Array:
    """The ranking of the largest F of one query: by falling scores, the first of equal ones first.

    Args:
      scores: [k] floats, never read beyond the length. length: int32 scalar, documents.

    Returns:
      y [k] int32, see the module.
    """
    real = jnp.arange(scores.shape[0]) < length
    place = inverse(sorted_places(~real, jnp.where(real, -scores, 0)))
    return jnp.where(real, length - 1 - place, -1).astype(jnp.int32)


def _of_places(order: Array, places: Array, length: Array) -> Array:
    """y of documents `order` that stand at these places."""
    y = jnp.zeros_like(order).at[order].set(length - 1 - places.astype(order.dtype))
    return jnp.where(jnp.arange(order.shape[0]) < length, y, -1)


def average_precision_augmented(
    scores: Array, relevance: Array, length: Array, scale: Array | float
) -> Array:
    """The ranking that maximises F + scale (1 - average precision), exactly.

    Of irrelevant documents j = 0, 1, .. and relevant ones i = 0, 1, .., both by falling scores, j
    before i adds

        w_ij = scale / R (i + 1) / ((i + 1 + j) (i + 2 + j)) - 2 (s_i - s_j),

    and j stands before a last part of the relevant ones. w_ij falls in j, so that the best part
    of each j, found alone, holds that of j + 1: together they are a ranking. O(R N) for R relevant
    and N irrelevant documents, O(k) of memory.

    Args:
      scores: [k] s_i. relevance: [k] integers, relevant where above 0. length: documents.
      scale: lambda >= 0.

    Returns:
      y [k] int32; of equal maxima the one with the fewest irrelevant documents before relevant
      ones. Without a relevant or without an irrelevant document the loss is 0.

    Source: Y. Yue, T. Finley, F. Radlinski and T. Joachims, "A support vector method for optimizing
    average precision", SIGIR 2007, algorithm 1.
    """
    scores, relevance = jnp.asarray(scores), jnp.asarray(relevance)
    places = jnp.arange(scores.shape[0], dtype=jnp.int32)
    real = places < length
    relevant = real & (relevance > 0)
    kind = jnp.where(real, jnp.where(relevant, 0, 1), 2)
    order = sorted_places(kind, jnp.where(real, -scores, 0))
    own = jnp.where(places < length, scores[order], 0)
    R = jnp.sum(relevant, dtype=jnp.int32)
    others = jnp.roll(own, -R)
    share = scale / jnp.maximum(R, 1).astype(scores.dtype)

    def first_behind(j: Array) -> Array:
        """How many relevant documents stand before the irrelevant one j."""
        i = places.astype(scores.dtype)
        lost = (i + 1) / ((i + 1 + j) * (i + 2 + j))
        w = jnp.where(places < R, share * lost - 2 * (own - others[j]), 0)
        parts = jnp.append(jnp.cumsum(w[::-1])[::-1], 0)  # the sum of w from each i on
        last = parts.shape[0] - 1 - jnp.argmax(parts[::-1])
        return jnp.minimum(last, R).astype(jnp.int32)

    first = jax.lax.map(first_behind, places, batch_size=min(_COLUMNS, len(places)))
    first = jax.lax.cummax(first)  # it rises but for rounding
    first = jnp.where(places < length - R, first, len(places))
    counts = jnp.zeros(len(places) + 1, jnp.int32).at[first].add(1, mode="drop")
    of_relevant = places + jnp.cumsum(counts)[:-1]
    of_others = jnp.roll(places + first, R)
    return _of_places(order, jnp.where(places < R, of_relevant, of_others), length)


def roc_area_augmented(
    scores: Array, relevance: Array, length: Array, scale: Array | float
) -> Array:
    """The ranking that maximises F + scale (share of swapped pairs), by one sort.

    A pair of a relevant and an irrelevant document is worth swapping where 2 (s_i - s_j) is below
    scale / (R N): irrelevant ones come in with half of that added. Ties as they should be.

    Args, Returns: as `average_precision_augmented`.

    Source: T. Joachims, "A support vector method for multivariate performance measures", ICML 2005,
    algorithm 3.
    """
    real = jnp.arange(scores.shape[0]) < length
    relevant = real & (relevance > 0)
    R = jnp.sum(relevant, dtype=jnp.int32)
    pairs = R.astype(scores.dtype) * (length - R).astype(scores.dtype)
    moved = jnp.where(relevant, scores, scores + scale / (2 * jnp.maximum(pairs, 1)))
    order = sorted_places(~real, jnp.where(real, -moved, 0), ~relevant)
    return _of_places(order, jnp.arange(len(order)), length)


def discounts(k: int, at: int | None, dtype: Any) -> Array:
    """[k] 1 / log2(place + 2) of the first `at` places, 0 of later ones."""
    places = jnp.arange(k)
    return jnp.where(places < (k if at is None else at), 1 / jnp.log2(places + 2.0), 0).astype(
        dtype
    )


def gains(relevance: Array, length: Array, dtype: Any) -> Array:
    """[k] 2^relevance - 1, 0 on padding."""
    real = jnp.arange(relevance.shape[0]) < length
    return jnp.where(real, 2.0 ** jnp.where(real, relevance, 0) - 1, 0).astype(dtype)


def placed(scores: Array, lost: Array, length: Array, allowed: Array | bool = True) -> Array:
    """[k] the places, by the cheapest assignment, that maximise F over all pairs + sum of `lost`.

        max over places of sum_i s_i (l - 1 - 2 place_i) + lost[i, place_i]

    Args:
      lost: [k, k] of a document at a place. allowed: [k, k] bool where it may stand.

    Returns:
      -1 on padding, and of documents for which there is no place.
    """
    k, dtype = scores.shape[0], scores.dtype
    places = jnp.arange(k, dtype=jnp.int32)
    real = places < length
    before = (length - 1 - 2 * places).astype(dtype)
    costs = -lost - jnp.where(real, scores, 0)[:, None] * before[None]
    costs = jnp.where(real[:, None] & real[None] & allowed, costs, jnp.inf)
    exits = jnp.full((k, 1), jnp.inf, dtype)
    return cheapest_assignment(jnp.concatenate([costs, exits], axis=1), length)


def ndcg_lost(relevance: Array, length: Array, at: int | None, dtype: Any) -> Array:
    """[k, k] what a document at a place adds to 1 - NDCG: less than 0."""
    gain, discount = gains(relevance, length, dtype), discounts(len(relevance), at, dtype)
    ideal = jnp.sum(-jnp.sort(-gain) * discount)
    return -gain[:, None] / jnp.where(ideal > 0, ideal, 1) * discount[None]


def ndcg_augmented(
    scores: Array, relevance: Array, length: Array, scale: Array | float, at: int | None = None
) -> Array:
    """The ranking that maximises F + scale (1 - NDCG), by an assignment to places: O(k^3).

    Args:
      relevance: [k] integers >= 0. at: static, places that count; None for all.
      scores, length, scale: as `average_precision_augmented`.

    Returns:
      y [k] int32; which one of equal maxima is not said.

    Source: Q. Le and A. Smola, "Direct optimization of ranking measures", 2007, where the
    assignment is; for F over pairs see the module.
    """
    taken = placed(scores, scale * ndcg_lost(relevance, length, at, scores.dtype), length)
    return jnp.where(jnp.arange(len(scores)) < length, length - 1 - taken, -1)
