"""Losses of scores that tie: the mean over all orders of the ties, each equally likely.

So the order in which documents or examples are given changes no score, and a model that gives all
the same score is as good as one that guesses. In NumPy, float64.

Source: F. McSherry and M. Najork, "Computing information retrieval performance measures efficiently
in the presence of tied scores", ECIR 2008.
"""

from __future__ import annotations

import numpy as np

from jaxstruct.rankings.losses import Measure


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
