"""The multiclass machines of the thesis's chapter 2, all of them, beside scikit-learn's own.

    python -m experiments.multiclass                                  # all data
    python -m experiments.multiclass --data=digits_gaussian --c_over_n=10
    python -m experiments.multiclass --data=clinc150 --per_class=20 --machines=weston_watkins

One against all (2.22), all pairs by votes and by margins, random error-correcting codes by Hamming
distance and by margins, Weston and Watkins (2.27, 2.28), Crammer and Singer (2.29, 2.30), each with
linear (L1) and squared (L2) slack. The first three are made of binary machines whose bias is not
regularised (2.6, 2.7). Every slack of every machine costs C'.

Weights of scikit-learn's machines are put into our objectives in float64. LIBSVM minimises the very
ones, with a bias that costs nothing. liblinear's bias is a feature of value 1 and costs b^2 / 2, so
that its machines are near ours, not the same; without a bias (Crammer and Singer) they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.peers import linear_svc
from experiments.lib.plots import Plot, bar_groups
from experiments.lib.progress import jobs_bar
from experiments.lib.record import Elapsed, Stopwatch
from experiments.lib.report import Table
from experiments.multiclass.machines import (
    MACHINES,
    NAMES,
    PENALTIES,
    WORDS,
    Data,
    Run,
    Trained,
    code_length,
    load,
    trained,
)


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
        length = code_length(data.number_of_classes)
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


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    data: Sequence[str] = flag(NAMES, "Examples to train on.", NAMES, some=True)
    machines: Sequence[str] = flag(MACHINES, "Machines to train.", MACHINES, some=True)
    c_over_n: float = flag(1.0, "C', what a slack costs in every machine.", above=0)
    per_class: int = flag(0, "Learn from so many examples of each class; 0 for all.", least=0)
    twice: bool = flag(True, "Train each machine a second time, for the seconds without compiling.")


def run(options: Options) -> common.Outcome:
    """Train all machines on all data, print the table and write it.

    Raises:
      ValueError: an option that does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    how = Run(options.c_over_n, options.tolerance, dtype, options.seed)
    rows: list[dict[str, Any]] = []
    sets = {name: load(name, options.per_class, options.seed) for name in options.data}
    jobs = [(name, machine) for name in options.data for machine in options.machines]
    with (
        common.kept_if_stopped(options, {"rows": rows}),
        jobs_bar(jobs, "multiclass", options.progress) as bar,
    ):
        for name, machine in bar:
            rows.extend(_measurements(options, name, sets[name], machine, how))
    table = _table(options, sets, rows)
    plots = {f"multiclass_{name}": _plot(name, sets[name], rows) for name in sets}
    return common.save(options, table, {"rows": rows}, plots)


def _measurements(
    options: Options, name: str, data: Data, machine: str, how: Run
) -> Iterator[dict[str, Any]]:
    for penalty in PENALTIES:
        ours = trained(machine, penalty, data, how, options.twice)
        yield {"data": name} | _our_row(ours, data)
        for peer in peers_of(machine, penalty, data, how):
            yield {"data": name} | _peer_row(peer, ours, data)


def _accuracy(data: Data, guess: np.ndarray) -> float:
    return 100 * float(np.mean(guess == data.test_labels))


def _our_row(ours: Trained, data: Data) -> dict[str, Any]:
    accuracies = {rule: _accuracy(data, guess) for rule, guess in ours.guesses.items()}
    return {
        "machine": ours.machine, "penalty": ours.penalty, "peer": None,
        "hyperplanes": ours.machines, "status": ours.status, "objective": ours.objective,
        "gap": ours.gap, "support": ours.support, "accuracy": next(iter(accuracies.values())),
        "accuracies": accuracies, "first": ours.first, "seconds": ours.second,
        "above_ours": None, "ratio": None,
    }  # fmt: skip


def _peer_row(peer: Peer, ours: Trained, data: Data) -> dict[str, Any]:
    return {
        "machine": peer.machine, "penalty": peer.penalty, "peer": peer.name,
        "hyperplanes": None, "status": None, "objective": peer.objective, "gap": None,
        "support": None, "accuracy": _accuracy(data, peer.guess), "accuracies": None,
        "first": None, "seconds": peer.seconds,
        "above_ours": peer.objective / ours.objective - 1,
        "ratio": ours.second.process / peer.seconds.process,
    }  # fmt: skip


def _table(options: Options, sets: Mapping[str, Data], rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        "data", "machine", "slack", "hyperplanes", "status", ("objective", "J"),
        ("objective", "gap"), ("objective", "J / ours - 1"), "support", ("accuracy %", "usual"),
        ("accuracy %", "hinge"), ("accuracy %", "linear"), ("seconds", "wall"),
        ("seconds", "processor"), "ours / theirs",
    ]  # fmt: skip
    notes = [
        *(f"{name}: {data.title}; {len(data.labels)} to learn from, {len(data.test_labels)} to "
          f"test, {data.number_of_classes} classes." for name, data in sets.items()),
        f"C' = {options.c_over_n:g} for every slack: C = C' n, of Weston and Watkins C' n (k - 1). "
        f"Relative gap {options.tolerance:g}, {'float64' if options.x64 else 'float32'}. "
        "Objectives of binary machines are sums over them.",
        "Usual decoders: the largest value of one against all, Hamming distance (votes of all "
        "pairs) of codes, ties to the better margins; hinge and linear: by margins.",
        "Indented: scikit-learn's machine, its weights in our objective (float64). LIBSVM (SVC) "
        "minimises the same; liblinear's bias costs b^2 / 2, so its J is of a near machine; "
        "OutputCode draws a code of its own. Seconds without compiling"
        f"{' (second run)' if options.twice else ' NOT left out'}; the ratio is of processor time.",
    ]  # fmt: skip
    return Table("Multiclass machines of chapter 2", columns, [_cells(row) for row in rows], notes)


def _cells(row: Mapping[str, Any]) -> list[Any]:
    rules = row["accuracies"] or {}
    theirs = row["peer"] is not None
    above, objective = row["above_ours"], row["objective"]
    name = f"- {row['peer']}" if theirs else WORDS[row["machine"]]
    known = objective == objective
    return [
        row["data"], name, row["penalty"], row["hyperplanes"], row["status"],
        f"{objective:.3f}" if known else None, None if theirs else f"{row['gap']:.1e}",
        f"{above:+.1e}" if theirs and known else None, row["support"], f"{row['accuracy']:.2f}",
        *(f"{rules[rule]:.2f}" if rule in rules else None for rule in ("hinge", "linear")),
        f"{row['seconds'].wall:.2f}", f"{row['seconds'].process:.2f}",
        f"{row['ratio']:.1f}" if theirs else None,
    ]  # fmt: skip


def _plot(name: str, data: Data, rows: Sequence[Mapping[str, Any]]) -> Plot:
    own = [row for row in rows if row["data"] == name and row["peer"] is None]
    machines = list(dict.fromkeys(row["machine"] for row in own))
    found = {(row["machine"], row["penalty"]): row["accuracy"] for row in own}
    penalties = list(dict.fromkeys(row["penalty"] for row in own))
    series = {
        f"{penalty} slack": [round(100 - found[machine, penalty], 2) for machine in machines]
        for penalty in penalties
    }
    title = f"Test error by machine: {data.title}"
    return bar_groups([WORDS[each] for each in machines], series, title=title, ylabel="error, %")
