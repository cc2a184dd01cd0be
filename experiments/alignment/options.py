"""The options of `experiments.alignment`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from experiments.lib import fields
from experiments.lib.options import flag
from jaxstruct.alignments.log_odds import BACKGROUNDS
from jaxstruct.data.homologues import PADDINGS

PAPER_GAP_COST = 0.2


def reading_named(text: str) -> tuple[str, float]:
    """(padding, C') of a word such as end:0.1."""
    padding, _, c_over_n = text.partition(":")
    try:
        value = float(c_over_n)
    except ValueError:
        value = 0.0
    if padding not in PADDINGS or not 0 < value < math.inf:
        raise ValueError(
            f"got {text!r}, expected padding:c_over_n such as end:0.1, padding one of "
            f"{', '.join(PADDINGS)}"
        )
    return padding, value


class Options(NamedTuple):
    """The flags of this command."""

    sizes: Annotated[
        Sequence[str], flag("Numbers n of training examples.", each=int, least=1, some=True)
    ] = (
        "1",
        "2",
        "4",
        "10",
        "20",
        "40",
        "80",
    )
    samples: Annotated[int, flag("Training and test sets of each size.", least=2)] = 10
    test_examples: Annotated[int, flag("Test examples a sample.", least=1)] = 100
    padding: Annotated[
        str,
        flag(
            "Where the random letters go that fill a homologue up: see jaxstruct.data.homologues.",
            PADDINGS,
        ),
    ] = "both"
    c_over_n: Annotated[float, flag("C' = C / n of SVM2.", above=0)] = 0.1
    epsilon: Annotated[float, flag("Precision of the cutting plane algorithm.", above=0)] = 0.1
    background: Annotated[
        str,
        flag(
            "P(a) and P(b) of the log-odds: of all letters, or the margins of the paired letters.",
            BACKGROUNDS,
        ),
    ] = "sequences"
    gap_costs: Annotated[
        Sequence[str],
        flag(
            f"Gap costs delta of the generative model; {PAPER_GAP_COST} is always one of them.",
            each=float,
        ),
    ] = ("0.2", "0.6", "0.8", "1.0", "1.2", "1.4", "1.8")
    epsilons: Annotated[
        Sequence[str], flag("Precisions of figure 2, right; empty: none.", each=float, above=0)
    ] = (
        "1",
        "0.3",
        "0.1",
        "0.03",
        "0.01",
        "0.003",
        "0.001",
    )
    epsilon_size: Annotated[int, flag("Its number n of examples.", least=1)] = 20
    readings: Annotated[
        Sequence[str],
        flag(
            "Further readings of the text to compare, a list of padding:c_over_n; each takes "
            "about as long as the table.",
            each=reading_named,
        ),
    ] = ()
    oracle_batch: Annotated[
        int,
        flag(
            "Examples in one oracle call. 1 adds planes one at a time as algorithm 1 does; more "
            "is faster for many examples and adds more planes.",
            least=1,
        ),
    ] = 1
    resume: Annotated[
        bool,
        flag("Go on where a run with the same flags and output stopped, training by training."),
    ] = False
    capacity: fields.Capacity = 0
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None
