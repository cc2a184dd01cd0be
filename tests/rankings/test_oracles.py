"""Best rankings and labels under a loss against all of them, ties and padding included."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, ndcg_score, roc_auc_score

from jaxstruct.rankings import document_ranking, sample_labels
from jaxstruct.rankings.inputs import SampleTheta
from jaxstruct.rankings.losses import Measure, chosen, labels_loss, mean_ranking_loss, ranking_loss
from jaxstruct.rankings.oracles import listing
from jaxstruct.rankings.oracles.contingency import best_cell
from jaxstruct.rankings.oracles.orders import average_precision_augmented, roc_area_augmented
from tests.rankings.cases import (
    LABELS,
    ORDERS,
    K,
    cases,
    ranking_losses,
    ranking_scores,
    rows_of,
    table_losses,
)

RANKINGS = [("average_precision", None), ("roc_area", None), ("ndcg", None), ("ndcg", 3)]
MEASURES = [("error_rate", None), ("f1", None), ("precision_at", 2), ("recall_at", 3)]


def balanced(tp, fp, fn, tn):
    """The mean of the error rates of both kinds."""
    return (fn / jnp.maximum(tp + fn, 1) + fp / jnp.maximum(fp + tn, 1)) / 2


N = 1_500
"""Of each dtype."""


@jax.jit
def answers(problem, theta, y_true, scale):
    """Of each case (best under the loss, best, then F and Delta of them and of the truth)."""

    def one(theta, y_true, scale):
        y = problem.oracles.loss_augmented_decode(theta, y_true, scale)
        best = problem.model.decode(theta)
        F = [problem.model.score(theta, each) for each in (y, best, y_true)]
        return y, best, F, [problem.model.loss(y_true, each) for each in (y, y_true)]

    return jax.vmap(one)(theta, y_true, scale)


def found_of(problem, given, dtype):
    truths = jnp.asarray(given.truths)
    theta = SampleTheta(jnp.asarray(given.scores, dtype), jnp.asarray(given.lengths), truths)
    return jax.tree.map(
        np.asarray, answers(problem, theta, truths, jnp.asarray(given.scales, dtype))
    )


def places_of(found, every, rows, k):
    """[n] where each output stands in a list of all [m, k]; its padding is -1."""
    assert (found[rows, k:] == -1).all()
    same = (found[rows, None, :k] == every[None]).all(2)
    assert same.any(1).all(), "no such output"
    return same.argmax(1)


def check_values(found, F, losses, total, place, rows, close):
    """F and Delta of the outputs found are those of the list, and the total is its largest."""
    y, _, (F_y, _, _), (loss, of_truth) = found
    which = np.arange(len(rows)), place
    np.testing.assert_allclose(F_y[rows], F[which], rtol=0, atol=close)
    np.testing.assert_allclose(loss[rows], losses[which], rtol=0, atol=close)
    np.testing.assert_allclose(total[which], total.max(1), rtol=0, atol=close)
    assert (of_truth == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "at"), RANKINGS)
def test_the_most_violated_ranking(name, at, dtype):
    with jax.enable_x64(dtype == "float64"):
        given = cases(0, N, 3)
        found = found_of(document_ranking(1, loss=name, at=at, dtype=dtype), given, dtype)
        close = 5e-6 if dtype == "float32" else 1e-12
        for k, every in ORDERS.items():
            rows, (scores, truths, _, scales) = rows_of(given, k)
            F = ranking_scores(scores, truths, every)
            losses = ranking_losses(name, at, truths, every)
            place = places_of(found[0], every, rows, k)
            check_values(found, F, losses, F + scales[:, None] * losses, place, rows, close)
            sorted_first = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
            assert (found[1][rows, :k] == k - 1 - sorted_first).all()
            own = np.sign(truths[:, :, None] - truths[:, None]).sum(2)  # wins of the truth
            pairs = np.maximum((truths[:, :, None] != truths[:, None]).sum((1, 2)) / 2, 1)
            np.testing.assert_allclose(
                found[2][2][rows], (own * scores).sum(1) / pairs, rtol=0, atol=close
            )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "at"), [*MEASURES, (balanced, None)])
def test_the_most_violated_labels(name, at, dtype):
    with jax.enable_x64(dtype == "float64"):
        given = cases(1, N, 1)
        found = found_of(sample_labels(1, loss=name, at=at, dtype=dtype), given, dtype)
        close = 5e-6 if dtype == "float32" else 1e-12
        for k, every in LABELS.items():
            rows, (scores, truths, _, scales) = rows_of(given, k)
            F = scores @ every.T / k
            losses = table_losses(name, truths, every)
            free = at is None or every.sum(1) == min(at, k)
            truth = (truths[:, None] == every).all(2)
            losses = np.where(truth, 0, losses)
            total = np.where(free | truth, F + scales[:, None] * losses, -np.inf)
            place = places_of(found[0], every, rows, k)
            check_values(found, F, losses, total, place, rows, close)
            of_best = F[np.arange(len(rows)), places_of(found[1], every, rows, k)]
            np.testing.assert_allclose(of_best, np.where(free, F, -np.inf).max(1), atol=close)
            np.testing.assert_allclose(found[2][2][rows], F[truth], rtol=0, atol=close)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "at"), RANKINGS)
def test_rankings_above_are_the_best_of_each_sequence_of_kinds(name, at, dtype):
    """Down to a value that is drawn; every ranking of a larger F + Delta has an equal in the list
    that is as good."""
    with jax.enable_x64(dtype == "float64"):
        given = cases(4, 1_000, 3)
        problem = document_ranking(1, loss=name, at=at, dtype=dtype)
        truths = jnp.asarray(given.truths)
        theta = SampleTheta(jnp.asarray(given.scores, dtype), jnp.asarray(given.lengths), truths)
        above = np.random.default_rng(5).normal(0.3, 0.6, len(given.lengths)).astype(dtype)
        above[::4] = -np.inf
        number = 8
        listed = jax.jit(
            jax.vmap(lambda *one: problem.oracles.best_above(*one[:2], number, one[2]))
        )
        ys, real = map(np.asarray, listed(theta, truths, above))
        close, cut = 5e-6 if dtype == "float32" else 1e-12, 0
        for k, every in ORDERS.items():
            rows, (scores, truths, *_) = rows_of(given, k)
            total = ranking_scores(scores, truths, every) + ranking_losses(name, at, truths, every)
            for i, own, one in zip(rows, truths, total, strict=True):
                kinds = own if name == "ndcg" else np.minimum(own, 1)
                best = {}
                for order, value in zip(
                    kinds[np.argsort(-every, axis=1)].tolist(), one, strict=True
                ):
                    best[tuple(order)] = max(value, best.get(tuple(order), -np.inf))
                wanted = np.sort(list(best.values()))[::-1]
                wanted = wanted[wanted > above[i]]
                cut += len(wanted) > number
                found = ys[i][real[i]]
                assert (found[:, k:] == -1).all() and real[i].argmin() in (len(found), 0)
                same = (found[:, None, :k] == every[None]).all(2)
                assert same.any(1).all()
                np.testing.assert_allclose(one[same.argmax(1)], wanted[:number], atol=close)
                seen = {tuple(kinds[np.argsort(-y[:k])].tolist()) for y in found}
                assert len(seen) == len(found)
        assert cut > 10


def test_a_list_that_is_cut_off_is_filled_with_its_last_ranking(monkeypatch):
    """So that what reads it knows of others."""
    monkeypatch.setattr(listing, "WORK", 0)
    given = cases(6, 40, 3)
    problem, truths = document_ranking(1), jnp.asarray(given.truths)
    theta = SampleTheta(jnp.asarray(given.scores, jnp.float32), jnp.asarray(given.lengths), truths)
    listed = jax.vmap(lambda *one: problem.oracles.best_above(*one, 3, jnp.float32(0.3)))
    ys, real = map(np.asarray, jax.jit(listed)(theta, truths))
    decode = jax.vmap(problem.oracles.loss_augmented_decode, (0, 0, None))
    best = jax.jit(decode)(theta, truths, 1.0)
    assert (real == real[:, :1]).all() and 0 < real[:, 0].sum() < 40
    score, loss = (jax.jit(jax.vmap(of)) for of in (problem.model.score, problem.model.loss))
    values = [score(theta, y) + loss(truths, y) for y in (*np.moveaxis(ys, 1, 0), best)]
    for own in values[:3]:
        np.testing.assert_allclose(own, values[3], atol=1e-5)


def test_ties_go_to_the_fewest_true_positives_and_to_relevant_documents():
    """Equal scores throughout: the docstrings alone say which of the maxima is taken."""
    scores, truth = jnp.zeros(5), jnp.asarray([1, 0, 1, 0, -1])

    def two_ones(a, b, F):
        return F - jnp.abs(a + b - 2)

    for at in (None, 2):
        y, value = best_cell(scores, truth, jnp.int32(4), two_ones, at)
        assert (y.tolist(), float(value)) == ([0, 1, 0, 1, -1], 0.0)
    for augmented in (average_precision_augmented, roc_area_augmented):
        y = augmented(scores, truth, jnp.int32(4), 0.0)
        assert y.tolist() == [3, 1, 2, 0, -1]  # the relevant first, each kind in its order


@pytest.mark.parametrize(("name", "at"), MEASURES)
def test_the_best_labels_of_every_level(name, at):
    """A level is a cell of the contingency table; its best wrong labels are those of the list."""
    given = cases(2, 400, 1)
    problem = sample_labels(1, loss=name, at=at)
    theta = SampleTheta(jnp.asarray(given.scores, jnp.float32), jnp.asarray(given.lengths))
    levels = np.asarray(jax.vmap(problem.oracles.level_losses)(given.truths))
    random = np.random.default_rng(1)
    offsets, slopes = (random.random(levels.shape).astype(np.float32) for _ in range(2))
    best = jax.jit(jax.vmap(problem.oracles.best_by_level))
    found = np.asarray(best(theta, given.truths, offsets, slopes))
    for k, every in LABELS.items():
        rows, (scores, truths, *_) = rows_of(given, k)
        tp = (truths[:, None] * every).sum(2)
        fp = ((1 - truths[:, None]) * every).sum(2)
        level = tp if at is not None else tp * (K + 1) + fp
        at_level = [np.take_along_axis(leaf[rows], level, 1) for leaf in (offsets, slopes, levels)]
        value = at_level[0] + at_level[1] * (scores @ every.T / k)
        wrong = (truths[:, None] != every).any(2)
        if at is not None:
            wrong &= every.sum(1) == min(at, k)
        losses = table_losses(name, truths, every)
        np.testing.assert_allclose(at_level[2][wrong], losses[wrong], atol=1e-6)
        value = np.where(wrong, value, -np.inf)
        place = places_of(found, every, rows, k)
        some = wrong.any(1)
        own = value[np.arange(len(rows)), place]
        np.testing.assert_allclose(own[some], value[some].max(1), atol=1e-5)
        assert (found[rows, :k] == truths)[~some].all()


def test_losses_are_those_of_scikit_learn():
    random = np.random.default_rng(0)
    for _ in range(40):
        relevance, y = random.integers(0, 2, 7), random.permutation(7)
        relevance[:2] = 0, 1
        graded, labels = random.integers(0, 4, 7), random.integers(0, 2, 7)
        graded[0] = 3
        wanted = {
            ("average_precision", None): average_precision_score(relevance, y),
            ("roc_area", None): roc_auc_score(relevance, y),
            ("ndcg", None): ndcg_score([2.0**graded - 1], [y]),
            ("ndcg", 2): ndcg_score([2.0**graded - 1], [y], k=2),
        }
        for (name, at), score in wanted.items():
            own = graded if name == "ndcg" else relevance
            assert ranking_loss(Measure(name, at, "float32"), own, y) == pytest.approx(
                1 - score, abs=1e-5
            )
        lost = float(labels_loss(Measure("f1", None, "float32"), relevance, labels))
        assert lost == pytest.approx(1 - f1_score(relevance, labels), abs=1e-5)


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
@pytest.mark.parametrize(("name", "at"), RANKINGS)
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
