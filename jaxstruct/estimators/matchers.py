"""Matchings of two sets of items, and alignments of two sequences."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxstruct.alignments import prepare as alignment_examples
from jaxstruct.alignments.costs import AlignmentCosts, alignment_costs
from jaxstruct.assignments import prepare as matching_examples
from jaxstruct.core.prepared import Prepared, held
from jaxstruct.core.types import PyTree
from jaxstruct.estimators.base import ListEstimator, check_as_many, example_weights, weighted_f1


class SetMatcher(ListEstimator):
    """Matchings of two sets by features of their pairs, learned from matched examples.

    X is a list of n examples: arrays [r, c, d] of features of all pairs, lists of r lists of c
    rows, mappings (row, column) -> row of features of the pairs that may be matched, or tuples
    (one of these, rows, columns) with features of the items; see `jaxstruct.assignments.prepare`. y
    is a list of n lists of pairs (row, column), or of the other forms there: mappings row ->
    column, the column of each row, SciPy's two index arrays, indicators. An example whose pairs
    allow no complete matching gets None (`predict`). There is no `partial_fit`.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being examples. objective: a formulation of
        `jaxstruct.fit` but "svm2_margin"; there is no "log_loss".
      unmatched: whether any item may be matched to nothing, at a score that is learned; else all of
        the smaller set is matched.
      loss: "rows", "items", "normalised_rows" or "normalised_items".
      min_count: pairs (items) that must have a named feature for it to count.
    """

    unmatched: bool = False
    loss: str = "rows"
    min_count: int = 1

    _read = staticmethod(matching_examples)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """F1 of pairs: twice the right pairs by all that were found and all that are true.

        Of complete matchings it is the share of pairs that are right. The pairs of an example count
        `sample_weight` times; without any pair, found or true, it is 1.
        """
        X, y = held(X), held(y)
        found, weights = self.predict(X), example_weights(sample_weight, len(y))
        check_as_many(len(found), len(y))
        true = self.encoding_.decode(self.encoding_.outputs(y, X), X)
        made = [set(own or ()) for own in found]
        f1 = weighted_f1(made, [*map(set, true)], weights)
        return 1.0 if f1 is None else f1


GAPS = "-."


class PairAligner(ListEstimator):
    """Alignment of pairs of sequences with costs that are learned from aligned pairs.

    X is a list of n pairs of texts; y a list of n pairs of rows with gaps ("AC-T", "ACGT"). Gaps in
    X are left out, so that X may be y. There is no `partial_fit`.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being pairs. objective: "svm1_margin",
        "svm1_slack" or "svm2_slack"; there is no "log_loss".
      loss: "positions", "pairs", "normalised_positions" or "normalised_pairs".
      letters: all letters, a text, or one of `alignments.alphabet`; None for those of training,
        and others are errors.
      gaps: "affine" or "linear".

    Attributes, beside those of `StructuralEstimator`:
      costs_: `jaxstruct.alignments.AlignmentCosts`: substitution [A, A], gap_open, gap_extend.
      alphabet_: its letters.
    """

    loss: str = "positions"
    letters: Any = None
    gaps: str = "affine"

    def _read(self, X: Any, y: Any, **options: Any) -> Prepared:
        return alignment_examples(_same_pairs(X, y)[1], **options)

    def _finish(self, weights: PyTree) -> None:
        super()._finish(weights)
        self.alphabet_ = self.encoding_.alphabet
        self.costs_ = AlignmentCosts(*jax.tree.map(np.asarray, alignment_costs(1.0, weights)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean share of letters whose partner, a letter or a gap, is the true one."""
        X, y = _same_pairs(X, y)
        weights = example_weights(sample_weight, len(y))
        pairs = zip(self.predict(X), y, strict=True)
        return float(np.average([share_of_partners(*pair) for pair in pairs], weights=weights))


def _partners(rows: tuple[str, str]) -> list[int | None]:
    """The partner of every letter of the first text, then of the second; None for a gap."""
    found: tuple[list, list] = ([], [])
    for pair in zip(*rows, strict=True):
        is_letter = [letter not in GAPS for letter in pair]
        places = len(found[0]), len(found[1])
        for side in (0, 1):
            if is_letter[side]:
                found[side].append(places[1 - side] if is_letter[1 - side] else None)
    return [*found[0], *found[1]]


def share_of_partners(found: tuple[str, str], true: tuple[str, str]) -> float:
    """The share of the letters of both texts that have the partner, a letter or none, of `true`."""
    each = zip(_partners(found), _partners(true), strict=True)
    right = [own == wanted for own, wanted in each]
    return sum(right) / max(len(right), 1)


def _same_pairs(X: Any, y: Any) -> tuple[list, list]:
    """(X, y) as lists; ValueError unless y aligns the texts of X."""
    X, y = [tuple(pair) for pair in X], [tuple(pair) for pair in y]
    check_as_many(len(X), len(y), "pairs")
    for i, pairs in enumerate(zip(X, y, strict=True)):
        plain, aligned = (_without_gaps(pair) for pair in pairs)
        if plain != aligned:
            raise ValueError(f"y[{i}] aligns {aligned}, but X[{i}] is {plain}")
    return X, y


def _without_gaps(pair: tuple[str, str]) -> tuple[str, ...]:
    return tuple("".join(letter for letter in text if letter not in GAPS) for text in pair)
