"""scikit-learn's machines beside ours: liblinear, LIBSVM, and its reductions to binary machines.

Their weights are put into our objectives in float64. LIBSVM minimises the very ones, with a bias
that costs nothing. liblinear's bias is a feature of value 1 and costs b^2 / 2, so that its
machines are near ours, not the same; without a bias (Crammer and Singer) they are.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from experiments.lib.peers import linear_svc
from experiments.lib.record import Elapsed, Stopwatch
from experiments.multiclass.machines import Data, Run


class Peer(NamedTuple):
    """One machine of scikit-learn.

    Fields:
      name: what it is. machine, penalty: ours that it stands beside.
      objective: ours of its weights, NaN where its machines are others than ours.
      guess: [N] classes of the test inputs. seconds: of training.
    """

    name: str
    machine: str
    penalty: str
    objective: float
    guess: np.ndarray
    seconds: Elapsed


def peers_of(machine: str, penalty: str, data: Data, run: Run) -> list[Peer]:
    """What scikit-learn has beside one of our machines."""
    from sklearn.multiclass import OneVsOneClassifier, OutputCodeClassifier

    def plain() -> Any:
        return _linear_svc(penalty, run)

    made: list[tuple[str, Any, Any]] = []
    if machine == "crammer_singer" and penalty == "L1" and not data.kernel:
        made = [("LinearSVC", linear_svc(run.c, run.tolerance / 10, run.seed), _crammer_singer)]
    if machine == "one_against_all":
        made += [] if data.kernel else [("LinearSVC", plain(), _one_against_all)]
        made += [("SVC, one a class", _Several(data, run), _by_svc)] if penalty == "L1" else []
    if machine == "all_pairs":
        made += (
            [] if data.kernel else [("OneVsOne of LinearSVC", OneVsOneClassifier(plain()), _pairs)]
        )
        made += [("SVC", _svc(data, run), _pairs_of_svc)] if penalty == "L1" else []
    if machine == "random_code" and not data.kernel:
        length = run.code_length or 4 * int(np.ceil(np.log2(data.number_of_classes)))
        parts = length / data.number_of_classes
        code = OutputCodeClassifier(plain(), code_size=parts, random_state=run.seed)
        made = [("OutputCode of LinearSVC", code, None)]
    return [_measured(name, each, value, machine, penalty, data, run) for name, each, value in made]


def _measured(
    name: str, peer: Any, value: Any, machine: str, penalty: str, data: Data, run: Run
) -> Peer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of iterations, whose effect the objective shows
        watch = Stopwatch()
        peer.fit(data.x, data.labels)
        seconds = watch.elapsed()
    objective = float("nan") if value is None else value(peer, penalty, data, run)
    return Peer(name, machine, penalty, objective, np.asarray(peer.predict(data.x_test)), seconds)


def _linear_svc(penalty: str, run: Run) -> Any:
    """liblinear has C sum xi^2 where (2.7) has C / 2, so its C is half of ours."""
    from sklearn.svm import LinearSVC

    shared = {"tol": 1e-3, "max_iter": 20_000, "random_state": run.seed, "dual": True}
    if penalty == "L1":
        return LinearSVC(loss="hinge", C=run.c, **shared)
    return LinearSVC(loss="squared_hinge", C=run.c / 2, **shared)


def _svc(data: Data, run: Run) -> Any:
    from sklearn.svm import SVC

    kernel = "precomputed" if data.kernel else "linear"
    return SVC(kernel=kernel, C=run.c, tol=run.tolerance, decision_function_shape="ovo")


class _Several:
    """A machine of LIBSVM for each class against all others."""

    def __init__(self, data: Data, run: Run) -> None:
        self._make = lambda: _svc(data, run)
        self.machines: list[Any] = []

    def fit(self, x: Any, labels: np.ndarray) -> None:
        """Train one after the other."""
        self.machines = [
            self._make().fit(x, np.where(labels == r, 1, -1)) for r in range(labels.max() + 1)
        ]

    def values(self, x: Any) -> np.ndarray:
        """[N, k] decision values."""
        return np.stack([machine.decision_function(x) for machine in self.machines], axis=1)

    def predict(self, x: Any) -> np.ndarray:
        """The largest value (2.22)."""
        return self.values(x).argmax(axis=1)


def binary_objective(
    values: np.ndarray, squares: np.ndarray, signs: np.ndarray, penalty: str, c: float
) -> float:
    """The sum over machines of (2.6) or (2.7), float64.

    Args:
      values: [n, M] F_m(x_i) with the bias. squares: [M] |w_m|^2.
      signs: [n, M] of -1, 0 (no example of this machine) and 1. penalty: L1 or L2. c: C / n.
    """
    slack = np.where(signs != 0, np.maximum(0, 1 - signs * values), 0)
    cost = slack.sum() if penalty == "L1" else (slack**2).sum() / 2
    return float(np.sum(squares) / 2 + c * cost)


def _one_against_all(peer: Any, penalty: str, data: Data, run: Run) -> float:
    values = np.asarray(data.x @ peer.coef_.T) + peer.intercept_
    signs = np.where(data.labels[:, None] == np.arange(data.number_of_classes), 1, -1)
    return binary_objective(values, np.sum(peer.coef_**2, axis=1), signs, penalty, run.c)


def _by_svc(peer: _Several, penalty: str, data: Data, run: Run) -> float:
    signs = np.where(data.labels[:, None] == np.arange(data.number_of_classes), 1, -1)
    values, squares = peer.values(data.x), []
    for r, machine in enumerate(peer.machines):  # |w|^2 = sum_i beta_i (F(x_i) - b)
        scores = values[machine.support_, r] - machine.intercept_[0]
        dual = machine.dual_coef_
        beta = np.asarray(dual.toarray() if hasattr(dual, "toarray") else dual)[0]
        squares.append(float(beta @ scores))
    return binary_objective(values, np.array(squares), signs, penalty, run.c)


def _pair_value(
    data: Data, penalty: str, c: float, r: int, s: int, values: np.ndarray, square: float
) -> float:
    """One pair's objective; r is the positive class. values: of the examples of both classes."""
    own = data.labels[(data.labels == r) | (data.labels == s)]
    signs = np.where(own == r, 1, -1)[:, None]
    return binary_objective(values[:, None], np.array([square]), signs, penalty, c)


def _pairs(peer: Any, penalty: str, data: Data, run: Run) -> float:
    k, total = data.number_of_classes, 0.0
    pairs = [(r, s) for r in range(k) for s in range(r + 1, k)]
    for (r, s), machine in zip(pairs, peer.estimators_, strict=True):
        x = data.x[(data.labels == r) | (data.labels == s)]
        values = -(np.asarray(x @ machine.coef_[0]) + machine.intercept_[0])
        total += _pair_value(data, penalty, run.c, r, s, values, float(np.sum(machine.coef_**2)))
    return total


def _pairs_of_svc(peer: Any, penalty: str, data: Data, run: Run) -> float:
    """By the dual coefficients of LIBSVM: those of pair (r, s) stand in rows s - 1 and r."""
    dual, k, total = peer.dual_coef_, data.number_of_classes, 0.0
    dual = np.asarray(dual.toarray() if hasattr(dual, "toarray") else dual)
    of_class, where = data.labels[peer.support_], 0
    for r in range(k):
        for s in range(r + 1, k):
            mine, theirs = (np.flatnonzero(of_class == each) for each in (r, s))
            beta = np.concatenate([dual[s - 1, mine], dual[r, theirs]])
            support = peer.support_[np.concatenate([mine, theirs])]
            rows = np.flatnonzero((data.labels == r) | (data.labels == s))
            scores = _scores(data, rows, support, beta)
            inner = float(beta @ _scores(data, support, support, beta))
            total += _pair_value(data, penalty, run.c, r, s, scores + peer.intercept_[where], inner)
            where += 1
    return total


def _scores(data: Data, rows: np.ndarray, support: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """sum_j beta_j K(x_i, x_j) of some rows."""
    if data.kernel:
        return data.x[rows][:, support].astype(np.float64) @ beta
    weights = np.asarray(data.x[support].T @ beta)
    return np.asarray(data.x[rows] @ weights)


def _crammer_singer(peer: Any, penalty: str, data: Data, run: Run) -> float:
    scores, rows = np.asarray(data.x @ peer.coef_.T, np.float64), np.arange(len(data.labels))
    true = scores[rows, data.labels].copy()
    scores[rows, data.labels] = -np.inf
    slack = np.maximum(0, 1 + scores.max(axis=1) - true)
    del penalty
    return float(np.sum(peer.coef_.astype(np.float64) ** 2) / 2 + run.c * slack.sum())
