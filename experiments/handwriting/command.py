"""Handwritten words (Kassel 1995; Taskar et al. 2003), read letter by letter by a chain.

    python -m experiments.handwriting
    python -m experiments.handwriting --x64 --tolerance=1e-7
    python -m experiments.handwriting --folds=10
    python -m experiments.handwriting --c_path=0.01,0.03,0.1,0.3 --formulations=svm1_slack,svm2
    python -m experiments.handwriting --letter_data=letter.data --model=model.npz
    python -m experiments.handwriting --letter_data=new.data --model=model.npz --predict_only

One fold of words trains, the rest tests. Beside its table the script writes a picture of words as
they were read, and the course of the training.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from experiments.handwriting.baselines import BASELINES, train_baseline
from experiments.handwriting.data import (
    Data,
    Split,
    errors,
    fold_splits,
    load,
    one_split,
)
from experiments.handwriting.machines import (
    Machine,
    chain_problem,
    describe,
    measure,
    read_words,
    train_chain,
)
from experiments.handwriting.report import folds_table, picture_of, split_plots, split_table
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.report import Table
from jaxstruct.chains.losses import NAMES
from jaxstruct.solvers.checkpoints.run_state import load_weights, save_weights
from jaxstruct.solvers.objective.formulations import FORMULATIONS


class Options(NamedTuple):
    """The flags of this command."""

    letter_data: Annotated[
        str | None,
        flag(
            "Words of your own: a file as letter.data of its makers, plain or .gz; default: the "
            "corpus, see third_party_data."
        ),
    ] = None
    model: Annotated[
        str | None,
        flag(
            "File for the weights (.npz): of the first formulation, written; read with "
            "predict_only."
        ),
    ] = None
    predict_only: Annotated[
        bool, flag("Train nothing: read all words with --model and write what was read.")
    ] = False
    train_folds: Annotated[Sequence[str], flag("Folds that train; others test.", each=int)] = ("1",)
    examples: Annotated[
        int, flag("Learn from the first so many words only; 0 for all.", least=0)
    ] = 0
    folds: Annotated[
        int,
        flag(
            "Cross-validation: each of the first so many folds trains in turn, all other words "
            "test; 10 is the protocol of Taskar et al. (2003). 0: one split, by train_folds.",
            least=0,
        ),
    ] = 0
    reverse: Annotated[bool, flag("With folds: one fold tests, all others train.")] = False
    formulations: Annotated[
        Sequence[str],
        flag(
            f"Structural SVMs to train, some of {', '.join(FORMULATIONS)}. svm0 needs words that "
            "can be separated.",
            FORMULATIONS,
        ),
    ] = ("svm1_margin",)
    baselines: Annotated[
        Sequence[str],
        flag(
            f"Trained beside them, some of {', '.join(BASELINES)}: a multiclass SVM on single "
            "letters, the averaged perceptron and a conditional random field of the same features.",
            BASELINES,
        ),
    ] = BASELINES
    loss: Annotated[
        str,
        flag("Delta of a word: the number of wrong letters, that over the length, or 0/1.", NAMES),
    ] = "hamming"
    c_over_n: Annotated[float, flag("C' = C / n, n training words.", above=0)] = 0.1
    c_path: Annotated[
        Sequence[str],
        flag(
            "Values of C' to choose from for each formulation, by letters read wrong on held-out "
            "words; empty: c_over_n as it is.",
            each=float,
            above=0,
        ),
    ] = ()
    held_out: Annotated[float, flag("Part of the training words that c_path compares on.")] = 0.2
    tolerance: fields.Tolerance = 1e-3
    picture_words: Annotated[int, flag("Words in the picture; 0: none.", least=0)] = 24
    variant: fields.Variant = "auto"
    working_sets: fields.WorkingSets = "auto"
    capacity: fields.Capacity = 0
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None


def run(options: Options) -> common.Outcome:
    """Train and test, or read only; print the table and write it.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      ValueError: an option that does not fit; the message names it.
    """
    dtype = common.prepare(options)
    _check(options)
    if options.model and not options.predict_only:
        common.check_folder("model", Path(options.model).parent)
    data = load(options.letter_data, dtype)
    if options.predict_only:
        return _read_only(options, data)
    return _cross_validation(options, data) if options.folds else _one_split(options, data)


def _check(options: Options) -> None:
    if not options.predict_only and not [*options.formulations, *options.baselines]:
        raise ValueError("formulations and baselines are both empty: there is nothing to train")
    if options.predict_only and not options.model:
        raise ValueError("predict_only needs --model, a file that this script wrote")
    if options.model and not options.predict_only and (options.folds or not options.formulations):
        raise ValueError("model is written of one split's first formulation: drop --folds")


def _machines(options: Options, data: Data, split: Split, runs: int) -> Iterator[Machine]:
    """Each machine, as soon as it is trained."""
    for name in options.formulations:
        yield train_chain(options, data, split, name, runs)
    for name in options.baselines:
        yield train_baseline(options, data, split, name, runs)


def _one_split(options: Options, data: Data) -> common.Outcome:
    split = one_split(data.words, options.train_folds, options.examples)
    machines: list[Machine] = []
    rows: list[dict[str, Any]] = []
    with common.kept_if_stopped("handwriting", options, "handwriting", {"rows": rows}):
        for machine in _machines(options, data, split, 2):
            if options.model and not machines:
                save_weights(options.model, machine.weights)
            machines.append(machine)
            rows.append(measure(machine, data, split))
    table = split_table(options, data, split, rows)
    plots = split_plots(options, data, split, machines, rows)
    numbers = {"split": split.name, "rows": rows}
    return common.save("handwriting", options, "handwriting", table, numbers, plots)


def _cross_validation(options: Options, data: Data) -> common.Outcome:
    splits = fold_splits(data.words, options.folds, options.reverse)
    if options.examples:
        splits = [split._replace(train=split.train[: options.examples]) for split in splits]
    rows: dict[str, list[dict[str, Any]]] = {}
    name = f"handwriting_folds{'_reverse' if options.reverse else ''}"
    with common.kept_if_stopped("handwriting", options, name, {"rows": rows}):
        for split in splits:
            for machine in _machines(options, data, split, 1):
                row = measure(machine, data, split) | {"split": split.name}
                rows.setdefault(row["machine"], []).append(row)
    table = folds_table(options, splits, rows)
    return common.save("handwriting", options, name, table, {"rows": rows})


def _read_only(options: Options, data: Data) -> common.Outcome:
    problem = chain_problem(options.loss, data.dtype)
    assert options.model is not None, "_check has looked"
    weights = load_weights(options.model, problem)
    every = np.arange(len(data.lengths))

    def read(chosen: np.ndarray) -> list[np.ndarray]:
        return read_words(problem, weights, data, chosen)

    start = time.perf_counter()
    found = read(every)
    seconds = time.perf_counter() - start
    wrong = errors(data, every, found)
    columns = ["words", "letters", ("error %", "letters"), ("error %", "words"), "seconds"]
    body = [[len(every), int(data.lengths.sum()), wrong.letters, wrong.words, seconds]]
    notes = [f"Read by {options.model}; errors against the letters of the file."]
    table = Table("Handwritten words, read by a trained model", columns, body, notes)
    plots = {}
    if options.picture_words:
        plots["handwriting_read_words"] = picture_of(
            options, data, "the model", read, every, "words", (wrong.letters, wrong.words)
        )
    numbers: dict[str, Any] = {"words": describe(data, every, found)}
    return common.save("handwriting", options, "handwriting_read", table, numbers, plots)
