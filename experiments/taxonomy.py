"""Table 1: classification with a taxonomy, flat or hierarchical, zero-one or tree loss.

    python -m experiments.taxonomy                                      # CLINC150
    python -m experiments.taxonomy --data=wipo_alpha_d
    python -m experiments.taxonomy --data=wipo_xml --path=FOLDER        # WIPO-alpha as shipped
    python -m experiments.taxonomy --data=clus --path=train.arff --test_path=test.arff

Source: thesis, table 4.1 (section 4.3.4), the same as JMLR 6:1453-1484, table 1 (section 5.1). The
papers name neither the slack formulation of their Δ columns nor C: --formulation and --grid do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from absl import app, flags
from tqdm import tqdm

from experiments import common, documents
from experiments.comparison import COLUMNS, NODE_WEIGHTS, Cell, Search, make_columns, train_and_test
from experiments.taxonomy_report import make_plots, make_table, summarise
from jaxstruct.data.splits import per_class_subsample

DATA = ("clinc150", "wipo_alpha_d", "wipo_xml", "clus", "synthetic")
DELTA_FORMULATIONS = ("svm1_slack", "svm1_margin", "svm2_slack", "svm2_margin")


class Options(NamedTuple):
    """The flags of this script; `define_flags` says what each means."""

    data: str = "clinc150"
    path: str | None = None
    test_path: str | None = None
    section: str = "D"
    per_class: Sequence[str] = ("4", "2")
    repeats: int = 5
    formulation: str = "svm2_margin"
    node_weights: str = "equal"
    grid: Sequence[str] = ("0.1", "1", "10", "100")
    inner_folds: int = 2
    selection_tolerance: float = 1e-2
    tolerance: float = 1e-3
    variant: str = "auto"
    working_sets: str = "auto"
    capacity: int = 64
    output: str = "results"
    seed: int = 0
    x64: bool = False
    compilation_cache: bool = True
    progress: bool | None = None


def define_flags() -> None:
    """The command line of this script."""
    defaults = Options()
    flags.DEFINE_enum("data", defaults.data, DATA, "Which documents; see experiments.documents.")
    flags.DEFINE_string("path", None, "Folder of XML files (wipo_xml) or training file (clus).")
    flags.DEFINE_string(
        "test_path", None, "Test file (clus); without it, tested on what was not drawn."
    )
    flags.DEFINE_string("section", defaults.section, "Section of the classification (wipo_xml).")
    flags.DEFINE_list(
        "per_class", list(defaults.per_class),
        "Training examples drawn of each class, a list; 0 takes the whole training part.",
    )
    flags.DEFINE_integer("repeats", defaults.repeats, "Training sets drawn for each size.")
    flags.DEFINE_enum(
        "formulation", defaults.formulation, DELTA_FORMULATIONS,
        "Of the Δ columns; the 0/1 columns use svm1 or svm2 without re-scaling.",
    )
    flags.DEFINE_enum(
        "node_weights", defaults.node_weights, list(NODE_WEIGHTS),
        "Weights beta_z of the taxonomy's nodes (4.19): equal, doubled at each level down (deeper) "
        "or halved (higher). Each Lambda(y) is then scaled to length 1.",
    )
    flags.DEFINE_list("grid", list(defaults.grid), "Values of C' = C / n to choose from, rising.")
    flags.DEFINE_integer(
        "inner_folds", defaults.inner_folds,
        "Halves of the training set that are held out in turn to choose C': 1 or 2.", 1, 2,
    )
    flags.DEFINE_float(
        "selection_tolerance", defaults.selection_tolerance, "Relative gap while choosing C'."
    )
    flags.DEFINE_float("tolerance", defaults.tolerance, "Relative gap of the machines reported.")
    common.define_solver_flags(defaults)
    common.define_common_flags(defaults)


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
    results = []
    hidden = None if options.progress is None else not options.progress
    jobs = [(int(size), repeat) for size in options.per_class for repeat in range(options.repeats)]
    for size, repeat in tqdm(jobs, desc=f"taxonomy, {options.data}", disable=hidden):
        chosen, test = draw(data, size, options.seed + repeat)
        cells: dict[str, Cell] = {
            name: train_and_test(data, columns[name], chosen, test, search, options.seed + repeat)
            for name in COLUMNS
        }
        results.append(summarise(data, size, repeat, chosen, test, cells))
    table, numbers = make_table(options, data, results)
    name = f"taxonomy_{options.data}"
    return common.save("taxonomy", options, name, table, numbers, make_plots(name, data, numbers))


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
    picked = per_class_subsample(data.labels[data.train], size, seed) if size else slice(None)
    chosen = data.train[picked]
    test = np.setdiff1d(data.train, chosen) if data.test is None else data.test
    if not len(test):
        raise ValueError("per_class: 0 leaves nothing to test on, this corpus has no test part")
    return chosen, test


def main(arguments: Sequence[str]) -> None:
    """Run with the options of the command line."""
    if len(arguments) > 1:
        raise app.UsageError(f"unexpected arguments {arguments[1:]}")
    run(common.options_from_flags(Options()))


if __name__ == "__main__":
    define_flags()
    app.run(main)
