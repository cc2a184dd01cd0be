"""The options of `experiments.named_entities`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from experiments.lib import fields
from experiments.lib.options import flag

SVMS = {"svm": "svm2", "svm_slack": "svm2_slack", "svm_margin": "svm2_margin"}
"""Words of --methods -> formulations, all with the kernel."""
METHODS = (
    "commonest", "hmm", "crf", "perceptron", *SVMS, "perceptron_linear", "svm_linear",
)  # fmt: skip


def checked_c(C: str) -> str:
    """A word of --C as it is.

    Raises:
      ValueError: it is neither a positive number nor one divided by n.
    """
    try:
        fits = 0 < float(C.removesuffix("/n")) < math.inf
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"got {C!r}, expected a number > 0, or such as 1/n")
    return C


def checked_number(word: str) -> str:
    """A word as it is.

    Raises:
      ValueError: it is no positive number.
    """
    if not 0 < float(word) < math.inf:
        raise ValueError(f"got {word!r}, expected a number > 0")
    return word


def checked_count(word: str) -> str:
    """A word as it is.

    Raises:
      ValueError: it is no whole number from 1 on.
    """
    if int(word) < 1:
        raise ValueError(f"got {word!r}, expected a whole number > 0")
    return word


class Options(fields.Solver):
    """The flags of this command."""

    path: str | None = flag(None, "conll2002.zip; default: see third_party_data.")
    language: str = flag("esp", "Spanish or Dutch news.", ["esp", "ned"])
    sentences: int = flag(300, "The first so many sentences of the training part.", least=2)
    folds: int = flag(5, "Tables: folds of the cross-validation.", least=2)
    methods: Sequence[str] = flag(
        METHODS,
        f"Tables: some of {', '.join(METHODS)}; perceptron and the SVMs (SVM2 without "
        "and with re-scaling) have the kernel of degree 2, crf and what ends in linear linear "
        "features.",
        METHODS,
        some=True,
    )
    tables: Sequence[str] = flag(("2", "3"), "Which tables.", ["2", "3"], some=True)
    inner_folds: int = flag(
        2,
        "Table 2: each machine takes the setting of least token error on so many folds of the "
        "training sentences, held out in turn; 0: every setting is a row of its own.",
        least=0,
    )
    C: Sequence[str] = flag(
        ("1/n", "0.1", "1"),
        "Table 2: settings of all CRFs and SVMs, C' = C / n: numbers, or such as 1/n with the n "
        "training sentences.",
        each=checked_c,
    )
    smoothing: Sequence[str] = flag(
        ("1", "0.1", "0.01"), "Table 2: settings of HMMs, Laplace corrections.", each=checked_number
    )
    epochs: Sequence[str] = flag(
        ("20", "5"),
        "Table 2: settings of perceptrons, passes at most.",
        each=checked_count,
    )
    table_3_C: Sequence[str] = flag(
        ("1/n",), "Table 3: values of C' = C / n; printed is C = 1.", each=checked_c
    )
    resume: bool = flag(
        False,
        "Tables: go on where a run with the same flags and output stopped, training by training.",
    )
    epsilon: float = flag(
        0.01, "Tables: training of SVMs stops when no constraint is violated by more.", above=0
    )
    inner_epsilon: float = flag(
        0.1, "Table 2: the same of SVMs in inner folds, which choose C alone.", above=0
    )
    normalise: bool = flag(
        False,
        "Tables: divide the kernel of degree 2 by the lengths of both tokens in feature space.",
    )
    growth: bool = flag(
        False,
        "Count the constraints of table 3 by the printed algorithm: a QP after every one, by "
        "numbers of sentences, then with one thing changed.",
    )
    sizes: Sequence[str] = flag(
        ("32", "64", "120", "240"),
        "--growth: numbers of training sentences, of the first fold's.",
        each=int,
        least=1,
    )
    growth_formulations: Sequence[str] = flag(
        tuple(SVMS.values()), "--growth: formulations.", tuple(SVMS.values()), some=True
    )
    factors: bool = flag(True, "--growth: change one thing at a time as well.")
    factor_size: int = flag(32, "--growth: training sentences of that part.", least=1)
    exactness: float = flag(
        0.1, "--growth: share of epsilon to which a QP is solved, below 1.", above=0
    )
    affixes: int = flag(4, "Letters of prefixes and suffixes.", least=0)
    window: int = flag(1, "Neighbours on each side with features.", least=0)
    tags: bool = flag(False, "Use the second column, part-of-speech tags.")
    max_passes: int = flag(500, "Rounds of a training at most.", least=1)
