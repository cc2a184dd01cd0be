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

from typing import cast

from experiments.align_sequences.costs import Costs, read_costs
from experiments.align_sequences.data import Reading, alphabet_named, read_aligned, read_plain
from experiments.align_sequences.options import Options
from experiments.align_sequences.report import aligned_outcome, training_outcome
from experiments.align_sequences.training import train_costs
from experiments.lib import common


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
