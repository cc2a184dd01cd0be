"""Losses of rankings and of the labels of a sample, all of them 0 for the truth and at most 1.

Of a ranking, with documents by place r = 0, 1, ..:

    average_precision  Delta = 1 - 1/R sum over relevant places r of (relevant ones to r) / (r + 1)
    ndcg               Delta = 1 - DCG / ideal DCG,  DCG = sum_r (2^relevance - 1) / log2(r + 2)
    roc_area           Delta = share of pairs of a relevant and an irrelevant document in the wrong
                       order, 1 - the area under the ROC curve

Relevant are documents of relevance above 0. Where a query has none, or no other, all is 0.

Of labels with tp, fp, fn, tn examples in the cells of their contingency table:

    error_rate      Delta = (fp + fn) / n
    f1              Delta = 1 - 2 tp / (2 tp + fp + fn), 0 where nothing is positive
    precision_at    Delta = fp / (tp + fp), of labels with exactly `at` ones
    recall_at       Delta = 1 - tp / (tp + fn), of these

Losses of scores that tie are the mean over all orders of the ties, each equally likely. So the
order in which documents or examples are given changes no score, and a model that gives all the same
score is as good as one that guesses. In NumPy, float64. (F. McSherry and M. Najork, "Computing
information retrieval performance measures efficiently in the presence of tied scores", ECIR 2008.)
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxstruct.core.types import Array, static
from jaxstruct.rankings.oracles.orders import discounts, gains, sorted_places

RANKINGS = ("average_precision", "ndcg", "roc_area")
MEASURES = ("error_rate", "f1", "precision_at", "recall_at")
OF_PLACES = ("precision_at", "recall_at")


@static
class Measure:
    """A loss of the module.

    Fields:
      name: of it, or the function of a table. at: places that count, None for all. dtype: of Delta.
    """

    name: str | Callable
    at: int | None
    dtype: str


def ranking_loss(measure: Measure, relevance: Array, y: Array) -> Array:
    """Delta of a ranking y [k] where documents have this relevance [k], -1 on padding.

    Larger y stand first, the first of equal ones first.
    """
    real = relevance >= 0
    length = jnp.sum(real, dtype=jnp.int32)
    order = sorted_places(~real, -y)
    if measure.name == "ndcg":
        gain = gains(relevance, length, measure.dtype)
        discount = discounts(len(y), measure.at, measure.dtype)
        ideal = jnp.sum(-jnp.sort(-gain) * discount)
        lost = ideal - jnp.sum(gain[order] * discount)
        return jnp.maximum(lost, 0) / jnp.where(ideal > 0, ideal, 1)
    relevant = (relevance > 0)[order]
    R = jnp.sum(relevant, dtype=jnp.int32)
    up_to = jnp.cumsum(relevant).astype(measure.dtype)
    places = jnp.arange(1, len(y) + 1, dtype=measure.dtype)
    if measure.name == "average_precision":
        lost = jnp.where(relevant, (places - up_to) / places, 0)
        return jnp.sum(lost) / jnp.maximum(R, 1)
    swapped = jnp.sum(jnp.where(relevant, places - up_to, 0))
    pairs = R.astype(measure.dtype) * (length - R).astype(measure.dtype)
    return swapped / jnp.maximum(pairs, 1)


def table_loss(measure: Measure, tp: ArrayLike, fp: ArrayLike, P: ArrayLike, n: ArrayLike) -> Array:
    """Delta of a contingency table of n examples, P of them positive."""
    tp, fp, P, n = (jnp.asarray(each, measure.dtype) for each in (tp, fp, P, n))
    fn = P - tp
    if measure.name == "error_rate":
        return (fp + fn) / jnp.maximum(n, 1)
    if measure.name == "f1":
        return (fp + fn) / jnp.maximum(2 * tp + fp + fn, 1)
    if measure.name == "recall_at":
        return fn / jnp.maximum(P, 1)
    if measure.name == "precision_at":
        return fp / jnp.maximum(tp + fp, 1)
    assert callable(measure.name), "of no name that is known"
    return jnp.asarray(measure.name(tp, fp, fn, n - P - fp), measure.dtype)


def labels_loss(measure: Measure, y_true: Array, y: Array) -> Array:
    """Delta of labels y [n], zeros and ones, -1 on padding."""
    positive = y_true > 0
    tp, fp = jnp.sum(positive & (y > 0)), jnp.sum((y_true == 0) & (y > 0))
    return table_loss(measure, tp, fp, jnp.sum(positive), jnp.sum(y_true >= 0))


def _ties(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(group [k] of each document, first place of each group, its size), by falling scores."""
    _, group, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    return group.reshape(-1), np.cumsum(sizes) - sizes, sizes


def mean_ranking_loss(measure: Measure, relevance: np.ndarray, scores: np.ndarray) -> float:
    """The mean of Delta over the orders of the ties, see `losses`.

    Args:
      measure: a loss of rankings. relevance: [k] integers >= 0. scores: [k] finite.
    """
    k = len(scores)
    group, before, sizes = _ties(scores)
    if measure.name == "ndcg":
        places = np.arange(k)
        at = k if measure.at is None else measure.at
        discounts = np.where(places < at, 1 / np.log2(places + 2.0), 0)
        gains = 2.0**relevance - 1
        ideal = np.sort(gains)[::-1] @ discounts
        mean = np.add.reduceat(discounts, before) / sizes
        return float(max(1 - gains @ mean[group] / ideal, 0)) if ideal > 0 else 0.0
    relevant = relevance > 0
    R = int(relevant.sum())
    if R in (0, k):
        return 0.0
    own = np.bincount(group[relevant], minlength=len(sizes))
    above = np.cumsum(own) - own
    if measure.name == "roc_area":
        wrong = own @ (before - above) + own @ (sizes - own) / 2
        return float(wrong / (R * (k - R)))
    # the document at place j of its group is relevant with probability own / sizes, and then
    # every other place of the group is with (own - 1) / (sizes - 1)
    each = np.repeat(np.arange(len(sizes)), sizes)
    j = np.arange(k) - before[each]
    others = (own[each] - 1) / np.maximum(sizes[each] - 1, 1)
    precision = (above[each] + 1 + j * others) / np.arange(1, k + 1)
    return float(max(1 - (own / sizes)[each] @ precision / R, 0))


def chosen(scores: np.ndarray, at: int) -> np.ndarray:
    """[n] with what probability each example is among the `at` largest scores, ties by chance.

    The mean of tp over the orders of the ties is the sum of those of the positives, and so are
    precision and recall, which are linear in tp.
    """
    group, before, sizes = _ties(scores)
    return np.clip((at - before) / sizes, 0, 1)[group]
