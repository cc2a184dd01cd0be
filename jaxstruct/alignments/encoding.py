"""Aligned pairs of texts as people hold them, as inputs and outputs of alignments, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxstruct.alignments.alphabets import (
    Alphabet,
    WrittenAlignment,
    alphabet,
    encode,
    read_rows,
    write_rows,
)
from jaxstruct.alignments.costs import alignment_costs
from jaxstruct.alignments.losses import AlignmentOutput
from jaxstruct.alignments.structure import (
    AlignmentInput,
    alignment_inputs,
    alignment_outputs,
    pairwise_alignment,
)
from jaxstruct.core.checks import as_list, check_count, check_record, kind_and_text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.tables import Matrix, Ranking, Table

Pairs: TypeAlias = "Iterable[tuple[str, str] | WrittenAlignment]"
"""n pairs of texts, aligned ("AC-T", "ACGT") or plain, or `WrittenAlignment`s."""
_GAPS = str.maketrans("", "", "-.")


class AlignmentEncoding(NamedTuple):
    """Which letter is which number. Made by `prepare`.

        data = prepare(aligned)
        solution = fit(*data, C=10.0)
        found = predict(data.problem, solution, data.encoding.inputs(pairs))
        rows = data.encoding.decode(found, pairs)

    Fields:
      alphabet: its letters.
    """

    alphabet: Alphabet
    structure = "pairwise_alignment"

    def problem(self, **options: Any) -> Problem:
        """`pairwise_alignment` of these letters; options are those of `pairwise_alignment`."""
        return pairwise_alignment(len(self.alphabet.letters), **options)

    def inputs(self, pairs: Pairs) -> AlignmentInput:
        """The inputs of n pairs of sequences, ragged; gaps ("-", ".") are left out.

        Raises:
          ValueError: they are no pairs of texts, or hold a letter that training did not have; the
            message names pair and place.
        """
        texts = _sequences("pairs", pairs)
        first, second = (
            [self._numbers(i, side, pair[side]) for i, pair in enumerate(texts)] for side in (0, 1)
        )
        return alignment_inputs(first, second)

    def outputs(self, aligned: Pairs) -> AlignmentOutput:
        """The alignments of n pairs of rows with gaps, ragged.

        Raises:
          ValueError: the rows of a pair differ in length, or one holds no letter.
        """
        written = _written("aligned", aligned)
        begin = np.stack([np.asarray(one.begin, np.int32) for one in written])
        return alignment_outputs([one.operations for one in written], begin=begin)

    def decode(self, outputs: AlignmentOutput, pairs: Pairs | None = None) -> list[tuple[str, str]]:
        """The two rows with gaps of n alignments, such as `predict` returns them.

        Args:
          outputs: n alignments. pairs: the n pairs of sequences that they align; never None.

        Returns:
          n pairs of texts of one length; of local alignments the stretches that are aligned.

        Raises:
          ValueError: there are not as many pairs as outputs, or they do not fit them.
        """
        check_record("outputs", outputs, AlignmentOutput, "alignment_outputs")
        if pairs is None:
            raise ValueError("data must be given to write alignments: the pairs of sequences")
        texts = _sequences("pairs", pairs)
        check_count("pairs", len(texts), "outputs", len(outputs.begin))
        found = zip(texts, outputs.operations, outputs.begin, strict=True)
        return [
            write_rows(WrittenAlignment(*two, np.asarray(ops), np.asarray(at)))
            for two, ops, at in found
        ]

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """Scores of substitutions and costs of gaps."""
        del largest
        letters = tuple(self.alphabet.letters)
        costs = alignment_costs(float(options.get("symmetric", True)), weights)
        gaps = np.array([costs.gap_open, costs.gap_extend], np.float64)
        substitution = np.asarray(costs.substitution, np.float64)
        return [
            Matrix("substitution scores", letters, letters, substitution),
            Ranking("costs of gaps", ("first letter", "each later letter"), gaps),
        ]

    def _numbers(self, i: int, side: int, text: str) -> np.ndarray:
        try:
            return encode(self.alphabet, text)
        except ValueError as error:
            raise ValueError(f"pairs[{i}][{side}], {error}") from None


def _checked(name: str, pairs: Pairs) -> list:
    """n pairs.

    Raises:
      ValueError: they are none, or one is no pair of texts.
    """
    listed = as_list(name, pairs, "a list of pairs of texts")
    if not listed:
        raise ValueError(f"{name} must hold a pair of texts at least, got none")
    for i, one in enumerate(listed):
        if isinstance(one, WrittenAlignment):
            continue
        fits = isinstance(one, (tuple, list)) and len(one) == 2
        if not fits or not all(isinstance(text, str) for text in one):
            raise ValueError(
                f"{name}[{i}] must be a pair of texts (of lists of letters make texts by "
                f"''.join), got {kind_and_text_of(one)}"
            )
    return listed


def _sequences(name: str, pairs: Pairs) -> list[tuple[str, str]]:
    """The two whole sequences of each pair, without gaps."""
    return [
        (one.first, one.second)
        if isinstance(one, WrittenAlignment)
        else (one[0].translate(_GAPS), one[1].translate(_GAPS))
        for one in _checked(name, pairs)
    ]


def _written(name: str, aligned: Pairs) -> list[WrittenAlignment]:
    written = []
    for i, one in enumerate(_checked(name, aligned)):
        try:
            written.append(one if isinstance(one, WrittenAlignment) else read_rows(*one))
        except ValueError as error:
            raise ValueError(f"{name}[{i}]: {error}") from None
    return written


def prepare(
    aligned: Pairs, *, letters: Alphabet | str | Iterable[str] | None = None, **options: Any
) -> Prepared:
    """A training set of aligned pairs: `js.fit(*prepare(aligned), C=10.0)`.

    Args:
      aligned: n pairs of rows with gaps ("-" or "."), or `WrittenAlignment`s, which say where a
        local alignment begins.
      letters: all letters in the wanted order, an `Alphabet` such as PROTEIN or a text; None for
        those of the pairs, sorted.
      options: those of `pairwise_alignment`.

    Raises:
      ValueError: they are no aligned pairs, or hold a letter that is none of `letters`.
    """
    aligned = held(aligned)
    texts = _sequences("aligned", aligned)
    if letters is None:
        chosen = alphabet(sorted({letter for pair in texts for text in pair for letter in text}))
    else:
        chosen = letters if isinstance(letters, Alphabet) else alphabet(letters)
    encoding = AlignmentEncoding(chosen)
    outputs = encoding.outputs(aligned)
    return prepared(encoding, aligned, outputs, options)
