"""The options of `experiments.align_sequences`."""

from __future__ import annotations

from experiments.align_sequences.data import ALPHABETS, OTHER_LETTERS
from experiments.lib import fields
from experiments.lib.options import flag
from jaxstruct.alignments.alphabets import LOWER_CASE
from jaxstruct.alignments.costs import GAPS
from jaxstruct.alignments.losses import NAMES
from jaxstruct.alignments.structure import MODES

FORMULATIONS = ("svm1_margin", "svm1_slack", "svm2_slack")
"""Those that additive losses serve."""


class Options(fields.Training):
    """The flags of this command."""

    aligned: str | None = flag(
        None, "FASTA file to learn from: rows with gaps ('-' or '.'), two and two."
    )
    align: str | None = flag(None, "FASTA file of sequences to align, two and two.")
    matrix: str | None = flag(
        None,
        "Substitution matrix in the BLOSUM layout: what --align uses where nothing is "
        "trained, and what the trained one is compared with where something is.",
    )
    gap_open: float | None = flag(
        None,
        "Cost of the first letter of a gap, with --matrix; default: what a comment of it says.",
    )
    gap_extend: float | None = flag(None, "Cost of each later letter of a gap, with --matrix.")
    gap_costs: str | None = flag(
        None,
        "File of gap costs to use with --matrix in place of both, as training writes it: JSON "
        'such as {"gap_open": 11, "gap_extend": 1}.',
    )
    alphabet: str = flag("protein", f"{', '.join(ALPHABETS)}, or letters of your own.")
    lower_case: str = flag(
        "error", "Lower-case letters are an error, or read as upper-case ones.", LOWER_CASE
    )
    other_letters: str = flag(
        "error",
        "Letters outside the alphabet are an error, or their pairs are left out (and counted).",
        OTHER_LETTERS,
    )
    mode: str = flag(
        "global",
        "Whole sequences, or the stretches that fit best; when learning local ones, gaps at "
        "both ends of the rows are letters left out.",
        MODES,
    )
    gaps: str = flag(
        "affine",
        "One cost for every letter of a gap, or one to open it and one to extend it.",
        GAPS,
    )
    symmetric: bool = flag(True, "Give a pair of letters the same score in either order.")
    loss: str = flag(
        "positions",
        "What a wrong alignment costs in training: letters with a wrong partner, or true "
        "pairs missing; normalised: their share.",
        NAMES,
    )
    formulation: str = flag(
        "svm1_margin",
        "Margin re-scaling is exact; slack re-scaling is searched, and as its certificate "
        "counts what the search may have missed, it mostly runs until --max_passes.",
        FORMULATIONS,
    )
    c_over_n: float = flag(0.05, "C' = C / n, n training pairs.", above=0)
    tolerance: float = 1e-2
    held_out: float = flag(0.2, "Share of the aligned pairs to test on; 0 for none.", least=0)
    max_passes: int = flag(500, "Rounds of the training at most.", least=1)
    matrix_scale: float = flag(
        0.0, "0: matrix.txt has decimals; else integers, the scores times this, rounded.", least=0
    )
    columns: int = flag(60, "Columns a block of printed alignments.", least=1)
    variant: str = "subspace"
