"""The options of `experiments.taxonomy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.splits import stratified_folds
from experiments.lib import fields
from experiments.lib.options import flag
from experiments.lib.record import Stopwatch
from experiments.tasks.documents import Documents
from jaxstruct import Settings, Solution, fit, fit_path, predict, take
from jaxstruct.core.contract import Problem
from jaxstruct.multiclass.losses import tree_loss, zero_one_loss
from jaxstruct.multiclass.output_features import taxonomy_features
from jaxstruct.multiclass.structure import multiclass

COLUMNS = ("flt 0/1", "tax 0/1", "flt Δ", "tax Δ")
SELECTION_TOLERANCE = 1e-2
"""Relative gap while C' is chosen."""


class Column(NamedTuple):
    """One way of training.

    Fields:
      problem: all four columns' have arrays of the same shapes, so they share compiled programs.
      formulation: of the solver.
      loss: [k, k] what it is trained for, and what chooses its C.
    """

    problem: Problem
    formulation: str
    loss: np.ndarray


class Search(NamedTuple):
    """How C is chosen and how exactly is trained; see the flags of `experiments.taxonomy`."""

    grid: tuple[float, ...]
    tolerance: float
    settings: Settings


class Cell(NamedTuple):
    """What one training run gave.

    Fields:
      predicted: [test] classes.
      c_over_n: the chosen C' = C / n; `scores`: C' -> mean loss in the inner folds.
      status, passes, relative_gap, compilations, seconds: of the last fit; `seconds` with the
        search in it, `compile_seconds` among them; `unsolved`: fits, inner ones too, that met no
        stopping rule.
    """

    predicted: np.ndarray
    c_over_n: float
    scores: dict[float, float]
    status: Any
    passes: int
    relative_gap: float
    compilations: int
    seconds: float
    unsolved: int
    compile_seconds: float = 0.0


def make_columns(documents: Documents, formulation: str, dtype: str) -> dict[str, Column]:
    """The four columns: flat or taxonomic Lambda(y), trained for the zero-one or the tree loss.

    ||Lambda(y)|| = 1 in all of them. The flat one is the identity with columns of zeros, as wide as
    the taxonomic one. The zero-one columns use the formulation without re-scaling, which is the
    same program with Delta = 0/1.
    """
    taxonomy = documents.taxonomy
    k, tree = len(taxonomy.classes), tree_loss(taxonomy)
    taxonomic = taxonomy_features(taxonomy, normalise=True)
    flat = np.eye(k, taxonomic.shape[1])
    plain = formulation.split("_")[0]

    def column(features: np.ndarray, name: str, loss: np.ndarray) -> Column:
        problem = multiclass(
            documents.number_of_features, k, output_features=features, loss=loss, dtype=dtype
        )
        return Column(problem, name, loss)

    columns = (
        column(flat, plain, zero_one_loss(k)), column(taxonomic, plain, zero_one_loss(k)),
        column(flat, formulation, tree), column(taxonomic, formulation, tree),
    )  # fmt: skip
    return dict(zip(COLUMNS, columns, strict=True))


def train_and_test(
    documents: Documents,
    column: Column,
    chosen: np.ndarray,
    test: np.ndarray,
    search: Search,
    seed: int,
) -> Cell:
    """Choose C' on the rows `chosen` alone, train on them, predict the rows `test`.

    C' is kept, not C, when the number of examples changes: the weight of one example's loss
    against the norm of w is then the same in an inner fold as in the whole training set.
    """
    watch = Stopwatch()
    inputs, labels = take(documents.inputs, chosen), documents.labels[chosen]
    scores, unsolved, compiled = _scores(column, inputs, labels, search, seed)
    best = min(search.grid, key=lambda ratio: scores.get(ratio, 0.0))
    solution = fit(
        column.problem, inputs, labels, column.formulation, best * len(labels),
        tolerance=search.tolerance, settings=search.settings,
    )  # fmt: skip
    predicted = predict(column.problem, solution.weights, take(documents.inputs, test))
    return Cell(
        np.asarray(predicted), best, scores, solution.status, solution.statistics.passes,
        solution.gap / abs(solution.primal), compiled + solution.statistics.compilations,
        watch.elapsed().wall, unsolved + (not solution.status.solved), watch.compiling().wall,
    )  # fmt: skip


def _scores(
    column: Column, inputs: Any, labels: np.ndarray, search: Search, seed: int
) -> tuple[dict[float, float], int, int]:
    """C' -> mean held-out loss, trainings that met no stopping rule, and compilations.

    An inner training set is the whole one with example weights of 0 for what is held out: the
    shapes, and so the compiled programs, are those of the last fit.
    """
    if len(search.grid) == 1:
        return {}, 0, 0
    losses: dict[float, list[np.ndarray]] = {ratio: [] for ratio in search.grid}
    solutions: list[Solution] = []
    for fold in stratified_folds(labels, 2, seed):
        used = np.isin(np.arange(len(labels)), fold.train).astype(np.float64)
        path = fit_path(
            column.problem, inputs, labels, column.formulation, _costs(search.grid, len(labels)),
            example_weights=used, tolerance=SELECTION_TOLERANCE, settings=search.settings,
        )  # fmt: skip
        for ratio, solution in zip(search.grid, path, strict=True):
            guess = predict(column.problem, solution.weights, inputs)
            losses[ratio].append(column.loss[labels[fold.test], guess[fold.test]])
            solutions.append(solution)
    unsolved = sum(not solution.status.solved for solution in solutions)
    compiled = sum(solution.statistics.compilations for solution in solutions)
    means = {ratio: float(np.mean(np.concatenate(parts))) for ratio, parts in losses.items()}
    return means, unsolved, compiled


def _costs(grid: Sequence[float], n: int) -> list[float]:
    return [ratio * n for ratio in grid]


DATA = ("clinc150", "wipo_alpha_d", "wipo_xml", "synthetic")
DELTA_FORMULATIONS = ("svm1_slack", "svm1_margin", "svm2_slack", "svm2_margin")


class Options(fields.Training):
    """The flags of this command."""

    data: str = flag("clinc150", "Documents to classify, see taxonomy.documents.", DATA)
    path: str | None = flag(None, "Folder of XML files (wipo_xml).")
    section: str = flag("D", "Section of the classification (wipo_xml).")
    per_class: Sequence[str] = flag(
        ("4", "2"),
        "Training examples drawn of each class, a list; 0 takes the whole training part.",
        each=int,
        least=0,
        some=True,
    )
    repeats: int = flag(5, "Training sets drawn for each size.", least=1)
    folds: Sequence[str] = flag(
        (),
        "Cross-validation in place of repeats: how many folds for each entry of per_class (3,5 "
        "in the paper). A fold is tested, the examples are drawn from the others. Empty: none.",
        each=int,
        least=2,
    )
    formulation: str = flag(
        "svm2_margin",
        "Formulation of the Δ columns; the 0/1 columns use svm1 or svm2 without re-scaling.",
        DELTA_FORMULATIONS,
    )
    grid: Sequence[str] = flag(
        ("0.1", "1", "10", "100"),
        "Values of C' = C / n to choose from, rising.",
        each=float,
        above=0,
        some=True,
    )
    tolerance: float = flag(1e-3, "Relative gap of the machines reported.", above=0)
