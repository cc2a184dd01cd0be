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
from jaxstruct.rankings.oracles.orders import (
    average_precision_augmented,
    ranked,
    roc_area_augmented,
)
from tests.lib.structures import Every, check_oracles
from tests.lib.thorough import thorough_after
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

RANKINGS = [
    ("average_precision", None, "float32"), ("roc_area", None, "float64"),
    ("ndcg", 3, "float32"), ("ndcg", None, "float64"),
]  # fmt: skip
MEASURES = [
    ("precision_at", 2, "float32"), ("f1", None, "float64"), ("error_rate", None, "float32"),
    ("recall_at", 3, "float64"),
]  # fmt: skip


def balanced(tp, fp, fn, tn):
    """The mean of the error rates of both kinds."""
    P, N = tp + fn, fp + tn
    return (fn / (P + (P == 0)) + fp / (N + (N == 0))) / 2


def listed(given, lists, of):
    """A case -> all its outputs; of: (cases of one length, outputs) -> (F, Delta, places of y)."""
    found = {}
    for k, every in lists.items():
        rows, own = rows_of(given, k)
        outputs = np.pad(every, ((0, 0), (0, K - k)), constant_values=-1)
        found |= {i: Every(outputs, *one) for i, *one in zip(rows, *of(own, every), strict=True)}
    return found.__getitem__


def theta_of(given, dtype):
    return SampleTheta(given.scores.astype(dtype), given.lengths, given.truths)


def check(problem, given, dtype, every, **options):
    """By every scale that cases have."""
    tolerance, theta = 5e-6 if dtype == "float32" else 1e-12, theta_of(given, dtype)
    check_oracles(problem, theta, given.truths, every, tolerance, (0.3, 1.0, 4.0), **options)


@pytest.mark.parametrize(("name", "at", "dtype"), RANKINGS[:3])
def test_the_most_violated_ranking(name, at, dtype):
    """A ranking in the order of the relevances has the F of these."""

    def of(own, every):
        F, losses = (
            ranking_scores(own.scores, own.truths, every),
            ranking_losses(name, at, own.truths, every),
        )
        true = np.argsort(np.argsort(own.truths, axis=1, kind="stable"), axis=1)
        return F, losses, (every == true[:, None]).all(2).argmax(1)

    with jax.enable_x64(dtype == "float64"):
        problem, given = document_ranking(1, loss=name, at=at, dtype=dtype), cases(0, 1_000, 3)
        check(problem, given, dtype, listed(given, ORDERS, of))


@pytest.mark.parametrize(
    ("name", "at", "dtype"), thorough_after(3, [(balanced, None, "float64"), *MEASURES])
)
def test_the_most_violated_labels(name, at, dtype):
    """And the best ones of every level, a cell of the contingency table."""

    def of(own, every):
        k, truth = every.shape[1], (own.truths[:, None] == every).all(2)
        free = truth | (at is None) | (every.sum(1) == min(at or 0, k))
        losses = np.where(truth, 0, table_losses(name, own.truths, every))
        return np.where(free, own.scores @ every.T / k, -np.inf), losses, truth.argmax(1)

    with jax.enable_x64(dtype == "float64"):
        problem, given = sample_labels(1, loss=name, at=at, dtype=dtype), cases(1, 400, 1)
        check(problem, given, dtype, listed(given, LABELS, of), plain=at is None)
        if at is None:
            return
        found = jax.jit(jax.vmap(problem.model.decode))(theta_of(given, dtype))
    order = np.argsort(-np.where(given.truths < 0, -np.inf, given.scores), axis=1, kind="stable")
    place = np.argsort(order, axis=1)
    np.testing.assert_array_equal(found, np.where(given.truths < 0, -1, place < at))


@pytest.mark.parametrize(("name", "at", "dtype"), [*RANKINGS[:2], RANKINGS[3]])
def test_rankings_above_are_the_best_of_each_sequence_of_kinds(name, at, dtype):
    """Down to a value that is drawn; every ranking of a larger F + Delta has an equal in the list
    that is as good."""
    with jax.enable_x64(dtype == "float64"):
        given = cases(4, 1_000, 3)
        problem = document_ranking(1, loss=name, at=at, dtype=dtype)
        above = np.random.default_rng(5).normal(0.3, 0.6, len(given.lengths)).astype(dtype)
        above[::4] = -np.inf
        number = 8
        call = jax.vmap(lambda *one: problem.oracles.best_above(*one[:2], number, one[2]))
        ys, real = jax.device_get(jax.jit(call)(theta_of(given, dtype), given.truths, above))
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
    problem = document_ranking(1)

    @jax.jit
    @jax.vmap
    def answers(theta, truth):
        ys, real = problem.oracles.best_above(theta, truth, 3, jnp.float32(0.3))
        best = problem.oracles.loss_augmented_decode(theta, truth, 1.0)
        every = jnp.concatenate([ys, best[None]])
        score = jax.vmap(problem.model.score, (None, 0))(theta, every)
        return real, score + jax.vmap(problem.model.loss, (None, 0))(truth, every)

    real, values = jax.device_get(answers(theta_of(given, "float32"), given.truths))
    assert (real == real[:, :1]).all() and 0 < real[:, 0].sum() < 40
    np.testing.assert_allclose(values[:, :3], np.tile(values[:, 3:], 3), atol=1e-5)


def test_ties_go_to_the_fewest_true_positives_and_to_relevant_documents():
    """Equal scores throughout: the docstrings alone say which of the maxima is taken."""

    def two_ones(a, b, F):
        return F - jnp.abs(a + b - 2)

    @jax.jit
    def found(scores, truth, length):
        cells = [best_cell(scores, truth, length, two_ones, at) for at in (None, 2)]
        order = ranked(jnp.asarray([1.0, 2, 1, 2, 9]), length)
        oracles = average_precision_augmented, roc_area_augmented
        return cells, order, [oracle(scores, truth, length, 0.0) for oracle in oracles]

    cells, order, augmented = found(np.zeros(5, "f4"), np.array([1, 0, 1, 0, -1]), np.int32(4))
    for y, value in cells:
        assert (y.tolist(), float(value)) == ([0, 1, 0, 1, -1], 0.0)
    assert order.tolist() == [1, 3, 0, 2, -1]
    for y in augmented:
        assert y.tolist() == [3, 1, 2, 0, -1]  # the relevant first, each kind in its order


def test_losses_are_those_of_scikit_learn():
    of = jax.jit(ranking_loss, static_argnums=0)
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
            assert of(Measure(name, at, "float32"), own, y) == pytest.approx(1 - score, abs=1e-5)
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
@pytest.mark.parametrize(("name", "at"), [one[:2] for one in RANKINGS])
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
