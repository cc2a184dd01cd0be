"""Best rankings and labels under a loss against all of them, ties and padding included."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, ndcg_score, roc_auc_score

from jaxstruct.rankings import document_ranking, sample_labels
from jaxstruct.rankings.losses import Measure, labels_loss, ranking_loss
from jaxstruct.rankings.structure import SampleTheta

K, CASES = 5, 1500
ORDERS = [np.array(list(itertools.permutations(range(l)))) for l in range(1, K + 1)]
LABELS = [np.array(list(itertools.product((0, 1), repeat=l))) for l in range(1, K + 1)]
RANKINGS = [("average_precision", None), ("roc_area", None), ("ndcg", None), ("ndcg", 3)]
MEASURES = [("error_rate", None), ("f1", None), ("precision_at", 2), ("recall_at", 3)]


@functools.cache
def cases(most):
    """(scores, relevances, lengths, scales): every third with equal scores, padding is 9 and -1."""
    random = np.random.default_rng(most)
    length = random.integers(1, K + 1, CASES).astype(np.int32)
    scores = random.normal(size=(CASES, K)).astype(np.float32)
    scores[::3] = random.integers(-1, 2, (len(scores[::3]), K))
    relevance = random.integers(0, most + 1, (CASES, K)).astype(np.int32)
    if most == 1:  # precision is of samples with a positive
        relevance[:, 0] = 1
    scale = random.choice([0.0, 0.3, 1.0, 4.0], CASES).astype(np.float32)
    beyond = np.arange(K) >= length[:, None]
    return np.where(beyond, 9, scores), np.where(beyond, -1, relevance), length, scale


def padded(table):
    return np.pad(table, ((0, 0), (0, K - table.shape[1])), constant_values=-1).astype(np.int32)


def listed(problem, theta, y_true, every, scale):
    """F + scale Delta of all outputs [m, k] of one case."""
    F = jax.vmap(problem.model.score, (None, 0))(theta, every)
    return F + scale * jax.vmap(problem.model.loss, (None, 0))(y_true, every)


@functools.cache
def compiled(kind, name, at, dtype):
    make = document_ranking if kind == "ranking" else sample_labels
    problem = make(1, loss=name, at=at, dtype=dtype)

    @jax.jit
    def run(theta, y_true, every, scale):
        found = jax.vmap(problem.oracles.loss_augmented_decode)(theta, y_true, scale)
        own = jax.vmap(functools.partial(listed, problem))(theta, y_true, found[:, None], scale)
        best = jax.vmap(functools.partial(listed, problem), (0, 0, None, 0))
        return found, own[:, 0], best(theta, y_true, every, scale)

    return run


@pytest.mark.parametrize(
    ("kind", "name", "at"),
    [("ranking", *one) for one in RANKINGS] + [("labels", *one) for one in MEASURES],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_most_violated_is_the_best_of_all(kind, name, at, dtype):
    scores, relevance, length, scale = cases(1 if kind == "labels" else 3)
    run = compiled(kind, name, at, dtype)
    with jax.enable_x64(dtype == "float64"):
        for l in range(2, K + 1):
            rows = np.flatnonzero(length == l)
            every = padded(ORDERS[l - 1] if kind == "ranking" else LABELS[l - 1])
            theta = SampleTheta(
                jnp.asarray(scores[rows], dtype), jnp.asarray(length[rows]),
                jnp.asarray(relevance[rows]) if kind == "ranking" else None,
            )  # fmt: skip
            y_true = relevance[rows]
            found, own, values = run(theta, y_true, every, jnp.asarray(scale[rows], dtype))
            if at is not None and kind == "labels":  # the truth, or labels with so many ones
                some = (every == 1).sum(1) == min(at, l)
                truth = (y_true[:, None] == every[None]).all(2)
                values = np.where(some[None] | truth, values, -np.inf)
            best = np.max(values, axis=1)
            np.testing.assert_allclose(own, best, rtol=0, atol=3e-5 if dtype == "float32" else 1e-9)
            assert (np.asarray(found)[:, l:] == -1).all()
            if kind == "ranking":  # a ranking: every place once
                assert (np.sort(np.asarray(found)[:, :l], axis=1) == np.arange(l)).all()


def test_losses_are_those_of_scikit_learn():
    random = np.random.default_rng(0)
    for _ in range(60):
        l = int(random.integers(3, 9))
        relevance, y = random.integers(0, 2, l), random.permutation(l)
        if relevance.min() == relevance.max():
            continue
        graded = random.integers(0, 4, l)
        graded[0] = 3
        losses = {
            name: float(ranking_loss(Measure(name, None, "float32"), relevance, y))
            for name in ("average_precision", "roc_area")
        }
        assert losses["average_precision"] == pytest.approx(
            1 - average_precision_score(relevance, y), abs=1e-5
        )
        assert losses["roc_area"] == pytest.approx(1 - roc_auc_score(relevance, y), abs=1e-5)
        gains = 2.0**graded - 1
        for at in (None, 2):
            lost = float(ranking_loss(Measure("ndcg", at, "float32"), graded, y))
            assert lost == pytest.approx(1 - ndcg_score([gains], [y], k=at), abs=1e-5)
        labels = random.integers(0, 2, l)
        lost = float(labels_loss(Measure("f1", None, "float32"), relevance, labels))
        assert lost == pytest.approx(1 - f1_score(relevance, labels), abs=1e-5)


@pytest.mark.parametrize(("name", "at"), MEASURES)
def test_the_best_of_every_level(name, at):
    """Levels hold the best wrong labels of a cell of the contingency table."""
    scores, y_true, length, _ = cases(1)
    problem = sample_labels(1, loss=name, at=at)
    rows = np.flatnonzero(length == 5)[:200]
    every = padded(LABELS[4])
    theta = SampleTheta(jnp.asarray(scores[rows]), jnp.asarray(length[rows]))
    random = np.random.default_rng(1)
    losses = jax.vmap(problem.oracles.level_losses)(y_true[rows])
    offsets, slopes = (random.random(losses.shape).astype(np.float32) for _ in range(2))

    @jax.jit
    def run(theta, y_true, offsets, slopes):
        found = jax.vmap(problem.oracles.best_by_level)(theta, y_true, offsets, slopes)
        F = jax.vmap(jax.vmap(problem.model.score, (None, 0)), (0, None))(theta, every)
        return found, F

    found, F = run(theta, y_true[rows], offsets, slopes)
    for i, true in enumerate(y_true[rows]):
        tp = ((every == 1) & (true == 1)).sum(1)
        fp = ((every == 1) & (true == 0)).sum(1)
        level = tp if at is not None else tp * (K + 1) + fp
        value = offsets[i][level] + slopes[i][level] * np.asarray(F[i])
        some = (every != true).any(1)
        if at is not None:
            some &= tp + fp == min(at, 5)
        place = (every == np.asarray(found[i])).all(1).argmax()
        best = value[some].max() if some.any() else None
        assert best is None or value[place] == pytest.approx(best, abs=1e-5)
