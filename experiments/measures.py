"""Rare labels of scenes and genes: SVMs trained for F1 and for precision at k, and the usual ways.

    python -m experiments.measures
    python -m experiments.measures --data=scene --measures=f1 --splits=1
    python -m experiments.measures --methods=plain,measure --c=10,100

Every label that fewer than a fifth of the examples have is a task of its own. For F1, the share of
which the right positives are, and for precision at k, with k the positives expected in the test
set, three ways beside each other:

  plain      LinearSVC as it is, with the squared hinge
  threshold  its largest scores, as many as validation data choose (of F1 alone): the threshold is
             the quantile of training scores with the share that was best
  weights    LinearSVC with positives weighted more, by a factor that validation data choose
  measure    a structural SVM trained for the measure itself, one joint output of all examples
             (`jaxstruct.estimators.MeasureClassifier`)

A third of the training set chooses C, factor and threshold; the machine is then trained on all of
it. Each method runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.multilabel import NAMES, LabelSets, load_label_sets
from experiments.lib import common, fields
from experiments.lib.apart import run_parts, write_part
from experiments.lib.options import flag
from experiments.lib.plots import Plot
from experiments.lib.record import SECONDS, Stopwatch, peak_memory_bytes, spent, spread
from experiments.lib.report import Columns, Table, rows_table
from jaxstruct.rankings.losses import chosen

MEASURES = ("f1", "precision")
METHODS = ("plain", "threshold", "weights", "measure")
SPOKEN = {
    "plain": "LinearSVC", "threshold": "LinearSVC, threshold", "weights": "LinearSVC, weights",
    "measure": "SVM of the measure",
}  # fmt: skip
C_OF_LINEAR_SVC = (0.01, 0.1, 1.0, 10.0)
SHARES = np.linspace(0.01, 0.6, 60).tolist()
"""Labelled positive, to choose from."""
RAREST = 0.2


class Options(fields.Apart, fields.Tolerance, fields.Common):
    """The flags of this command."""

    data: Sequence[str] = flag(NAMES, "Some of these.", NAMES, some=True)
    measures: Sequence[str] = flag(MEASURES, "Some of these.", MEASURES, some=True)
    methods: Sequence[str] = flag(METHODS, "Some of these.", METHODS, some=True)
    splits: int = flag(3, "The split of the corpus, then draws of the same sizes.", least=1)
    c: Sequence[str] = flag(
        ("30", "300", "3000"), "Values of C of the structural SVM to choose from.", each=float,
        above=0, some=True,
    )  # fmt: skip
    labels: int = flag(0, "Rare labels of each data set, the first ones; 0 for all.", least=0)
    compilation_cache: bool = False
    tolerance: float = flag(1e-2, "Relative duality gap to stop at.", above=0)


class Part(NamedTuple):
    """x [n, d], y [n] zeros and ones."""

    x: np.ndarray
    y: np.ndarray


class Choice(NamedTuple):
    """C, and beside it the factor of positives or the share that is labelled positive; None for
    what a method has not."""

    C: float
    factor: float | None = None
    share: float | None = None


def run(options: Options) -> common.Outcome | None:
    """Train, test, print the table and write it.

    Raises:
      ValueError: an option that does not fit.
      subprocess.CalledProcessError: a method failed; its messages are on standard error.
    """
    if options.part:
        return write_part(options, _part_name(options), _rows)
    common.prepare(options)
    for name in options.data:  # what is wrong with a corpus is said here, once
        load_label_sets(name)
    rows = common.finished_rows(options, run_parts(options, _parts(options), _part_name, _rows))
    return common.save(options, _table(options, rows), {"rows": rows}, {"measures": _picture(rows)})


def _parts(options: Options) -> Iterator[Options]:
    for measure in options.measures:
        for method in options.methods:
            if (measure, method) != ("precision", "threshold"):
                yield options.replace(measures=(measure,), methods=(method,))


def _part_name(options: Options) -> str:
    return f"measures_{options.measures[0]}_{options.methods[0]}"


def _splits(options: Options, name: str) -> Iterator[LabelSets]:
    """First as the corpus has them, then drawn."""
    first = load_label_sets(name)
    yield first
    x = np.concatenate([first.train_x, first.test_x])
    y = np.concatenate([first.train_y, first.test_y])
    n = len(first.train_x)
    for draw in range(1, options.splits):
        order = np.random.default_rng([options.seed, draw]).permutation(len(x))
        train, test = order[:n], order[n:]
        yield LabelSets(x[train], y[train], x[test], y[test])


def _value(measure: str, y: np.ndarray, scores: np.ndarray, threshold: float, k: int) -> float:
    """F1 of the scores above the threshold, or the precision of the k largest, in %, of ties
    the mean over their orders."""
    from sklearn.metrics import f1_score

    if measure == "f1":
        return 100 * float(f1_score(y, scores > threshold))
    return 100 * float(chosen(scores, k) @ y / k)


def _machine(options: Options, measure: str, method: str, choice: Choice, k: int) -> Any:
    if method == "measure":
        from jaxstruct.estimators import MeasureClassifier

        loss, at = ("f1", None) if measure == "f1" else ("precision_at", k)
        return MeasureClassifier(choice.C, loss=loss, at=at, tol=options.tolerance)
    from sklearn.svm import LinearSVC

    weights = None if choice.factor is None else {1: choice.factor}
    return LinearSVC(C=choice.C, dual="auto", class_weight=weights)


def _choices(options: Options, method: str, y: np.ndarray) -> list[Choice]:
    if method == "measure":
        return [Choice(C) for C in map(float, options.c)]
    if method != "weights":
        return [Choice(C) for C in C_OF_LINEAR_SVC]
    balanced = (len(y) - y.sum()) / y.sum()
    return [Choice(C, factor) for C in C_OF_LINEAR_SVC for factor in (2.0, 4.0, float(balanced))]


def _threshold(scores: np.ndarray, share: float | None) -> float:
    return 0.0 if share is None else float(np.quantile(scores, 1 - share))


def _at(train: Part, n: int) -> int:
    """The positives to expect of n examples."""
    return max(1, round(float(train.y.mean()) * n))


def _chosen(options: Options, measure: str, method: str, train: Part) -> Choice:
    """What is best on a third of the training set, with as many positives of it as of the rest."""
    from sklearn.model_selection import train_test_split

    both = train_test_split(
        np.arange(len(train.y)), test_size=1 / 3, stratify=train.y, random_state=options.seed
    )
    rest, held = (Part(train.x[own], train.y[own]) for own in both)
    best, value = None, -1.0
    for choice in _choices(options, method, rest.y):
        machine = _machine(options, measure, method, choice, int(rest.y.sum()))
        scores = machine.fit(*rest).decision_function(held.x)
        for share in SHARES if method == "threshold" else (None,):
            threshold = _threshold(scores, share)
            own = _value(measure, held.y, scores, threshold, _at(train, len(held.y)))
            if own > value:
                best, value = choice._replace(share=share), own
    assert best is not None, "some C"
    return best


def _rows(options: Options) -> list[dict[str, Any]]:
    """A row a label and split of one method and measure."""
    (measure,), (method,) = options.measures, options.methods
    rows = []
    for name in options.data:
        rare = np.flatnonzero(load_label_sets(name).train_y.mean(axis=0) < RAREST)
        for draw, data in enumerate(_splits(options, name)):
            for label in rare[: options.labels or None].tolist():
                train = Part(data.train_x, data.train_y[:, label])
                test = Part(data.test_x, data.test_y[:, label])
                about = {"data": name, "label": label, "draw": draw}
                about |= {"measure": measure, "method": method}
                rows.append(about | _row(options, measure, method, train, test))
    return [row | {"peak_memory": peak_memory_bytes()} for row in rows]


def _row(options: Options, measure: str, method: str, train: Part, test: Part) -> dict[str, Any]:
    choice = _chosen(options, measure, method, train)
    watch = Stopwatch()
    machine = _machine(options, measure, method, choice, int(train.y.sum())).fit(*train)
    numbers = watch.numbers()
    scores, k = machine.decision_function(test.x), _at(train, len(test.y))
    threshold = _threshold(machine.decision_function(train.x), choice.share)
    status = getattr(machine, "status_", None)
    return numbers | choice._asdict() | {
        "value": _value(measure, test.y, scores, threshold, k),
        "status": None if status is None else status.name,
        "curve": _curve(test.y, scores) if measure == "f1" else None,
    }  # fmt: skip


def _curve(y: np.ndarray, scores: np.ndarray) -> list[list[float]]:
    """[recall, precision] at a hundred thresholds at most."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, _ = precision_recall_curve(y, scores)
    some = np.linspace(0, len(recall) - 1, min(len(recall), 100)).astype(int)
    return np.stack([recall[some], precision[some]], axis=1).tolist()


def _table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {"data": "data", "measure": "measure", "method": "method"}
    columns |= {("%", "mean"): "value", ("%", "sd"): "sd", "better": "better", "worse": "worse"}
    columns |= {**SECONDS, "peak MB": "memory", "status": "status"}
    lines = []
    for name in options.data:
        for measure in options.measures:
            groups = {
                method: [row for row in rows
                         if (row["data"], row["measure"], row["method"]) == (name, measure, method)]
                for method in options.methods
            }  # fmt: skip
            own = groups.get("measure", [])
            lines += [
                {"data": name, "measure": measure, "method": SPOKEN[method], **_line(group, own)}
                for method, group in groups.items() if group
            ]  # fmt: skip
    notes = [
        "Means over the labels that fewer than a fifth have, and the standard deviation of that "
        f"mean over {options.splits} splits. better, worse: in how many labels and splits the SVM "
        "of the measure is better and worse than the method.",
        "precision: of the k largest scores, k being the positives expected in the test set. "
        "Seconds of one training, the median; peak memory of the process of all, jax imported.",
    ]
    return rows_table("Rare labels", columns, lines, notes)


def _line(rows: Sequence[dict[str, Any]], measure: Sequence[dict[str, Any]]) -> dict[str, Any]:
    draws = sorted({row["draw"] for row in rows})
    means = [np.mean([row["value"] for row in rows if row["draw"] == draw]) for draw in draws]
    mean, deviation = spread(means)
    pairs = [] if rows is measure else zip(measure, rows, strict=True) if measure else []
    differences = np.array([a["value"] - b["value"] for a, b in pairs])
    counted = bool(differences.size)
    return spent(rows) | {
        "value": mean, "sd": deviation,
        "better": int((differences > 0).sum()) if counted else None,
        "worse": int((differences < 0).sum()) if counted else None,
    }  # fmt: skip


def _picture(rows: Sequence[dict[str, Any]]) -> Plot:
    """Precision against recall of the first label of each data set, on the split of the corpus."""
    from matplotlib.figure import Figure

    shown = [row for row in rows if row["draw"] == 0 and row["curve"]]
    firsts = {row["data"]: row["label"] for row in reversed(shown)}
    figure, data = Figure(figsize=(4.2 * max(len(firsts), 1), 3.4), layout="constrained"), []
    if not firsts:
        figure.text(0.5, 0.5, "precision and recall are of F1", ha="center")
        return Plot(figure, {"curves": data})
    for axis, name in zip(figure.subplots(1, len(firsts), squeeze=False)[0], firsts, strict=True):
        for row in shown:
            if (row["data"], row["label"]) == (name, firsts[name]) and row["method"] != "threshold":
                axis.plot(*np.transpose(row["curve"]), label=SPOKEN[row["method"]], linewidth=1.2)
                data.append({key: row[key] for key in ("data", "label", "method", "curve")})
        axis.set_title(f"{name}, label {firsts[name]}", fontsize=10)
        axis.set_xlabel("recall")
        axis.set_ylabel("precision")
        axis.legend(fontsize=8)
    return Plot(figure, {"curves": data})
