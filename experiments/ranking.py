"""Documents of queries ranked: structural SVMs of three measures beside LightGBM and RankSVM.

    python -m experiments.ranking
    python -m experiments.ranking --methods=ndcg,pairs --splits=1
    python -m experiments.ranking --c_over_n=0.01,0.1 --folds=2

The queries of LightGBM's lambdarank example: 201 to learn from and 50 to test, and as many draws of
201 of all 251. Three structural SVMs (`jaxstruct.rankings`) are trained for NDCG, mean average
precision and ROC area. Beside them: RankSVM, which is LinearSVC on the differences of documents of
different relevance (Joachims 2002), and LightGBM's lambdarank (extra `compare`) with the leaves and
the rate of its own example. C, or the number of trees, is chosen by folds over the
queries to learn from, by NDCG@10. A query without any relevant document counts as ranked right.
Each method runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.corpora.lambdarank import Queries, load_lambdarank
from experiments.lib import common, fields
from experiments.lib.apart import run_parts, write_part
from experiments.lib.options import flag
from experiments.lib.plots import Plot
from experiments.lib.record import SECONDS, Stopwatch, peak_memory_bytes, spent, spread
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks.graded_queries import rank_svm, taken
from jaxstruct import fit, rankings
from jaxstruct.rankings.losses import Measure, mean_ranking_loss

METHODS = ("ndcg", "average_precision", "roc_area", "pairs", "lightgbm")
SPOKEN = {
    "ndcg": "SVM, NDCG", "average_precision": "SVM, average precision",
    "roc_area": "SVM, ROC area", "pairs": "RankSVM (LinearSVC)", "lightgbm": "LightGBM lambdarank",
}  # fmt: skip
C_OF_PAIRS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
TREES = (10, 25, 50, 100, 200)
AT = (1, 5, 10)
PLACES = tuple(range(1, 16))
"""What the picture shows NDCG at."""

Scorer = Callable[[np.ndarray], np.ndarray]


class Options(fields.Apart, fields.Tolerance, fields.Common):
    """The flags of this command."""

    path: str = flag("", "The archive of queries; empty for the registered corpus.")
    methods: Sequence[str] = flag(METHODS, "Some of these.", METHODS, some=True)
    splits: int = flag(5, "The split of the corpus, then draws of as many queries.", least=1)
    folds: int = flag(4, "Folds over the queries to learn from, which choose C.", least=2)
    c_over_n: Sequence[str] = flag(
        ("0.001", "0.003", "0.01", "0.03", "0.1"),
        "Values of C' = C / n of the structural SVMs to choose from.",
        each=float, above=0, some=True,
    )  # fmt: skip
    compilation_cache: bool = False


def run(options: Options) -> common.Outcome | None:
    """Train, test, print the table and write it; LightGBM is left out where it is not installed.

    Raises:
      ValueError: an option that does not fit.
      subprocess.CalledProcessError: a method failed; its messages are on standard error.
    """
    if options.part:
        return write_part(options, _part_name(options), _rows)
    common.prepare(options)
    there = importlib.util.find_spec("lightgbm") is not None
    methods = [one for one in options.methods if there or one != "lightgbm"]
    if not methods:
        raise ValueError("methods are lightgbm alone, which is not installed: pip install lightgbm")
    options = options.replace(methods=tuple(methods))
    next(splits(options))  # what is wrong with the corpus is said here, once
    rows = common.finished_rows(options, run_parts(options, _parts(options), _part_name, _rows))
    return common.save(options, _table(options, rows), {"rows": rows}, {"ranking": _picture(rows)})


def _parts(options: Options) -> Iterator[Options]:
    for method in options.methods:
        yield options.replace(methods=(method,))


def _part_name(options: Options) -> str:
    return f"ranking_{options.methods[0]}"


def splits(options: Options) -> Iterator[tuple[Queries, Queries]]:
    """(to learn from, to test), first as the corpus has them."""
    first = load_lambdarank(Path(options.path) if options.path else None)
    yield first.train, first.test
    n = len(first.train.rows)
    every = Queries(first.train.rows + first.test.rows,
                    first.train.relevances + first.test.relevances)  # fmt: skip
    for draw in range(1, options.splits):
        order = np.random.default_rng([options.seed, draw]).permutation(len(every.rows))
        yield taken(every, order[:n]), taken(every, order[n:])


def ndcg(queries: Queries, scores: Sequence[np.ndarray], at: int) -> float:
    """Mean NDCG at so many places, in %, of ties the mean over orders."""
    measure, pairs = Measure("ndcg", at, "float64"), zip(queries.relevances, scores, strict=True)
    return 100 * float(np.mean([1 - mean_ranking_loss(measure, *pair) for pair in pairs]))


def mean_average_precision(queries: Queries, scores: Sequence[np.ndarray]) -> float:
    """MAP in %, documents of relevance 1 and more being relevant, of ties the mean over orders."""
    measure = Measure("average_precision", None, "float64")
    pairs = zip(queries.relevances, scores, strict=True)
    return 100 * float(np.mean([1 - mean_ranking_loss(measure, *pair) for pair in pairs]))


def _train(options: Options, method: str, queries: Queries, value: float) -> tuple[Scorer, Any]:
    """(scores of the documents of a query, status) of one training."""
    if method == "lightgbm":
        import lightgbm  # pyright: ignore[reportMissingImports]

        trees = lightgbm.LGBMRanker(
            n_estimators=int(value), num_leaves=31, learning_rate=0.1, min_child_samples=50,
            min_child_weight=5.0, random_state=options.seed, n_jobs=1, verbose=-1,
        )  # fmt: skip
        labels = np.concatenate(queries.relevances)
        trees.fit(np.concatenate(queries.rows), labels, group=[*map(len, queries.rows)])
        return lambda rows: np.asarray(trees.predict(rows)), None
    if method == "pairs":
        w, status = rank_svm(queries, value), None
    else:
        dtype = "float64" if options.x64 else "float32"
        data = rankings.prepare(queries.rows, queries.relevances, loss=method, dtype=dtype)
        solution = fit(*data, C=value * len(queries.rows), tolerance=options.tolerance)
        w, status = np.asarray(solution.weights["weights"]), solution.status.name
    return lambda rows: rows @ w, status


def _values(options: Options, method: str) -> Sequence[float]:
    if method == "lightgbm":
        return TREES
    return C_OF_PAIRS if method == "pairs" else [*map(float, options.c_over_n)]


def _chosen(options: Options, method: str, train: Queries, draw: int) -> float:
    """The value of the largest NDCG@10 over folds; of equal ones the first."""
    values = _values(options, method)
    if len(values) == 1:
        return values[0]
    order = np.random.default_rng([options.seed, draw, 1]).permutation(len(train.rows))
    parts = np.array_split(order, options.folds)
    found = np.zeros(len(values))
    for part in parts:
        rest = taken(train, np.setdiff1d(order, part))
        held = taken(train, part)
        for i, value in enumerate(values):
            score, _ = _train(options, method, rest, value)
            found[i] += len(part) * ndcg(held, [*map(score, held.rows)], 10)
    return values[int(np.argmax(found))]


def _rows(options: Options) -> list[dict[str, Any]]:
    """A row a split of one method."""
    (method,) = options.methods
    rows = []
    for draw, (train, test) in enumerate(splits(options)):
        value = _chosen(options, method, train, draw)
        watch = Stopwatch()
        score, status = _train(options, method, train, value)
        numbers = watch.numbers() | {"status": status}
        scores = [*map(score, test.rows)]
        rows.append({
            "method": method, "draw": draw, "chosen": value, **numbers,
            "map": mean_average_precision(test, scores),
            "ndcg": [ndcg(test, scores, at) for at in PLACES],
        })  # fmt: skip
    return [row | {"peak_memory": peak_memory_bytes()} for row in rows]


def _table(options: Options, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {"method": "method"}
    for name in (*(f"NDCG@{at}" for at in AT), "MAP"):
        columns |= {
            (name, "given"): name,
            (name, "mean"): f"{name} mean",
            (name, "sd"): f"{name} sd",
        }
    columns |= {"chosen": "chosen", **SECONDS, "peak MB": "memory", "status": "status"}
    lines = []
    for method in options.methods:
        own = [row for row in rows if row["method"] == method]
        line: dict[str, Any] = {
            "method": SPOKEN[method],
            "chosen": ", ".join(f"{value:g}" for value in sorted({row["chosen"] for row in own})),
        } | spent(own)
        values = {f"NDCG@{at}": [row["ndcg"][at - 1] for row in own] for at in AT}
        for name, each in (values | {"MAP": [row["map"] for row in own]}).items():
            mean, deviation = spread(each)
            line |= {name: each[0], f"{name} mean": mean, f"{name} sd": deviation}
        lines.append(line)
    notes = [
        "In %. given: the split of the corpus; mean and sd (standard deviation): of it and of "
        f"{options.splits - 1} draws of as many queries from both parts.",
        f"chosen by {options.folds} folds: C' = C / n of the structural SVMs, C of RankSVM, the "
        "number of trees of LightGBM. Seconds of one training with it, the median of the splits; "
        "peak memory of the process of all trainings, jax imported.",
    ]
    return rows_table("Queries with graded documents", columns, lines, notes)


def _picture(rows: Sequence[dict[str, Any]]) -> Plot:
    """Mean NDCG at every number of places."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axis, data = figure.subplots(), {}
    for method in dict.fromkeys(row["method"] for row in rows):
        values = np.mean([row["ndcg"] for row in rows if row["method"] == method], axis=0)
        axis.plot(PLACES, values, marker="o", markersize=3, label=SPOKEN[method])
        data[method] = values.tolist()
    axis.set_xlabel("places k")
    axis.set_ylabel("NDCG@k, %")
    axis.legend(fontsize=8)
    return Plot(figure, {"places": PLACES, "ndcg": data})
