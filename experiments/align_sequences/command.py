"""Align sequences, with substitution scores and gap costs learned from alignments of your own.

    python -m experiments.align_sequences --aligned=known.fasta
    python -m experiments.align_sequences --aligned=known.fasta --align=new.fasta --mode=local
    python -m experiments.align_sequences --align=new.fasta --matrix=results/matrix.txt \\
        --gap_costs=results/gap_costs.json
    python -m experiments.align_sequences --aligned=known.fasta --alphabet=dna --matrix_scale=2

Both files are FASTA, plain or .gz, and each two sequences that follow one another are a pair; in
the aligned one they are two rows with gaps. Training writes OUTPUT/matrix.txt (in the layout of the
BLOSUM files, with the gap costs in a comment), OUTPUT/gap_costs.json (the gap costs unrounded, or
by --matrix_scale) and OUTPUT/weights.npz. Alignments are printed, and written to
OUTPUT/alignments.txt and, as rows with gaps, to OUTPUT/alignments.fasta, which --aligned reads:

    >pair1_first|NAME letters 3-17 of 20, score 4.25
    >pair1_second|NAME letters 1-14 of 14, score 4.25
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, cast

from experiments.align_sequences.costs import Costs, read_costs
from experiments.align_sequences.data import (
    ALPHABETS,
    OTHER_LETTERS,
    Reading,
    alphabet_named,
    read_aligned,
    read_plain,
)
from experiments.align_sequences.report import aligned_outcome, training_outcome
from experiments.align_sequences.training import train_costs
from experiments.lib import common, fields
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


def run(options: Options) -> common.Outcome:
    """Train where there are aligned pairs, align where there are others; print and write both.

    Returns:
      The outcome of the training where there is one, else of aligning; with the files of both.

    Raises:
      ValueError: an option or a file that does not fit. FileNotFoundError: a file is missing.
      MalformedFile: a file is no FASTA file or matrix, or its rows do not go in pairs.
    """
    dtype = common.prepare(options)
    _check(options)
    alphabet = alphabet_named(options.alphabet)
    reading = Reading(alphabet, options.lower_case, options.other_letters)
    known = read_aligned(options.aligned, reading, options.mode) if options.aligned else None
    new = read_plain(options.align, reading) if options.align else None
    costs = _given_costs(options, reading)
    outcomes: list[common.Outcome] = []
    if known:
        trained = train_costs(options, alphabet, known, dtype)
        outcomes.append(training_outcome(options, alphabet, trained, costs, dtype))
        costs = trained.costs
    try:
        if new:
            costs = cast(Costs, costs)  # for _check wants --aligned or --matrix
            outcomes.append(aligned_outcome(options, alphabet, new, costs, dtype))
    except KeyboardInterrupt:
        if outcomes:
            raise common.Stopped(outcomes[0].files) from None
        raise
    files = tuple(path for outcome in outcomes for path in outcome.files)
    return outcomes[0]._replace(files=files)


def _check(options: Options) -> None:
    if not options.aligned and not options.align:
        raise ValueError("aligned, align: name a file to learn from, to align, or both")
    if options.align and not options.aligned and not options.matrix:
        raise ValueError("matrix: --align needs --aligned to learn from, or a --matrix")
    named = options.gap_open is not None or options.gap_extend is not None
    if not options.matrix and (named or options.gap_costs):
        raise ValueError("gap_open, gap_extend, gap_costs: these go with --matrix")
    if named and options.gap_costs:
        raise ValueError("gap_costs: give either this file, or --gap_open and --gap_extend")


def _given_costs(options: Options, reading: Reading) -> Costs | None:
    if not options.matrix:
        return None
    return read_costs(
        options.matrix, reading.alphabet, options.gap_open, options.gap_extend,
        options.gap_costs or None,
    )  # fmt: skip
