"""Pairs of sequences from FASTA files: read, encoded and split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxstruct.alignments.alphabets import (
    DNA,
    PROTEIN,
    PROTEIN_AMBIGUOUS,
    RNA,
    Alphabet,
    alphabet,
    encode,
)
from jaxstruct.alignments.losses import AlignmentOutput
from jaxstruct.alignments.potentials import DELETE, INSERT, PAIR
from jaxstruct.alignments.structure import AlignmentInput, alignment_inputs, alignment_outputs
from jaxstruct.alignments.text import WrittenAlignment, gather_gaps, read_rows
from jaxstruct.core.sizes import size_class
from jaxstruct.data.fasta import FastaRecord, aligned_pairs, consecutive_pairs, read_fasta

ALPHABETS = {
    "protein": PROTEIN, "protein_ambiguous": PROTEIN_AMBIGUOUS, "dna": DNA, "rna": RNA,
}  # fmt: skip
OTHER_LETTERS = ("error", "leave_out")


class Reading(NamedTuple):
    """How letters are read.

    Fields:
      alphabet: the letters there are. lower_case: as `alphabets.encode` has it.
      other_letters: what becomes of a pair with other letters: "error", or "leave_out".
    """

    alphabet: Alphabet
    lower_case: str
    other_letters: str


class Pairs(NamedTuple):
    """n pairs of sequences.

    Fields:
      names: of both. codes: of both, letters as numbers. alignments: operations and begin, or
        empty where the file was not aligned. left_out: pairs with letters outside the alphabet.
    """

    names: list[tuple[str, str]]
    codes: list[tuple[np.ndarray, np.ndarray]]
    alignments: list[tuple[np.ndarray, np.ndarray]]
    left_out: int


def alphabet_named(name: str) -> Alphabet:
    """One of the ready alphabets, or one of the letters given.

    Raises:
      ValueError: it is no name and no string of distinct letters.
    """
    if name in ALPHABETS:
        return ALPHABETS[name]
    try:
        return alphabet(name)
    except ValueError as error:
        raise ValueError(
            f"alphabet: {name!r} is none of {', '.join(ALPHABETS)}, nor letters ({error})"
        ) from error


def read_aligned(path: str, reading: Reading, mode: str) -> Pairs:
    """Aligned pairs, consecutive rows of an aligned FASTA file.

    Columns with a gap in both rows are left out, gaps between two pairs are gathered, letters of
    the first sequence first; for local alignments gaps at both ends are letters left out.

    Raises:
      FileNotFoundError, MalformedFile: see `data.fasta`.
      ValueError: a letter is outside the alphabet, or no pair is left.
    """
    records = aligned_pairs(read_fasta(Path(path), aligned=True), path)
    rows = [read_rows(first.sequence, second.sequence) for first, second in records]
    pairs = _encode(path, records, rows, reading)
    alignments = []
    for operations, begin in pairs.alignments:
        operations = gather_gaps(operations)
        alignments.append(
            without_end_gaps(operations, begin) if mode == "local" else (operations, begin)
        )
    return pairs._replace(alignments=alignments)


def read_plain(path: str, reading: Reading) -> Pairs:
    """Pairs of sequences to align, consecutive ones of a FASTA file; gaps in it are taken out.

    Raises:
      FileNotFoundError, MalformedFile, ValueError: as `read_aligned`.
    """
    records = consecutive_pairs(read_fasta(Path(path), aligned=True), path)
    none = np.zeros(0, np.int32), np.zeros(2, np.int32)
    texts = ([record.sequence.replace("-", "") for record in pair] for pair in records)
    written = [WrittenAlignment(first, second, *none) for first, second in texts]
    return _encode(path, records, written, reading)._replace(alignments=[])


def _encode(
    path: str,
    records: Sequence[tuple[FastaRecord, FastaRecord]],
    written: Sequence[WrittenAlignment],
    reading: Reading,
) -> Pairs:
    found, left_out = Pairs([], [], [], 0), 0
    for number, (pair, each) in enumerate(zip(records, written, strict=True), 1):
        names = pair[0].name, pair[1].name
        try:
            first, second = (
                encode(reading.alphabet, text, lower_case=reading.lower_case) for text in each[:2]
            )
        except ValueError as error:
            if reading.other_letters == "leave_out":
                left_out += 1
                continue
            raise ValueError(
                f"{path}: pair {number}, {names[0]!r} with {names[1]!r}: {error}; "
                "--other_letters=leave_out leaves such pairs out, --lower_case=upper reads lower "
                "case, --alphabet names another alphabet"
            ) from error
        found.names.append(names)
        found.codes.append((first, second))
        found.alignments.append((each.operations, each.begin))
    if not found.names:
        raise ValueError(f"{path}: all {left_out} pairs have letters outside the alphabet")
    return found._replace(left_out=left_out)


def chosen(pairs: Pairs, index: np.ndarray) -> Pairs:
    """Some of the pairs."""
    names, codes, alignments = ([leaf[i] for i in index] if leaf else [] for leaf in pairs[:3])
    return Pairs(names, codes, alignments, 0)


def split(pairs: Pairs, held_out: float, seed: int) -> tuple[Pairs, Pairs]:
    """(training, held-out) pairs, drawn by the seed; at least one trains.

    Raises:
      ValueError: held_out is not in [0, 1), or leaves nothing to train on.
    """
    n = len(pairs.names)
    if not 0 <= held_out < 1:
        raise ValueError(f"held_out: got {held_out}, expected a share in [0, 1)")
    count = min(max(round(held_out * n), 1), n - 1) if held_out else 0
    order = np.random.default_rng(seed).permutation(n)
    return chosen(pairs, np.sort(order[count:])), chosen(pairs, np.sort(order[:count]))


def inputs_of(pairs: Pairs) -> AlignmentInput:
    """The sequences as a store, inputs of `pairwise_alignment`."""
    firsts, seconds = zip(*pairs.codes, strict=True)
    return alignment_inputs(firsts, seconds)


def outputs_of(pairs: Pairs) -> AlignmentOutput:
    """The known alignments as a store, outputs of `pairwise_alignment`."""
    operations, begin = zip(*pairs.alignments, strict=True)
    return alignment_outputs(operations, np.stack(begin))


def padded_letters(pairs: Pairs) -> int:
    """What the longest sequence is padded to."""
    return size_class(max(len(letters) for codes in pairs.codes for letters in codes))


def without_end_gaps(operations: np.ndarray, begin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(operations, begin) from the first to the last pair, as a local alignment has them.

    Letters against a gap before the first pair count to begin; without any pair nothing is left.
    """
    operations = np.asarray(operations)
    pairs = np.flatnonzero(operations == PAIR)
    if not pairs.size:
        return operations[:0], np.zeros(2, np.int32)
    before = operations[: pairs[0]]
    moved = [np.sum(before == DELETE), np.sum(before == INSERT)]
    return operations[pairs[0] : pairs[-1] + 1], (np.asarray(begin) + moved).astype(np.int32)
