"""The options of `experiments.constraint_counts`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from experiments.lib import fields
from experiments.lib.options import flag

PARTS = ("named_entities", "trees", "homologues")
WAYS = ("full", "subspace", "fit")
SQUARED = ("svm2", "svm2_slack", "svm2_margin")
"""The formulations of tables 3 and 5."""


class Options(NamedTuple):
    """The flags of this command."""

    parts: Annotated[Sequence[str], flag("Which tables.", PARTS, some=True)] = PARTS
    ways: Annotated[
        Sequence[str],
        flag(
            "Step 10a (full) or 10b (subspace) of algorithm 3 as printed, or fit.", WAYS,
            some=True,
        ),
    ] = WAYS  # fmt: skip
    formulations: Annotated[
        Sequence[str], flag("Of named entities and trees.", SQUARED, some=True)
    ] = SQUARED
    sentences: Annotated[
        int, flag("Named entities: the first so many Spanish sentences.", least=4)
    ] = 300
    folds: Annotated[int, flag("Named entities: of the cross-validation.", least=2)] = 5
    repeats: Annotated[
        int, flag("Folds that are run, and samples of homologues of each size.", least=1)
    ] = 2
    corpus: Annotated[str, flag("Trees: as in experiments.parsing.", ["gum", "wsj"])] = "gum"
    trees: Annotated[int, flag("The first so many training trees; 0: all.", least=0)] = 0
    c_over_n: Annotated[
        str, flag("Trees: C' = C / n; 1/n is the C = 1 of table 5, which learns too little.")
    ] = "0.1"
    epsilon: Annotated[float, flag("Named entities and trees.", above=0)] = 0.01
    exactness: Annotated[
        float, flag("Part of epsilon to which the letter solves a QP, below 1.", above=0)
    ] = 1e-3  # fmt: skip
    sizes: Annotated[
        Sequence[str], flag("Homologues: numbers n of training examples.", each=int, least=1)
    ] = ("1", "2", "4", "10", "20", "40", "80")
    epsilons: Annotated[
        Sequence[str], flag("Homologues: precisions besides 0.1.", each=float, above=0)
    ] = ("1", "0.3", "0.03", "0.01", "0.003", "0.001")
    epsilon_size: Annotated[int, flag("Its number n of examples.", least=1)] = 20
    look_ahead: Annotated[
        int, flag("Examples called ahead where nothing was added; changes the time alone.", least=1)
    ] = 32
    max_epochs: Annotated[int, flag("Passes of a training at most.", least=1)] = 200
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None
