"""The options of `experiments.named_entities`."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


class Options(fields.Training):
    """The flags of this command."""

    path: str | None = flag(None, "conll2002.zip; default: see third_party_data.")
    language: str = flag("esp", "Spanish or Dutch news.", ["esp", "ned"])
    sentences: int = flag(
        300, "Tables and --speed: the first so many sentences of the training part.", least=2
    )
    folds: int = flag(5, "Tables: folds of the cross-validation.", least=2)
    methods: Sequence[str] = flag(
        METHODS,
        f"Tables: some of {', '.join(METHODS)}; those that end in linear have linear features, "
        "the other perceptrons and SVMs (SVM2 without and with re-scaling) the kernel of "
        "degree 2.",
        METHODS,
        some=True,
    )
    C: Sequence[str] = flag(
        ("1", "n"),
        "Tables: values of C of the linear machines and the CRF; it is divided by n, the "
        "training sentences, and 'n' means C' = 1.",
        each=checked_c,
    )
    kernel_C: Sequence[str] = flag(
        ("1",),
        "Tables: the same for the SVMs with the kernel; C' = 1 takes them about twice as long.",
        each=checked_c,
    )
    resume: bool = flag(
        False,
        "Tables: go on where a run with the same flags and output stopped, training by training.",
    )
    epsilon: float = flag(
        0.01, "Tables: training of SVMs stops when no constraint is violated by more.", above=0
    )
    normalise: bool = flag(
        False,
        "Tables: divide the kernel of degree 2 by the lengths of both tokens in feature space.",
    )
    epochs: int = flag(20, "Tables: passes of the perceptron at most.", least=1)
    whole: bool = flag(
        False,
        "Train on the whole training part, test on testa and testb, with time and memory, "
        "beside CRFsuite where python-crfsuite is installed.",
    )
    speed: bool = flag(False, "Measure time and scores on the first --sentences only.")
    runs: int = flag(2, "--whole, --speed: trainings, of which the first compiles.", least=1)
    crf_c2: float = flag(1.0, "--whole, --speed: CRFsuite's regularisation c2 |w|^2.", least=0)
    contender: str = flag(
        "both",
        "--whole, --speed: run one contender only, in this process, as 'both' does for each.",
        ["both", *CONTENDERS],
    )
    train: str | None = flag(
        None, "Your CoNLL file to train on: a token a line, the word first, the label last."
    )
    test: str | None = flag(
        None,
        "Your labelled CoNLL file to test on; its labels and the predicted ones are written "
        "to OUTPUT/NAME.predicted.",
    )
    predict: str | None = flag(
        None,
        "Your CoNLL file to label, the word first; nothing in it is read as a label. Written "
        "to OUTPUT/NAME.predicted, the predicted label last.",
    )
    model: str | None = flag(
        None, "File of the trained model: written after --train, read without it."
    )
    checkpoint: str | None = flag(
        None,
        "--train: file that keeps the training every minute, on Ctrl-C and SIGTERM; the same "
        "line goes on from it, and ends with the same model.",
    )
    formulation: str = flag(
        "svm1_margin", "--whole, --speed, --train: the formulation, of the seven.", FORMULATIONS
    )
    c_over_n: float = flag(0.1, "--whole, --speed, --train: C' = C / n.", above=0)
    tolerance: float = flag(
        1e-3, "--whole, --speed, --train: relative duality gap to stop at.", above=0
    )
    constraints: bool = flag(
        False,
        "--whole, --speed, --train: only label sequences of IOB2 are outputs (no I after O "
        "or after another type).",
    )
    affixes: int = flag(4, "Letters of prefixes and suffixes.", least=0)
    window: int = flag(1, "Neighbours on each side with features.", least=0)
    tags: bool = flag(False, "Use the second column, part-of-speech tags.")
    max_passes: int = flag(500, "Rounds of a training at most.", least=1)
