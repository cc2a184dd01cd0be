"""Align sequences, with substitution scores and gap costs learned from alignments of your own.

    python -m experiments.align_sequences --aligned=known.fasta
    python -m experiments.align_sequences --aligned=known.fasta --align=new.fasta --mode=local
    python -m experiments.align_sequences --align=new.fasta --matrix=results/matrix.txt
    python -m experiments.align_sequences --aligned=known.fasta --alphabet=dna --matrix_scale=2

Both files are FASTA, plain or .gz, and each two sequences that follow one another are a pair; in
the aligned one they are two rows with gaps. Training writes OUTPUT/matrix.txt (in the layout of the
BLOSUM files, with the gap costs in a comment) and OUTPUT/weights.npz; alignments are printed, and
written to OUTPUT/alignments.txt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from absl import app, flags

from experiments import common
from experiments.align_sequences_costs import Costs, read_costs
from experiments.align_sequences_data import (
    ALPHABETS,
    OTHER_LETTERS,
    Reading,
    alphabet_named,
    read_aligned,
    read_plain,
)
from experiments.align_sequences_report import aligned_outcome, training_outcome
from experiments.align_sequences_training import train_costs
from jaxstruct.alignments.alphabets import LOWER_CASE
from jaxstruct.alignments.costs import GAPS
from jaxstruct.alignments.losses import NAMES
from jaxstruct.alignments.structure import MODES

FORMULATIONS = ("svm1_margin", "svm1_slack", "svm2_slack")
"""Those that additive losses serve."""


class Options(NamedTuple):
    """The flags of this script; `define_flags` says what each means."""

    aligned: str | None = None
    align: str | None = None
    matrix: str | None = None
    gap_open: float | None = None
    gap_extend: float | None = None
    alphabet: str = "protein"
    lower_case: str = "error"
    other_letters: str = "error"
    mode: str = "global"
    gaps: str = "affine"
    symmetric: bool = True
    loss: str = "positions"
    formulation: str = "svm1_margin"
    c_over_n: float = 0.05
    tolerance: float = 1e-2
    held_out: float = 0.2
    buckets: int = 3
    max_passes: int = 500
    matrix_scale: float = 0.0
    columns: int = 60
    variant: str = "subspace"
    working_sets: str = "auto"
    capacity: int = 32
    output: str = "results"
    seed: int = 0
    x64: bool = False
    compilation_cache: bool = True
    progress: bool | None = None


def define_flags() -> None:
    """The command line of this script."""
    defaults = Options()
    _define_file_flags(defaults)
    _define_training_flags(defaults)
    common.define_solver_flags(defaults)
    common.define_common_flags(defaults)


def _define_file_flags(defaults: Options) -> None:
    flags.DEFINE_string(
        "aligned", None, "FASTA file to learn from: rows with gaps ('-' or '.'), two and two."
    )
    flags.DEFINE_string("align", None, "FASTA file of sequences to align, two and two.")
    flags.DEFINE_string(
        "matrix",
        None,
        "Substitution matrix in the BLOSUM layout: what --align uses where nothing is trained, and "
        "what the trained one is compared with where something is.",
    )
    flags.DEFINE_float(
        "gap_open",
        None,
        "Cost of the first letter of a gap, with --matrix; default: what a comment of it says.",
    )
    flags.DEFINE_float("gap_extend", None, "The same of each later letter.")
    flags.DEFINE_string(
        "alphabet", defaults.alphabet, f"{', '.join(ALPHABETS)}, or letters of your own."
    )
    flags.DEFINE_enum(
        "lower_case",
        defaults.lower_case,
        list(LOWER_CASE),
        "Lower-case letters are an error, or read as upper-case ones.",
    )
    flags.DEFINE_enum(
        "other_letters",
        defaults.other_letters,
        list(OTHER_LETTERS),
        "Letters outside the alphabet are an error, or their pairs are left out (and counted).",
    )
    flags.DEFINE_float(
        "matrix_scale",
        defaults.matrix_scale,
        "0: matrix.txt has decimals; else integers, the scores times this, rounded.",
    )
    flags.DEFINE_integer("columns", defaults.columns, "Columns a block of printed alignments.", 1)


def _define_training_flags(defaults: Options) -> None:
    flags.DEFINE_enum(
        "mode",
        defaults.mode,
        list(MODES),
        "Whole sequences, or the stretches that fit best; when learning local ones, gaps at both "
        "ends of the rows are letters left out.",
    )
    flags.DEFINE_enum("gaps", defaults.gaps, list(GAPS), "One cost a letter, or open and extend.")
    flags.DEFINE_boolean(
        "symmetric", defaults.symmetric, "Whether a pair scores the same either way round."
    )
    flags.DEFINE_enum(
        "loss",
        defaults.loss,
        list(NAMES),
        "What a wrong alignment costs in training: letters with a wrong partner, or true pairs "
        "missing; normalised: their share.",
    )
    flags.DEFINE_enum(
        "formulation",
        defaults.formulation,
        list(FORMULATIONS),
        "Margin re-scaling is exact; slack re-scaling is searched, and as its certificate counts "
        "what the search may have missed, it mostly runs until --max_passes.",
    )
    flags.DEFINE_float("c_over_n", defaults.c_over_n, "C' = C / n, n training pairs.")
    flags.DEFINE_float("tolerance", defaults.tolerance, "Relative duality gap to stop at.")
    flags.DEFINE_float(
        "held_out", defaults.held_out, "Share of the aligned pairs to test on; 0 for none."
    )
    flags.DEFINE_integer("buckets", defaults.buckets, "Padded lengths of sequences, at most.", 1)
    flags.DEFINE_integer("max_passes", defaults.max_passes, "Rounds of the training at most.", 1)


def run(options: Options) -> common.Outcome:
    """Train where there are aligned pairs, align where there are others; print and write both.

    Returns:
      The outcome of the training where there is one, else of aligning; with the files of both.

    Raises:
      ValueError: an option or a file that does not fit. FileNotFoundError: a file is missing.
      MalformedFile: a file is no FASTA file or matrix, or its rows do not go in pairs.
    """
    _check(options)
    dtype, alphabet = common.prepare(options), alphabet_named(options.alphabet)
    reading = Reading(alphabet, options.lower_case, options.other_letters)
    known = read_aligned(options.aligned, reading, options.mode) if options.aligned else None
    new = read_plain(options.align, reading) if options.align else None
    costs = _given_costs(options, reading)
    outcomes: list[common.Outcome] = []
    if known:
        trained = train_costs(options, alphabet, known, dtype)
        outcomes.append(training_outcome(options, alphabet, trained, costs, dtype))
        costs = trained.costs
    if new:
        outcomes.append(aligned_outcome(options, alphabet, new, costs, dtype))
    files = tuple(path for outcome in outcomes for path in outcome.files)
    return outcomes[0]._replace(files=files)


def _check(options: Options) -> None:
    if not options.aligned and not options.align:
        raise ValueError("aligned, align: name a file to learn from, to align, or both")
    if options.align and not options.aligned and not options.matrix:
        raise ValueError("matrix: --align needs --aligned to learn from, or a --matrix")
    if not options.matrix and (options.gap_open is not None or options.gap_extend is not None):
        raise ValueError("gap_open, gap_extend: these go with --matrix")
    if not options.matrix_scale >= 0:
        raise ValueError(f"matrix_scale: got {options.matrix_scale}, expected 0 or more")


def _given_costs(options: Options, reading: Reading) -> Costs | None:
    if not options.matrix:
        return None
    return read_costs(options.matrix, reading.alphabet, options.gap_open, options.gap_extend)


def main(arguments: Sequence[str]) -> None:
    """Run with the options of the command line."""
    if len(arguments) > 1:
        raise app.UsageError(f"unexpected arguments {arguments[1:]}")
    run(common.options_from_flags(Options()))


if __name__ == "__main__":
    define_flags()
    app.run(main)
