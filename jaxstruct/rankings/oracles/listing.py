"""The rankings above a score, the best first, for slack re-scaling.

Losses read which kind of document stands at each place: its relevance, or for two of them whether
it has any. So of rankings of the same kinds one matters, in which documents of one kind stand by
falling scores; it has the largest F. Over these F + Delta is an assignment of documents to places,
as every loss is 1 + sum_i lost[i, place_i] or a constant more:

    NDCG               - gain_i discount(p) / ideal
    average precision  - (r + 1) / (p + 1) / R    of the r-th relevant document by falling scores
    ROC area           p / (R N)                  of a relevant document

(r falls into order by itself: documents that change places lose score and loss.) All but the best
ranking have another kind than it at a first place: so they fall into sets, one a place t, of the
same kinds before t and of another at t, and the best of a set is one more assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.branching import k_best_by_parts
from jaxstruct.core.types import Array
from jaxstruct.rankings.inputs import SampleTheta
from jaxstruct.rankings.losses import Measure
from jaxstruct.rankings.oracles.orders import inverse, ndcg_lost, placed, sorted_places

WORK = 1 << 22
"""Rankings listed times k^4, at most: some .1 s a query."""


class _Ranking(NamedTuple):
    """places: [k] of the documents. score: F + Delta."""

    places: Array
    score: Array


def _lost(measure: Measure, theta: SampleTheta, relevance: Array) -> Array:
    """[k, k] what a document at a place adds to the loss; see the module."""
    scores, length, _ = theta
    if measure.name == "ndcg":
        return ndcg_lost(relevance, length, measure.at, scores.dtype)
    relevant = relevance > 0
    R, places = jnp.sum(relevant), jnp.arange(len(scores), dtype=scores.dtype)[None]
    if measure.name == "roc_area":
        each = places / jnp.maximum(R * (length - R), 1)
    else:
        r = inverse(sorted_places(~relevant, jnp.where(relevant, -scores, 0)))
        each = -(r[:, None] + 1) / (places + 1) / jnp.maximum(R, 1)
    return jnp.where(relevant[:, None], each, 0).astype(scores.dtype)


def rankings_above(
    measure: Measure, theta: SampleTheta, relevance: Array, value: Callable, number: int,
    above: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """The rankings of the largest F + Delta, one of each sequence of kinds.

    Args:
      theta: with scores [k] that F over pairs sums. relevance: [k] int32, -1 on padding.
      value: y -> F + Delta. number: of rankings, static.
      above: scalar, rankings whose value is not above it do not count.

    Returns:
      (y [number, k] int32, bool [number] which of them there are), the best first. Of many
      documents fewer are found; the last one then stands for the rest.
    """
    scores, length, _ = theta
    kinds = relevance if measure.name == "ndcg" else jnp.minimum(relevance, 1)
    lost, at = _lost(measure, theta, relevance), jnp.arange(len(scores), dtype=jnp.int32)

    def ranking(places: Array) -> Array:
        return jnp.where(at < length, length - 1 - places, -1)

    def best_of(allowed: Array | bool) -> _Ranking:
        places = placed(scores, lost, length, allowed)
        possible = jnp.all((places >= 0) | (at >= length))
        return _Ranking(places, jnp.where(possible, value(ranking(places)), -jnp.inf))

    def same(one: _Ranking) -> Array:
        order = inverse(jnp.where(at < length, one.places, at))
        return kinds[:, None] == kinds[order][None]

    listed = min(number, max(1, WORK // len(scores) ** 4))
    found = k_best_by_parts(best_of, same, lost, length, listed, above, axis=1)
    filled = jnp.minimum(jnp.arange(number), listed - 1)
    return jax.vmap(ranking)(found.places)[filled], (found.score > -jnp.inf)[filled]
