"""Sets of labels by training and prediction oracle (after Finley and Joachims 2008, table 2).

    python -m experiments.multi_label
    python -m experiments.multi_label --data=yeast --c_path=0.1,1,10
    python -m experiments.multi_label --data_file=own.npz --training=edgeless,exact

Every label is a node of two values, every pair of labels an edge. A row is an oracle that trained,
a column one that predicts; C' = C / n is chosen on a held-out part of the training data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.multilabel import NAMES, LabelSets, load_label_sets
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.progress import fitted
from experiments.lib.record import SECONDS, Stopwatch
from experiments.lib.report import Columns, Row, Table, rows_table
from jaxstruct import Problem, Solution, predict
from jaxstruct.core.types import PyTree
from jaxstruct.graphs.marginals import set_marginals
from jaxstruct.graphs.multi_label import multi_label

ORACLES = {
    "exact": "enumeration", "reweighted": "reweighted", "greedy": "modes", "lbp": "propagation",
}  # fmt: skip
RELAXED = "relaxed"
"""Trains with marginals in place of sets, and predicts by the exact oracle."""
TRAINING = ("edgeless", *ORACLES, RELAXED)


class Options(fields.Training):
    """The flags of this command."""

    data: str = flag("scene", "Corpus to train on.", NAMES)
    data_file: str | None = flag(
        None, "An .npz file as the corpora; default: the corpus, see third_party_data."
    )
    training: Sequence[str] = flag(
        TRAINING, "Oracles to train with; edgeless: without pairs of labels.", TRAINING, some=True
    )
    prediction: Sequence[str] = flag(
        tuple(ORACLES), "Oracles to predict with.", tuple(ORACLES), some=True
    )
    c_path: Sequence[str] = flag(
        ("0.1", "1"), "Values of C' = C / n to choose from.", each=float, above=0, some=True
    )
    held_out: float = flag(0.25, "Part of the training data that c_path compares on.")
    passes: int = flag(20, "Passes of message passing, at most.", least=1)
    tolerance: float = 1e-2
    most_passes: int = flag(60, "Rounds of a training, at most.", least=1)
    working_sets: str = "grown"


def with_constant(x: np.ndarray, dtype: str) -> np.ndarray:
    """[n, d + 1] features with a constant 1: labels have thresholds of their own."""
    return np.concatenate([x, np.ones((len(x), 1), x.dtype)], axis=1).astype(dtype)


def run(options: Options) -> common.Outcome:
    """Choose C', train, test, print the table and write it.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      MalformedFile: data_file is no such file.
      ValueError: an option that does not fit.
    """
    dtype = common.prepare(options)
    path = Path(options.data_file) if options.data_file else None
    data = load_label_sets(options.data, path)
    data = data._replace(
        train_x=with_constant(data.train_x, dtype), test_x=with_constant(data.test_x, dtype)
    )
    rows: list[dict[str, Any]] = []
    name = f"multi_label_{'own' if path else options.data}"
    with common.kept_if_stopped(options, {"rows": rows}, name=name):
        rows.extend(_measurements(options, data, dtype))
    return common.save(options, _table(options, data, rows), {"rows": rows}, name=name)


def problem_of(options: Options, data: LabelSets, oracle: str, dtype: str, pairs: bool) -> Problem:
    """The structure with one oracle."""
    return multi_label(
        data.train_x.shape[1], data.train_y.shape[1], pairs=pairs,
        inference=ORACLES.get(oracle, oracle), passes=options.passes, dtype=dtype,
    )  # fmt: skip


class Training(NamedTuple):
    """The problem that trains, its outputs, and the problem that predicts held-out data."""

    problem: Problem
    outputs: PyTree
    predicts: Problem


def training_of(options: Options, data: LabelSets, oracle: str, dtype: str) -> Training:
    """What a row of the table trains with."""
    pairs = oracle != "edgeless"
    exact = problem_of(options, data, "exact", dtype, pairs)
    if not pairs:
        return Training(exact, data.train_y, exact)
    problem = problem_of(options, data, oracle, dtype, pairs)
    if oracle == RELAXED:
        return Training(problem, set_marginals(data.train_y), exact)
    return Training(problem, data.train_y, problem)


def _trained(
    options: Options, training: Training, data: LabelSets, ratio: float, weights: np.ndarray
) -> Solution:
    """Trained on the examples of weight 1; the others are in the same program."""
    given = training.problem, data.train_x, training.outputs
    how = {"max_passes": options.most_passes, "example_weights": weights}
    C = ratio * weights.sum()
    return fitted(options, f"C' = {ratio:g}", given, "svm1_margin", C, **how)[0]


def error_of(problem: Problem, weights: PyTree, x: np.ndarray, y: np.ndarray) -> float:
    """Labels predicted wrong, in %."""
    return 100 * float(np.mean(np.asarray(predict(problem, weights, x)) != y))


def _chosen(options: Options, training: Training, data: LabelSets) -> tuple[float, list[float]]:
    """(C', the held-out errors): of equal errors the smallest C'."""
    ratios, n = sorted(map(float, options.c_path)), len(data.train_y)
    if len(ratios) == 1:
        return ratios[0], []
    held = np.sort(common.held_out_parts(options, n)[0])
    weights = np.ones(n)
    weights[held] = 0
    errors = [
        error_of(
            training.predicts, _trained(options, training, data, ratio, weights).weights,
            data.train_x[held], data.train_y[held],
        )
        for ratio in ratios
    ]  # fmt: skip
    return ratios[int(np.argmin(errors))], errors


def _measurements(options: Options, data: LabelSets, dtype: str) -> Iterator[dict[str, Any]]:
    for training in options.training:
        pairs, own = training != "edgeless", training_of(options, data, training, dtype)
        watch = Stopwatch()
        ratio, held_out = _chosen(options, own, data)
        solution = _trained(options, own, data, ratio, np.ones(len(data.train_y)))
        spent = watch.numbers(solution.weights)
        errors = {
            oracle: error_of(
                problem_of(options, data, oracle, dtype, pairs), solution.weights,
                data.test_x, data.test_y,
            )
            for oracle in (options.prediction if pairs else ("exact",))
        }  # fmt: skip
        yield {
            "training": training, "c_over_n": ratio, "held_out_errors": held_out,
            "status": solution.status, "passes": solution.statistics.passes,
            "oracle_calls": solution.statistics.oracle_calls, "primal": solution.primal,
            "primal_found": solution.certificate.primal_found, "dual": solution.dual,
            "test_errors": errors, **spent,
        }  # fmt: skip


def _table(options: Options, data: LabelSets, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {
        "trained by": "training", "C'": "c_over_n", "status": "status", "passes": "passes",
        ("objective", "P, by the bound"): "primal:.2f",
        ("objective", "P, as found"): "primal_found:.2f", ("objective", "dual D"): "dual:.2f",
        **{
            ("test labels wrong %, predicted by", name): lambda row, name=name: _error(row, name)
            for name in options.prediction
        },
        **SECONDS,
    }  # fmt: skip
    never = 100 * float(np.mean(data.test_y != (data.train_y.mean(axis=0) > 0.5)))
    path = ", ".join(options.c_path)
    notes = [
        f"{len(data.train_y)} examples train, {len(data.test_y)} test, {data.train_y.shape[1]} "
        f"labels; svm1_margin with the Hamming loss; C' is that of {path} with the fewest wrong "
        f"labels on {100 * options.held_out:g} % of the training data, held out; tolerance "
        f"{options.tolerance:g}; seconds with that choice.",
        "edgeless: no pairs, which any oracle predicts alike. greedy: conditional modes; lbp: "
        "max-product belief propagation; both have no bound, so that nothing certifies them. "
        "relaxed: marginals in place of sets, so that P and D are those of the relaxed training, "
        "its P at least the exact one; the exact oracle predicts held-out data.",
        f"The commoner value of every label: {never:.2f} % wrong.",
    ]
    name = "own data" if options.data_file else options.data
    return rows_table(f"Sets of labels, {name}", columns, rows, notes)


def _error(row: Row, name: str) -> float | None:
    """Without pairs all oracles predict alike."""
    errors = row["test_errors"]
    return errors["exact"] if row["training"] == "edgeless" else errors.get(name)
