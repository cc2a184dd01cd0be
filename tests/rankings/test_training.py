"""Optima against quadratic programs and scikit-learn; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import jaxstruct as js
from tests.lib.refusals import refused
from tests.losses.perturbed_steps import check_perturbed_loss_falls
from tests.rankings.cases import LABELS, ORDERS, queries, ranking_losses, table_losses
from tests.truth.optimum import check_optimum

R = js.rankings


def joint_features(relevance, rows):
    """[m, d] Psi of all rankings of one query: 1/P sum over pairs of y_ij (x_i - x_j)."""
    sign = np.sign(ORDERS[len(rows)][:, :, None] - ORDERS[len(rows)][:, None])
    compared = relevance[:, None] != relevance
    return (sign * compared).sum(2) @ rows / (compared.sum() / 2)


def truth_last(psi, losses, wrong, true, most):
    """Psi and Delta of the wrong outputs, the first one repeated, then of the truth: [most]."""
    psi, losses = psi[wrong], losses[wrong]
    more = most - 1 - len(psi)
    psi = np.concatenate([psi, np.repeat(psi[:1], more, axis=0), true[None]])
    return psi, np.concatenate([losses, np.repeat(losses[:1], more), [0]])


@pytest.mark.thorough
def test_rankings_reach_the_optimum_of_the_quadratic_program(x64, loss="ndcg"):
    """Of named rows. Other losses have other oracles, which are enumerated, as lists are of what is
    above; dependency trees are trained by such lists."""
    rows, relevances = queries(0, 5)
    features, losses = [], []
    for x, own in zip(rows, relevances, strict=True):
        compared = np.sign(own[:, None] - own)
        true = compared.sum(1) @ x / (abs(compared).sum() / 2)
        lost = ranking_losses(loss, None, own[None], ORDERS[len(x)])[0]
        sign = np.sign(ORDERS[len(x)][:, :, None] - ORDERS[len(x)][:, None])
        wrong = ((sign != compared) & (compared != 0)).any((1, 2))
        psi, lost = truth_last(joint_features(own, x), lost, wrong, true, 25)
        features.append(psi)
        losses.append(lost)
    truth = np.array(features), np.array(losses), np.full(5, 24)
    named = [[{f"f{j}": value for j, value in enumerate(x)} for x in own] for own in rows]
    data = R.prepare(named, relevances, loss=loss, dtype="float64")
    check_optimum(data, "svm1_margin", 20.0, truth, 1e-7, 1e-6)


@pytest.mark.thorough
def test_labels_reach_the_optimum_of_the_quadratic_program(x64):
    """Two samples, of 5 and 4 rows."""
    random = np.random.default_rng(4)
    samples = [random.normal(size=(n, 3)) for n in (5, 4)]
    labels = [np.array([1, 0, 0, 1, 0]), np.array([0, 1, 0, 0])]
    features, losses = [], []
    for x, y in zip(samples, labels, strict=True):
        every = LABELS[len(x)]
        lost, wrong = table_losses("f1", y[None], every)[0], (every != y).any(1)
        psi, lost = truth_last(every @ x / len(x), lost, wrong, y @ x / len(x), 32)
        features.append(psi)
        losses.append(lost)
    truth = np.array(features), np.array(losses), np.full(2, 31)
    data = R.prepare_samples(samples, labels, constant=0.0, loss="f1", dtype="float64")
    check_optimum(data, "svm1_slack", 15.0, truth, 1e-7, 1e-6)


@pytest.mark.smoke
def test_the_error_rate_is_the_binary_svm(x64):
    """Of one sample; both give a primal, and each is above the dual of the other problem."""
    random = np.random.default_rng(5)
    X = random.normal(size=(60, 4))
    y = (X[:, 0] + random.normal(size=60) > 0.5).astype(int)
    data = R.prepare_samples([X], [y], loss="error_rate", constant=0.0, dtype="float64")
    found = js.fit(*data, C=30.0, tolerance=1e-6)
    peer = LinearSVC(C=30 / 60, loss="hinge", fit_intercept=False, tol=1e-9, max_iter=10**6)
    w = peer.fit(X, y).coef_[0]
    hinge = np.maximum(0, 1 - np.where(y > 0, 1, -1) * (X @ w))
    np.testing.assert_allclose(w @ w / 2 + 30 * hinge.mean(), found.primal, rtol=1e-5)


def test_perturbed_losses_work_and_sums_are_refused():
    """What needs the best ranking alone works."""
    data = R.prepare(*queries(3, 6))
    check_perturbed_loss_falls(data, "weights")
    with refused("problem has no marginals: sums over rankings are not computed"):
        js.confidence.marginals(data.problem, data.problem.initial_weights, data.inputs)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (r"loss is 'f1'; choose one of", lambda: R.document_ranking(2, loss="f1")),
        (r"at must be None for loss='roc_area', got 3",
         lambda: R.document_ranking(2, loss="roc_area", at=3)),
        (r"at must say how many examples", lambda: R.sample_labels(2, loss="recall_at")),
        (r"relevances\[0\] has 1 entries, but queries\[0\] has 2",
         lambda: R.prepare([np.ones((2, 1))], [[1]])),
        (r"queries\[1\] has no document", lambda: R.prepare([np.ones((2, 1)), []], [[1, 0], []])),
        (r"samples\[0\] has no row", lambda: R.prepare_samples([[]], [[]])),
        (r"relevances\[0\] must be integers >= 0", lambda: R.prepare([np.ones((1, 1))], [[1.5]])),
        (r"relevances\[0\] must be integers >= 0", lambda: R.prepare([np.ones((2, 1))], [[1, -2]])),
        (r"labels must name at least two labels, got \('a',\)",
         lambda: R.prepare_samples([np.ones((2, 1))], [["a", "a"]])),
        (r"outputs have no query with documents of different relevance",
         lambda: js.fit(*R.prepare([np.ones((2, 1))], [[1, 1]]), C=1.0)),
        (r"level", lambda: js.fit(*R.prepare(*queries(4, 3)), "svm2_margin", 1.0)),
        (r"inputs.relevance must be the outputs", lambda: js.fit(
            *(data := R.prepare(*queries(4, 3)))[:1], data.encoding.inputs(queries(4, 3)[0]),
            data.outputs, C=1.0)),
        (r"loss must be 0 for the true labels", lambda: js.fit(*R.prepare_samples(
            [np.ones((2, 1))], [[0, 1]], loss=lambda tp, fp, fn, tn: tp), C=1.0)),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(words, call):
    refused(words, call)
