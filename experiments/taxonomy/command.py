"""Table 1: classification with a taxonomy, flat or hierarchical, zero-one or tree loss.

    python -m experiments.taxonomy                                      # CLINC150
    python -m experiments.taxonomy --data=wipo_alpha_d
    python -m experiments.taxonomy --data=wipo_alpha_d --folds=3,5      # as the table was made
    python -m experiments.taxonomy --data=wipo_xml --path=FOLDER        # WIPO-alpha as shipped
    python -m experiments.taxonomy --data=clus --path=train.arff --test_path=test.arff

Source: thesis, table 4.1 (section 4.3.4), the same as JMLR 6:1453-1484, table 1 (section 5.1). The
papers name neither the slack formulation of their Δ columns nor C: --formulation and --grid do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.lib import common
from experiments.lib.progress import jobs_bar
from experiments.taxonomy import documents
from experiments.taxonomy.comparison import (
    COLUMNS,
    Cell,
    Search,
    make_columns,
    train_and_test,
)
from experiments.taxonomy.options import Options
from experiments.taxonomy.report import make_plots, make_table, run_numbers, summarise
from jaxstruct.data.splits import per_class_subsample, stratified_folds


def run(options: Options) -> common.Outcome:
    """Train all columns on all training sets, print the table and write it.

    Raises:
      ValueError: an option that does not fit, such as a `path` that is missing.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    data = load(options)
    columns = make_columns(data, options.formulation, options.node_weights, dtype)
    grid = tuple(map(float, options.grid))
    search = Search(
        grid, options.inner_folds, options.selection_tolerance, options.tolerance,
        common.solver_settings(options),
    )  # fmt: skip
    name, results, runs = f"taxonomy_{options.data}{'_folds' if options.folds else ''}", [], []
    jobs = list(_jobs(options))
    with (
        common.kept_if_stopped("taxonomy", options, name, {"runs": runs}),
        jobs_bar(jobs, f"taxonomy, {options.data}", options.progress) as bar,
    ):
        for size, repeat, folds in bar:
            seed = options.seed + repeat
            if folds:
                chosen, test = draw_beside_fold(data, size, folds, repeat, options.seed)
            else:
                chosen, test = draw(data, size, seed)
            cells: dict[str, Cell] = {
                column: train_and_test(data, columns[column], chosen, test, search, seed)
                for column in COLUMNS
            }
            results.append(summarise(data, size, repeat, chosen, test, cells))
            runs.append(run_numbers(results[-1]))
    table, numbers = make_table(options, data, results)
    return common.save("taxonomy", options, name, table, numbers, make_plots(name, data, numbers))


def _jobs(options: Options) -> Iterator[tuple[int, int, int]]:
    """(examples a class, number of the training set or of the fold, folds or 0).

    Raises:
      ValueError: there is not one number of folds for each entry of per_class.
    """
    if options.folds and len(options.folds) != len(options.per_class):
        raise ValueError(
            f"folds: got {','.join(options.folds)}, expected one number for each entry of "
            f"per_class, {','.join(options.per_class)}"
        )
    for place, size in enumerate(options.per_class):
        folds = int(options.folds[place]) if options.folds else 0
        for number in range(folds or options.repeats):
            yield int(size), number, folds


def load(options: Options) -> documents.Documents:
    """The documents that `options.data` names."""
    if options.data in ("wipo_xml", "clus"):
        if not options.path:
            raise ValueError(f"path: --data={options.data} needs --path")
        path = Path(options.path)
        if options.data == "wipo_xml":
            return documents.wipo_xml(path, options.section)
        return documents.clus(path, Path(options.test_path) if options.test_path else None)
    if options.data == "synthetic":
        return documents.synthetic(options.seed)
    path = Path(options.path) if options.path else None
    reader = documents.clinc150 if options.data == "clinc150" else documents.wipo_alpha_d
    return reader(path)


def draw(data: documents.Documents, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions to train on, `size` of each class (0: all of data.train), and to test on.

    Raises:
      ValueError: nothing is left to test on.
    """
    chosen = _picked(data, data.train, size, seed)
    test = np.setdiff1d(data.train, chosen) if data.test is None else data.test
    if not len(test):
        raise ValueError("per_class: 0 leaves nothing to test on, this corpus has no test part")
    return chosen, test


def draw_beside_fold(
    data: documents.Documents, size: int, folds: int, number: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Positions to train on, `size` of each class from the other folds, and the fold to test on.

    The training part of the corpus is dealt into stratified folds; a test part is left alone.
    """
    fold = stratified_folds(data.labels[data.train], folds, seed)[number]
    return _picked(data, data.train[fold.train], size, seed), data.train[fold.test]


def _picked(data: documents.Documents, positions: np.ndarray, size: int, seed: int) -> np.ndarray:
    """`size` of these documents of each class, 0 for all."""
    if not size:
        return positions
    return positions[per_class_subsample(data.labels[positions], size, seed)]
