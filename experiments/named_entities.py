"""Named entities in Spanish news: tables 2 and 3, the whole corpus, and files of your own.

    python -m experiments.named_entities                       # tables 2 and 3, 300 sentences
    python -m experiments.named_entities --speed               # 300 sentences beside CRFsuite
    python -m experiments.named_entities --whole               # all 8,323 sentences
    python -m experiments.named_entities --train=a.conll --test=b.conll --model=names.npz
    python -m experiments.named_entities --model=names.npz --predict=c.conll

Source: thesis, tables 4.2 and 4.3 (section 4.4.4), the same as JMLR 6:1453-1484, tables 2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from absl import app, flags

from experiments import common
from experiments.named_entities_files import run_files
from experiments.named_entities_speed import CONTENDERS, run_contender
from experiments.named_entities_speed_report import run_speed
from experiments.named_entities_tables import METHODS, run_tables
from jaxstruct.solvers.formulations import FORMULATIONS


class Options(NamedTuple):
    """The flags of this script; `define_flags` says what each means."""

    path: str | None = None
    language: str = "esp"
    sentences: int = 300
    folds: int = 5
    methods: Sequence[str] = METHODS
    C: Sequence[str] = ("1", "n")
    kernel_C: Sequence[str] = ("1",)
    resume: bool = False
    epsilon: float = 0.01
    normalise: bool = False
    epochs: int = 20
    whole: bool = False
    speed: bool = False
    runs: int = 2
    crf_c2: float = 1.0
    contender: str = "both"
    train: str | None = None
    test: str | None = None
    predict: str | None = None
    model: str | None = None
    formulation: str = "svm1_margin"
    c_over_n: float = 0.1
    tolerance: float = 1e-3
    constraints: bool = False
    affixes: int = 4
    window: int = 1
    tags: bool = False
    buckets: int = 4
    max_passes: int = 500
    variant: str = "auto"
    working_sets: str = "auto"
    capacity: int = 32
    output: str = "results"
    seed: int = 0
    x64: bool = False
    compilation_cache: bool = True
    progress: bool | None = None


def define_flags() -> None:
    """The command line of this script."""
    defaults = Options()
    flags.DEFINE_string("path", None, "conll2002.zip; default: see third_party_data.")
    flags.DEFINE_enum("language", defaults.language, ["esp", "ned"], "Spanish or Dutch news.")
    _define_table_flags(defaults)
    _define_speed_flags(defaults)
    _define_file_flags(defaults)
    _define_training_flags(defaults)
    common.define_solver_flags(defaults)
    common.define_common_flags(defaults)


def _define_table_flags(defaults: Options) -> None:
    flags.DEFINE_integer(
        "sentences",
        defaults.sentences,
        "Tables and --speed: the first so many sentences of the training part.",
        2,
    )
    flags.DEFINE_integer("folds", defaults.folds, "Tables: folds of the cross-validation.", 2)
    flags.DEFINE_list(
        "methods",
        list(defaults.methods),
        f"Tables: some of {', '.join(METHODS)}; those that end in linear have linear features, the "
        "other perceptrons and SVMs (SVM2 without and with re-scaling) the kernel of degree 2.",
    )
    flags.DEFINE_list(
        "C",
        list(defaults.C),
        "Tables: values of C of the linear machines and the CRF; it is divided by n, the training "
        "sentences, and 'n' means C' = 1.",
    )
    flags.DEFINE_list(
        "kernel_C",
        list(defaults.kernel_C),
        "Tables: the same for the SVMs with the kernel; C' = 1 takes them about twice as long.",
    )
    flags.DEFINE_boolean(
        "resume",
        defaults.resume,
        "Tables: go on where a run with the same flags and output stopped, training by training.",
    )
    flags.DEFINE_float(
        "epsilon", defaults.epsilon, "Tables: SVMs stop when no constraint is violated by more."
    )
    flags.DEFINE_boolean(
        "normalise",
        defaults.normalise,
        "Tables: divide the kernel of degree 2 by the lengths of both tokens in feature space.",
    )
    flags.DEFINE_integer("epochs", defaults.epochs, "Tables: passes of the perceptron at most.", 1)


def _define_speed_flags(defaults: Options) -> None:
    flags.DEFINE_boolean(
        "whole",
        defaults.whole,
        "Train on the whole training part, test on testa and testb, with time and memory, beside "
        "CRFsuite where python-crfsuite is installed.",
    )
    flags.DEFINE_boolean("speed", defaults.speed, "The same with the first --sentences only.")
    flags.DEFINE_integer(
        "runs", defaults.runs, "--whole, --speed: trainings, of which the first compiles.", 1
    )
    flags.DEFINE_float(
        "crf_c2", defaults.crf_c2, "--whole, --speed: CRFsuite's regularisation c2 |w|^2."
    )
    flags.DEFINE_enum(
        "contender",
        defaults.contender,
        ["both", *CONTENDERS],
        "--whole, --speed: run one contender only, in this process, as 'both' does for each.",
    )


def _define_file_flags(defaults: Options) -> None:
    flags.DEFINE_string(
        "train", None, "Your CoNLL file to train on: a token a line, the word first, the label "
        "last.",
    )  # fmt: skip
    flags.DEFINE_string(
        "test", None, "Your labelled CoNLL file to test on; its labels and the predicted ones are "
        "written to OUTPUT/NAME.predicted.",
    )  # fmt: skip
    flags.DEFINE_string(
        "predict", None, "Your CoNLL file to label, the word first; nothing in it is read as a "
        "label. Written to OUTPUT/NAME.predicted, the predicted label last.",
    )  # fmt: skip
    flags.DEFINE_string(
        "model", None, "File of the trained model: written after --train, read without it."
    )


def _define_training_flags(defaults: Options) -> None:
    flags.DEFINE_enum(
        "formulation",
        defaults.formulation,
        list(FORMULATIONS),
        "--whole, --speed, --train: which of the seven.",
    )
    flags.DEFINE_float("c_over_n", defaults.c_over_n, "--whole, --speed, --train: C' = C / n.")
    flags.DEFINE_float(
        "tolerance",
        defaults.tolerance,
        "--whole, --speed, --train: relative duality gap to stop at.",
    )
    flags.DEFINE_boolean(
        "constraints",
        defaults.constraints,
        "--whole, --speed, --train: only label sequences of IOB2 are outputs (no I after O or "
        "after another type).",
    )
    flags.DEFINE_integer("affixes", defaults.affixes, "Letters of prefixes and suffixes.", 0)
    flags.DEFINE_integer("window", defaults.window, "Neighbours on each side with features.", 0)
    flags.DEFINE_boolean("tags", defaults.tags, "Use the second column, part-of-speech tags.")
    flags.DEFINE_integer("buckets", defaults.buckets, "Padded sentence lengths at most.", 1)
    flags.DEFINE_integer("max_passes", defaults.max_passes, "Rounds of a training at most.", 1)


def run(options: Options) -> common.Outcome:
    """Run what the options name: files of your own, --whole or --speed, or the tables.

    Raises:
      ValueError: an option or a file that does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    if any((options.train, options.test, options.predict, options.model)):
        return run_files(options)
    if options.whole and options.speed:
        raise ValueError("whole, speed: choose one")
    return run_speed(options) if options.whole or options.speed else run_tables(options)


def main(arguments: Sequence[str]) -> None:
    """Run with the options of the command line."""
    if len(arguments) > 1:
        raise app.UsageError(f"unexpected arguments {arguments[1:]}")
    options = common.options_from_flags(Options())
    if options.contender == "both":
        run(options)
    else:
        run_contender(options)


if __name__ == "__main__":
    define_flags()
    app.run(main)
