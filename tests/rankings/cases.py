"""All rankings and all labels of small cases, with F and losses from their definitions in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.lib.enumeration import with_garbage

K = 5
ORDERS = {k: np.array([*itertools.permutations(range(k))]) for k in range(1, K + 1)}
"""[m, k] how many documents each document stands before."""
LABELS = {k: np.array([*itertools.product((0, 1), repeat=k)]) for k in range(1, K + 1)}


class Cases(NamedTuple):
    """scores [n, K] with garbage on padding, truths [n, K] with -1, lengths [n]."""

    scores: np.ndarray
    truths: np.ndarray
    lengths: np.ndarray


def cases(seed: int, n: int, most: int) -> Cases:
    """Every third case has scores that tie with each other and with losses."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, K + 1, n).astype(np.int32)
    scores = random.normal(size=(n, K))
    scores[::3] = random.integers(-1, 2, (len(scores[::3]), K)) / 2
    truths = random.integers(0, most + 1, (n, K)).astype(np.int32)
    beyond = np.arange(K) >= lengths[:, None]
    return Cases(with_garbage(scores, ~beyond), np.where(beyond, -1, truths), lengths)


def rows_of(given: Cases, k: int) -> tuple[np.ndarray, Cases]:
    """(which cases have this length, these without padding)."""
    rows = np.flatnonzero(given.lengths == k)
    scores, truths, lengths = (leaf[rows] for leaf in given)
    return rows, Cases(scores[:, :k], truths[:, :k], lengths)


def ranking_scores(scores: np.ndarray, relevance: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """[n, m] F of the rankings [m, k], pair by pair."""
    F, pairs = np.zeros((len(scores), len(orders))), np.zeros(len(scores))
    for i, j in itertools.combinations(range(scores.shape[1]), 2):
        compared = relevance[:, i] != relevance[:, j]
        first = np.sign(orders[:, i] - orders[:, j])
        F += (compared * (scores[:, i] - scores[:, j]))[:, None] * first
        pairs += compared
    return F / np.maximum(pairs, 1)[:, None]


def ranking_losses(
    name: str, at: int | None, relevance: np.ndarray, orders: np.ndarray
) -> np.ndarray:
    """[n, m] Delta of the rankings [m, k]."""
    own = relevance[:, np.argsort(-orders, axis=1)]  # [n, m, k] by place
    places = np.arange(1, own.shape[2] + 1)
    if name == "ndcg":
        weight = np.where(places <= (at or len(places)), 1 / np.log2(places + 1), 0)
        ideal = (np.sort(2.0**relevance - 1, axis=1)[:, ::-1] @ weight)[:, None]
        return np.where(ideal > 0, 1 - (2.0**own - 1) @ weight / np.where(ideal > 0, ideal, 1), 0)
    good = own > 0
    R, N = good.sum(2), (~good).sum(2)
    if name == "average_precision":
        precision = np.cumsum(good, axis=2) / places
        return np.where(R > 0, 1 - (good * precision).sum(2) / np.maximum(R, 1), 0)
    swapped = (good * np.cumsum(~good, axis=2)).sum(2)
    return swapped / np.maximum(R * N, 1)


def table_losses(name: str | Callable, truths: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[n, m] Delta of the labels [m, k], of truths [n, k]; of a function of counts what it says."""
    true, y = truths[:, None] > 0, labels[None] > 0
    tp, fp, fn = (true & y).sum(2), (~true & y).sum(2), (true & ~y).sum(2)
    if callable(name):
        return np.asarray(name(tp, fp, fn, (~true & ~y).sum(2)))
    if name == "error_rate":
        return (fp + fn) / truths.shape[1]
    if name == "f1":
        return (fp + fn) / np.maximum(2 * tp + fp + fn, 1)
    if name == "precision_at":
        return fp / np.maximum(tp + fp, 1)
    return fn / np.maximum(tp + fn, 1)


def queries(seed: int, n: int, d: int = 3, most: int = 2) -> tuple[list, list]:
    """n queries of 2 to 4 documents, the first two of different relevance, and their relevances."""
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 5, n)
    rows = [random.normal(size=(k, d)).astype(np.float32) for k in sizes]
    relevances = [random.integers(0, most + 1, k) for k in sizes]
    for own in relevances:
        own[:2] = 0, 1
    return rows, relevances
