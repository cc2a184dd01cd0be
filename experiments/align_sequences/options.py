"""The options of `experiments.align_sequences`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from experiments.align_sequences.data import ALPHABETS, OTHER_LETTERS
from experiments.lib import fields
from experiments.lib.options import flag
from jaxstruct.alignments.alphabets import LOWER_CASE
from jaxstruct.alignments.costs import GAPS
from jaxstruct.alignments.losses import NAMES
from jaxstruct.alignments.structure import MODES

FORMULATIONS = ("svm1_margin", "svm1_slack", "svm2_slack")
"""Those that additive losses serve."""


class Options(NamedTuple):
    """The flags of this command."""

    aligned: Annotated[
        str | None, flag("FASTA file to learn from: rows with gaps ('-' or '.'), two and two.")
    ] = None
    align: Annotated[str | None, flag("FASTA file of sequences to align, two and two.")] = None
    matrix: Annotated[
        str | None,
        flag(
            "Substitution matrix in the BLOSUM layout: what --align uses where nothing is "
            "trained, and what the trained one is compared with where something is."
        ),
    ] = None
    gap_open: Annotated[
        float | None,
        flag(
            "Cost of the first letter of a gap, with --matrix; default: what a comment of it says."
        ),
    ] = None
    gap_extend: Annotated[float | None, flag("The same of each later letter.")] = None
    gap_costs: Annotated[
        str | None,
        flag(
            "File of gap costs to use with --matrix in place of both, as training writes it: JSON "
            'such as {"gap_open": 11, "gap_extend": 1}.'
        ),
    ] = None
    alphabet: Annotated[str, flag(f"{', '.join(ALPHABETS)}, or letters of your own.")] = "protein"
    lower_case: Annotated[
        str, flag("Lower-case letters are an error, or read as upper-case ones.", LOWER_CASE)
    ] = "error"
    other_letters: Annotated[
        str,
        flag(
            "Letters outside the alphabet are an error, or their pairs are left out (and counted).",
            OTHER_LETTERS,
        ),
    ] = "error"
    mode: Annotated[
        str,
        flag(
            "Whole sequences, or the stretches that fit best; when learning local ones, gaps at "
            "both ends of the rows are letters left out.",
            MODES,
        ),
    ] = "global"
    gaps: Annotated[str, flag("One cost a letter, or open and extend.", GAPS)] = "affine"
    symmetric: Annotated[bool, flag("Whether a pair scores the same either way round.")] = True
    loss: Annotated[
        str,
        flag(
            "What a wrong alignment costs in training: letters with a wrong partner, or true "
            "pairs missing; normalised: their share.",
            NAMES,
        ),
    ] = "positions"
    formulation: Annotated[
        str,
        flag(
            "Margin re-scaling is exact; slack re-scaling is searched, and as its certificate "
            "counts what the search may have missed, it mostly runs until --max_passes.",
            FORMULATIONS,
        ),
    ] = "svm1_margin"
    c_over_n: Annotated[float, flag("C' = C / n, n training pairs.", above=0)] = 0.05
    tolerance: fields.Tolerance = 1e-2
    held_out: Annotated[
        float, flag("Share of the aligned pairs to test on; 0 for none.", least=0)
    ] = 0.2
    max_passes: Annotated[int, flag("Rounds of the training at most.", least=1)] = 500
    matrix_scale: Annotated[
        float,
        flag("0: matrix.txt has decimals; else integers, the scores times this, rounded.", least=0),
    ] = 0.0
    columns: Annotated[int, flag("Columns a block of printed alignments.", least=1)] = 60
    variant: fields.Variant = "subspace"
    working_sets: fields.WorkingSets = "auto"
    capacity: fields.Capacity = 0
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None
