"""The options of `experiments.parsing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

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


class Options(NamedTuple):
    """The flags of this command."""

    corpus: Annotated[
        str,
        flag(
            "gum: document split; wsj: the 5 % sample, section 01 to train, 00 to test; ldc: "
            "sections 02-21 and 22 of your own Penn Treebank in --path; files: --train_trees, "
            "--test_trees.",
            CORPORA,
        ),
    ] = "gum"
    path: Annotated[
        str | None, flag("The archive, or the folder of wsj_*.mrg with --corpus=ldc.")
    ] = None
    test_part: Annotated[
        str, flag("--corpus=gum: the documents to test on; choose options on dev.", GUM_PARTS)
    ] = "test"
    train_trees: Annotated[str | None, flag("Your file of bracketed trees to train on.")] = None
    test_trees: Annotated[str | None, flag("Your file of bracketed trees to test on.")] = None
    shortest: Annotated[int, flag("Least tokens of a sentence.", least=1)] = 2
    longest: Annotated[int, flag("Most tokens of a sentence.", least=2)] = 10
    sentences: Annotated[int, flag("The first so many training sentences; 0: all.", least=0)] = 0
    terminals: Annotated[
        str,
        flag(
            "What is read at each token: its part-of-speech tag, as in the paper, or its word.",
            ["tags", "words"],
        ),
    ] = "tags"
    rare: Annotated[
        int, flag("--terminals=words: words seen at most so often count as a class.", least=0)
    ] = 1
    branching: Annotated[str, flag("How wide constituents are binarised.", ["right", "left"])] = (
        "right"
    )
    memory: Annotated[
        int,
        flag(
            "Siblings that an intermediate symbol of the binarisation remembers; -1: all, so "
            "that the grammar makes just the constituents seen. Less makes a smaller grammar "
            "that has more of the unseen trees.",
            least=-1,
        ),
    ] = 1
    methods: Annotated[
        Sequence[str],
        flag(
            "Some of pcfg (maximum likelihood), svm2 (zero-one loss), svm2_slack, svm2_margin "
            "(the loss of --loss); and, not in the paper, log_linear (maximum conditional "
            "likelihood) and svm1_margin, which with --loss=node_f1 searches by plain CKY and so "
            "suits long sentences.",
            METHODS,
            some=True,
        ),
    ] = OF_THE_PAPER
    c_over_n: Annotated[
        Sequence[str],
        flag(
            "Values of C' = C / n, n training sentences, of all methods but pcfg; a/n is C = a. "
            "Pictures, plots and McNemar's test are of the first."
        ),
    ] = ("0.1",)
    sweep: Annotated[
        Sequence[str],
        flag("Further values of C'; each method goes on from the next smaller one. Empty: none."),
    ] = ()
    loss: Annotated[str, flag("Of the re-scaled SVMs: see jaxstruct.trees.losses.", LOSSES)] = (
        "node_f1"
    )
    measure: Annotated[
        str,
        flag(
            "Constituents that count in the scores: all, or as COLLINS.prm has it (no "
            "punctuation).",
            MEASURES,
        ),
    ] = "all"
    smoothing: Annotated[
        float, flag("Added to the counts of the rules that the PCFG has.", least=0.0)
    ] = 0.0
    epsilon: Annotated[float, flag("No constraint may be violated by more.", above=0)] = 0.01
    max_passes: Annotated[int, flag("Passes of a training at most.", least=1)] = 100
    pictures: Annotated[int, flag("Test sentences to draw trees of.", least=0)] = 4
    resume: Annotated[
        bool,
        flag(
            "Go on where a run with the same flags and output stopped, training by training. In "
            "the sweep the first training after that starts from zero."
        ),
    ] = False
    oracle_batch: Annotated[int, flag("Sentences in an oracle call.", least=1)] = 64
    group: Annotated[
        int, flag("Sentences whose multipliers move side by side; 0: chosen.", least=0)
    ] = 0
    chunks: Annotated[int, flag("Parts of a pass, each called at one w.", least=1)] = 32
    variant: fields.Variant = "auto"
    working_sets: fields.WorkingSets = "auto"
    capacity: fields.Capacity = 0
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None
