"""What decides how treebanks are read and parsers trained."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.lib import fields
from experiments.lib.options import flag
from jaxstruct.trees.phrases.evaluation import ALL_TOKENS, COLLINS, Measure

CORPORA = ("gum", "wsj", "ldc", "files")
GUM_PARTS = ("test", "dev", "test2")
"""Documents to test on; test2 are of genres that the training documents lack (GENTLE)."""
OF_THE_PAPER = ("pcfg", "svm2", "svm2_slack", "svm2_margin")
METHODS = ("pcfg", "log_linear", "svm1_margin", *OF_THE_PAPER[1:])
"""All but the first two are formulations of the solver."""
MEASURES: dict[str, Measure] = {"all": ALL_TOKENS, "collins": COLLINS}
LOSSES = ("f1", "node_f1", "all_node_f1", "zero_one")
FEATURES = ("rules", "tags", "words")
"""What Psi counts; see `treebanks.with_span_features`."""


def ratio(text: str, n: int) -> float:
    """C' of a word such as 0.1, or 1/n with n sentences.

    Raises:
      ValueError: it is no such word, or not positive.
    """
    number = text.removesuffix("/n")
    try:
        value = float(number) / (n if number != text else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ValueError(f"c_over_n, sweep: got {text!r}, expected a number > 0, or such as 1/n")
    return value


class Options(fields.Solver):
    """The flags of `experiments.parsing`, of which other commands set some."""

    corpus: str = flag(
        "gum",
        "gum: document split; wsj: the 5 % sample, section 01 to train, 00 to test; ldc: "
        "sections 02-21 and 22 of your own Penn Treebank in --path; files: --train_trees, "
        "--test_trees.",
        CORPORA,
    )
    path: str | None = flag(None, "The archive, or the folder of wsj_*.mrg with --corpus=ldc.")
    test_part: str = flag(
        "test", "--corpus=gum: the documents to test on; choose options on dev.", GUM_PARTS
    )
    train_trees: str | None = flag(None, "Your file of bracketed trees to train on.")
    test_trees: str | None = flag(None, "Your file of bracketed trees to test on.")
    shortest: int = flag(2, "Tokens of a sentence, at least.", least=1)
    longest: int = flag(10, "Tokens of a sentence, at most.", least=2)
    sentences: int = flag(0, "The first so many training sentences; 0: all.", least=0)
    terminals: str = flag(
        "tags",
        "What is read at each token: its part-of-speech tag, as in the paper, or its word.",
        ["tags", "words"],
    )
    rare: int = flag(1, "--terminals=words: words seen at most so often count as a class.", least=0)
    branching: str = flag(
        "right",
        "Direction in which constituents of more than two parts are binarised.",
        ["right", "left"],
    )
    memory: int = flag(
        1,
        "Siblings that an intermediate symbol of the binarisation remembers; -1: all, so "
        "that the grammar makes just the constituents seen. Less makes a smaller grammar "
        "that has more of the unseen trees.",
        least=-1,
    )
    methods: Sequence[str] = flag(
        OF_THE_PAPER,
        "Some of pcfg (maximum likelihood), svm2 (zero-one loss), svm2_slack, svm2_margin "
        "(the loss of --loss); and, not in the paper, log_linear (maximum conditional "
        "likelihood) and svm1_margin, which with losses of nodes searches by plain CKY and so "
        "suits long sentences.",
        METHODS,
        some=True,
    )
    c_over_n: Sequence[str] = flag(
        ("0.1",),
        "Values of C' = C / n, n training sentences, of all methods but pcfg; a/n is C = a. "
        "Pictures, plots and tests are of the first.",
    )
    sweep: Sequence[str] = flag(
        (), "Further values of C'; each method goes on from the next smaller one. Empty: none."
    )
    loss: Sequence[str] = flag(
        ("node_f1", "all_node_f1", "f1"),
        "Losses of the re-scaled SVMs, a row each; see jaxstruct.trees.losses.",
        LOSSES,
        some=True,
    )
    features: Sequence[str] = flag(
        ("rules",),
        "What the score of a tree counts, a row of each SVM: rules; tags: for each symbol, too, "
        "how wide its span is, and the tags at its ends and beside them; words: and the words "
        "there.",
        FEATURES,
        some=True,
    )
    folds: int = flag(
        0,
        "Test on each of so many parts of all sentences, drawn at random, and train on the others; "
        "0: the parts that the corpus comes in.",
        least=0,
    )
    measure: str = flag(
        "all",
        "Constituents that count in the scores: all, or as COLLINS.prm has it (no punctuation).",
        MEASURES,
    )
    smoothing: float = flag(0.0, "Added to the counts of the rules that the PCFG has.", least=0.0)
    epsilon: float = flag(0.01, "Training stops when no constraint is violated by more.", above=0)
    max_passes: int = flag(100, "Passes of a training at most.", least=1)
    pictures: int = flag(4, "Test sentences to draw trees of.", least=0)
    resume: bool = flag(
        False,
        "Go on where a run with the same flags and output stopped, training by training. In "
        "the sweep the first training after that starts from zero.",
    )
    oracle_batch: int = flag(64, "Sentences in an oracle call.", least=1)
    group: int = flag(0, "Sentences whose multipliers move side by side; 0: chosen.", least=0)
    chunks: int = flag(32, "Parts of a pass, each called at one w.", least=1)
