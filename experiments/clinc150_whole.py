"""All of CLINC150: time, memory and accuracy beside scikit-learn's LinearSVC (liblinear).

    python -m experiments.clinc150_whole

Both minimise 1/2 |w|^2 + C' sum_i xi_i with one margin constraint a class (Crammer and Singer 2001,
which is svm1 with the zero-one loss) on the same tf-idf vectors of 15,000 queries, 150 classes.
Each contender runs in a process of its own, so that its peak memory is its own. The weights of all
are put into the same objective in float64; how far from the optimum they are is bounded by the dual
that this package certifies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.corpora.splits import per_class_subsample
from experiments.lib import common, fields
from experiments.lib.apart import run_apart
from experiments.lib.options import flag
from experiments.lib.peers import linear_svc, objective, sparse_matrix
from experiments.lib.plots import Plot, bar_groups
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch, peak_memory_bytes
from experiments.lib.report import Columns, Table, rows_table, write_results
from experiments.tasks.documents import Documents, clinc150
from jaxstruct import fit, predict, take
from jaxstruct.multiclass.structure import multiclass

CONTENDERS = ("jaxstruct", "linear_svc")


class Options(fields.Training):
    """The flags of this command."""

    path: str | None = flag(None, "Folder of the corpus; default: see third_party_data.")
    c_over_n: float = flag(1.0, "C' = C / n; LinearSVC's C.", above=0)
    svc_tolerances: Sequence[str] = flag(
        ("0.1", "0.03", "0.01", "0.001"), "Values of LinearSVC's tol.", each=float, above=0
    )
    per_class: int = flag(0, "Use so many queries a class; 0 for all.", least=0)
    contender: str = flag(
        "both",
        "Run one contender only, in this process, and write its numbers, as 'both' does.",
        ["both", *CONTENDERS],
    )
    compilation_cache: bool = False


def run(options: Options) -> common.Outcome:
    """Run both contenders in processes of their own, print the table and write it.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      subprocess.CalledProcessError: a contender failed; its messages are on standard error.
    """
    common.prepare(options)
    groups = (run_apart(options.replace(contender=each), _part_name(each)) for each in CONTENDERS)
    rows = common.finished_rows(options, groups)
    bound = max(row["dual"] for row in rows if row["dual"] is not None)
    best = min(row["objective"] for row in rows)
    rows = [
        row
        | {"above_dual": row["objective"] / bound - 1, "above_best": row["objective"] / best - 1}
        for row in rows
    ]
    table = _table(options, rows, bound)
    plots = {"clinc150_whole": _plot(rows)}
    numbers = {"rows": rows, "dual_bound": bound}
    return common.save(options, table, numbers, plots)


def run_contender(options: Options) -> list[dict[str, Any]]:
    """Train one contender here; its numbers go to clinc150_whole_<contender>.json."""
    common.prepare(options)
    data = clinc150(Path(options.path) if options.path else None)
    if options.per_class:
        train = per_class_subsample(data.labels[data.train], options.per_class, options.seed)
        data = data._replace(train=data.train[train])
    before = peak_memory_bytes()
    measure = {"jaxstruct": _jaxstruct, "linear_svc": _linear_svc}[options.contender]
    name, shared = _part_name(options.contender), {"memory_before": before}
    shared["queries"] = len(data.train)
    groups = ([row | shared] for row in measure(options, data))
    rows = common.finished_rows(options, groups, name=name)
    write_results(options.output, name, {"rows": rows})
    return rows


def _part_name(contender: str) -> str:
    return f"clinc150_whole_{contender}"


def _jaxstruct(options: Options, data: Documents) -> Iterator[dict[str, Any]]:
    dtype = "float64" if options.x64 else "float32"
    problem = multiclass(data.number_of_features, len(data.taxonomy.classes), dtype=dtype)
    inputs, labels = take(data.inputs, data.train), data.labels[data.train]
    settings = options.settings()
    for name in ("first run, with compiling", "second run"):
        with training_progress(500, name, options.progress, options.tolerance) as update:
            watch = Stopwatch()
            solution = fit(
                problem, inputs, labels, "svm1", options.c_over_n * len(labels),
                tolerance=options.tolerance, settings=settings, callback=update,
            )  # fmt: skip
            seconds, compiling = watch.elapsed(solution.weights), watch.compiling().wall
        weights = np.asarray(solution.weights["weights"], np.float64)
        assert data.test is not None, "CLINC150 has a test part"
        guess = predict(problem, solution.weights, take(data.inputs, data.test))
        yield _row(options, data, f"jaxstruct, {name}", weights, np.asarray(guess), seconds) | {
            "status": solution.status, "dual": solution.dual, "passes": solution.statistics.passes,
            "compilations": solution.statistics.compilations,
            "parts": solution.statistics.seconds, "compile_seconds": compiling,
        }  # fmt: skip


def _linear_svc(options: Options, data: Documents) -> Iterator[dict[str, Any]]:
    assert data.test is not None, "CLINC150 has a test part"
    parts = (take(data.inputs, index) for index in (data.train, data.test))
    train, test = (sparse_matrix(rows, data.number_of_features) for rows in parts)
    for tolerance in map(float, options.svc_tolerances):
        machine = linear_svc(options.c_over_n, tolerance, options.seed)
        watch = Stopwatch()
        machine.fit(train, data.labels[data.train])
        seconds = watch.elapsed()
        weights = machine.coef_.T.astype(np.float64)
        name = f"LinearSVC, tol {tolerance:g}"
        yield _row(options, data, name, weights, np.asarray(machine.predict(test)), seconds) | {
            "status": None, "dual": None, "passes": int(machine.n_iter_), "compilations": None,
            "parts": None, "compile_seconds": None,
        }  # fmt: skip


def _row(
    options: Options,
    data: Documents,
    name: str,
    weights: np.ndarray,
    guess: np.ndarray,
    seconds: Any,
) -> dict[str, Any]:
    memory = peak_memory_bytes()  # before the objective, whose scores take memory of their own
    labels = data.labels[data.train]
    train = sparse_matrix(take(data.inputs, data.train), data.number_of_features)
    value = objective(weights, train, labels, options.c_over_n)
    return {
        "name": name, "wall_seconds": seconds.wall, "cpu_seconds": seconds.process,
        "peak_memory": memory, "objective": value,
        "accuracy": 100 * float(np.mean(guess == data.labels[data.test])),
    }  # fmt: skip


def _table(options: Options, rows: Sequence[dict[str, Any]], bound: float) -> Table:
    columns: Columns = {
        "machine": "name", "passes": "passes", ("seconds", "wall"): "wall_seconds",
        ("seconds", "processor"): "cpu_seconds", ("seconds", "compiling, wall"): "compile_seconds",
        ("memory, MB", "before training"): lambda row: row["memory_before"] / 1e6,
        ("memory, MB", "peak"): lambda row: row["peak_memory"] / 1e6,
        ("objective", "J"): "objective:.3f", ("objective", "J / D - 1"): "above_dual:.1e",
        ("objective", "J / best - 1"): "above_best:.1e", "test accuracy %": "accuracy:.2f",
    }  # fmt: skip
    notes = [
        f"{rows[0]['queries']} queries, C' = C / n = {options.c_over_n:g}; jaxstruct: relative gap "
        f"{options.tolerance:g}, {'float64' if options.x64 else 'float32'}, variant "
        f"{options.variant}, working sets {options.working_sets}.",
        f"D = {bound:.3f} is the dual that jaxstruct certifies: no weights have a smaller J, so "
        "J / D - 1 bounds the distance from the optimum from above; J / best - 1, with the "
        "smallest J of this table, from below. J in float64 from the weights, for all alike.",
        "Peak memory of the process so far: a later run of the same process shows at least the "
        "peak of an earlier one. LinearSVC uses one thread, jax as many as the machine has.",
    ]
    return rows_table("CLINC150, all classes, Crammer and Singer's machine", columns, rows, notes)


def _plot(rows: Sequence[dict[str, Any]]) -> Plot:
    series = {
        "wall": [round(row["wall_seconds"], 2) for row in rows],
        "processor": [round(row["cpu_seconds"], 2) for row in rows],
    }
    short = {", with compiling": "", "LinearSVC": "linear SVC"}
    names = [row["name"] for row in rows]
    for words, instead in short.items():
        names = [name.replace(words, instead) for name in names]
    return bar_groups(names, series, title="CLINC150, seconds of training", ylabel="seconds")


def main(options: Options) -> None:
    """Run all, or the one contender that the options name."""
    if options.contender == "both":
        run(options)
    else:
        run_contender(options)
