"""The options of `experiments.named_entities`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from experiments.lib import fields
from experiments.lib.options import flag
from jaxstruct.solvers.objective.formulations import FORMULATIONS

CONTENDERS = ("jaxstruct", "crfsuite")
SVMS = {"svm": "svm2", "svm_slack": "svm2_slack", "svm_margin": "svm2_margin"}
"""Words of --methods -> formulations, all with the kernel."""
METHODS = ("commonest", "hmm", "crf", "perceptron", *SVMS, "perceptron_linear", "svm_linear")


def checked_c(C: str) -> str:
    """A word of --C as it is.

    Raises:
      ValueError: it is neither "n" nor a positive number.
    """
    try:
        fits = C == "n" or 0 < float(C) < math.inf
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"got {C!r}, expected a number > 0, or n")
    return C


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
