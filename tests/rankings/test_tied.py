"""Losses of scores that tie, against the mean over all orders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import ndcg_score, roc_auc_score

from jaxstruct.rankings.losses import Measure, chosen, mean_ranking_loss
from tests.rankings.cases import ORDERS, ranking_losses

OF_RANKINGS = [("ndcg", None), ("ndcg", 2), ("average_precision", None), ("roc_area", None)]


def tied(seed, n):
    """n times (scores [k] of few values, relevances [k])."""
    random = np.random.default_rng(seed)
    for _ in range(n):
        k = random.integers(1, 6)
        yield random.integers(0, random.integers(1, 5), k) / 2.0, random.integers(0, 4, k)


def orders_of(scores):
    """[m, k] of all orders the ones by falling scores, as numbers of documents behind."""
    every = ORDERS[len(scores)]
    later = scores[:, None] > scores
    return every[((every[:, :, None] > every[:, None]) | ~later).all((1, 2))]


@pytest.mark.smoke
@pytest.mark.parametrize(("name", "at"), OF_RANKINGS)
def test_rankings_count_by_the_mean_over_orders(name, at):
    measure = Measure(name, at, "float64")
    for scores, relevance in tied(0, 1000):
        expected = ranking_losses(name, at, relevance[None], orders_of(scores)).mean()
        found = mean_ranking_loss(measure, relevance, scores)
        assert found == pytest.approx(expected, abs=1e-12), (scores, relevance)
        back = mean_ranking_loss(measure, relevance[::-1], scores[::-1])
        assert back == pytest.approx(found, abs=1e-12)


def test_the_largest_are_chosen_by_the_mean_over_orders():
    for scores, _ in tied(1, 1000):
        for at in range(1, len(scores) + 2):
            expected = (orders_of(scores) >= len(scores) - at).mean(axis=0)
            np.testing.assert_allclose(chosen(scores, at), expected, atol=1e-12)


def test_scikit_learn_has_the_same():
    random = np.random.default_rng(2)
    for _ in range(50):
        scores, relevance = random.integers(0, 4, 30) / 3, random.integers(0, 4, 30)
        ndcg = ndcg_score([2.0**relevance - 1], [scores], k=10)
        assert 1 - mean_ranking_loss(Measure("ndcg", 10, "float64"), relevance, scores) == (
            pytest.approx(ndcg)
        )
        area = roc_auc_score(relevance > 0, scores)
        assert 1 - mean_ranking_loss(Measure("roc_area", None, "float64"), relevance, scores) == (
            pytest.approx(area)
        )


def test_all_tied_is_a_guess():
    """The mean over all orders of eight documents, some of them relevant."""
    relevance = np.array([3, 2, 1, 1, 0, 0, 0, 0])
    places = np.array([*itertools.combinations(range(1, 9), 4)])
    expected = (np.arange(1, 5) / places).mean()
    for own in (relevance, relevance[::-1]):
        found = [mean_ranking_loss(Measure(name, None, "float64"), own, np.zeros(8))
                 for name in ("average_precision", "roc_area")]  # fmt: skip
        np.testing.assert_allclose(found, [1 - expected, 0.5])
