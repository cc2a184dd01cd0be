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
from typing import Annotated, NamedTuple

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.named_entities.files import run_files
from experiments.named_entities.methods import checked_c
from experiments.named_entities.speed import CONTENDERS, run_contender
from experiments.named_entities.speed_report import run_speed
from experiments.named_entities.tables import METHODS, run_tables
from jaxstruct.solvers.formulations import FORMULATIONS


class Options(NamedTuple):
    """The flags of this command."""

    path: Annotated[str | None, flag("conll2002.zip; default: see third_party_data.")] = None
    language: Annotated[str, flag("Spanish or Dutch news.", ["esp", "ned"])] = "esp"
    sentences: Annotated[
        int, flag("Tables and --speed: the first so many sentences of the training part.", least=2)
    ] = 300
    folds: Annotated[int, flag("Tables: folds of the cross-validation.", least=2)] = 5
    methods: Annotated[
        Sequence[str],
        flag(
            f"Tables: some of {', '.join(METHODS)}; those that end in linear have linear features, "
            "the other perceptrons and SVMs (SVM2 without and with re-scaling) the kernel of "
            "degree 2.",
            METHODS,
            some=True,
        ),
    ] = METHODS
    C: Annotated[
        Sequence[str],
        flag(
            "Tables: values of C of the linear machines and the CRF; it is divided by n, the "
            "training sentences, and 'n' means C' = 1.",
            each=checked_c,
        ),
    ] = ("1", "n")
    kernel_C: Annotated[
        Sequence[str],
        flag(
            "Tables: the same for the SVMs with the kernel; C' = 1 takes them about twice as long.",
            each=checked_c,
        ),
    ] = ("1",)
    resume: Annotated[
        bool,
        flag(
            "Tables: go on where a run with the same flags and output stopped, training by "
            "training."
        ),
    ] = False
    epsilon: Annotated[
        float, flag("Tables: SVMs stop when no constraint is violated by more.", above=0)
    ] = 0.01
    normalise: Annotated[
        bool,
        flag(
            "Tables: divide the kernel of degree 2 by the lengths of both tokens in feature space."
        ),
    ] = False
    epochs: Annotated[int, flag("Tables: passes of the perceptron at most.", least=1)] = 20
    whole: Annotated[
        bool,
        flag(
            "Train on the whole training part, test on testa and testb, with time and memory, "
            "beside CRFsuite where python-crfsuite is installed."
        ),
    ] = False
    speed: Annotated[bool, flag("The same with the first --sentences only.")] = False
    runs: Annotated[
        int, flag("--whole, --speed: trainings, of which the first compiles.", least=1)
    ] = 2
    crf_c2: Annotated[
        float, flag("--whole, --speed: CRFsuite's regularisation c2 |w|^2.", least=0)
    ] = 1.0
    contender: Annotated[
        str,
        flag(
            "--whole, --speed: run one contender only, in this process, as 'both' does for each.",
            ["both", *CONTENDERS],
        ),
    ] = "both"
    train: Annotated[
        str | None,
        flag("Your CoNLL file to train on: a token a line, the word first, the label last."),
    ] = None
    test: Annotated[
        str | None,
        flag(
            "Your labelled CoNLL file to test on; its labels and the predicted ones are written "
            "to OUTPUT/NAME.predicted."
        ),
    ] = None
    predict: Annotated[
        str | None,
        flag(
            "Your CoNLL file to label, the word first; nothing in it is read as a label. Written "
            "to OUTPUT/NAME.predicted, the predicted label last."
        ),
    ] = None
    model: Annotated[
        str | None, flag("File of the trained model: written after --train, read without it.")
    ] = None
    checkpoint: Annotated[
        str | None,
        flag(
            "--train: file that keeps the training every minute, on Ctrl-C and SIGTERM; the same "
            "line goes on from it, and ends with the same model."
        ),
    ] = None
    formulation: Annotated[
        str, flag("--whole, --speed, --train: which of the seven.", FORMULATIONS)
    ] = "svm1_margin"
    c_over_n: Annotated[float, flag("--whole, --speed, --train: C' = C / n.", above=0)] = 0.1
    tolerance: Annotated[
        float, flag("--whole, --speed, --train: relative duality gap to stop at.", above=0)
    ] = 1e-3
    constraints: Annotated[
        bool,
        flag(
            "--whole, --speed, --train: only label sequences of IOB2 are outputs (no I after O "
            "or after another type)."
        ),
    ] = False
    affixes: Annotated[int, flag("Letters of prefixes and suffixes.", least=0)] = 4
    window: Annotated[int, flag("Neighbours on each side with features.", least=0)] = 1
    tags: Annotated[bool, flag("Use the second column, part-of-speech tags.")] = False
    max_passes: Annotated[int, flag("Rounds of a training at most.", least=1)] = 500
    variant: fields.Variant = "auto"
    working_sets: fields.WorkingSets = "auto"
    capacity: fields.Capacity = 0
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None


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


def main(options: Options) -> None:
    """Run all, or the one contender that the options name."""
    if options.contender == "both":
        run(options)
    else:
        run_contender(options)
