"""Candidates with features as people hold them, as inputs of `candidates`, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, check_count, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    dense_or_sparse,
    fit_features,
    inputs_of,
)
from jaxstruct.core.feature_rows import Rows, read_sequences
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.spec import array
from jaxstruct.core.tables import Table, ranking
from jaxstruct.strings.inputs import CandidateFeatures, feature_inputs
from jaxstruct.strings.structure import candidates


class CandidateEncoding(NamedTuple):
    """What the columns of candidates mean. Made by `prepare`.

        data = prepare(lists, right)
        solution = fit(*data, C=10.0)
        found = predict(data.problem, solution, data.encoding.inputs(new_lists))
        chosen = data.encoding.decode(found, new_lists)

    Fields:
      features: which feature is which column.
    """

    features: FeatureEncoding
    structure = "candidates"

    def problem(self, **options: Any) -> Problem:
        """`candidates` of these features; options are those of `candidates`."""
        return candidates(self.features.number_of_features, **options)

    def inputs(self, lists: Any) -> CandidateFeatures:
        """The inputs of n lists of candidates, ragged where they differ in length.

        Args:
          lists: of each input a mapping candidate -> row of features, or rows alone.

        Raises:
          ValueError: a list is empty, or rows are of another kind or have other columns.
        """
        read, offsets = _read(lists)
        rows = dense_or_sparse(self.features, "lists", read)
        lengths = np.diff(offsets)
        numbers = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        d = self.features.number_of_features
        return feature_inputs(Ragged(numbers, offsets, -1), inputs_of(rows, offsets), d)

    def outputs(self, right: Iterable[Hashable], lists: Any = None) -> np.ndarray:
        """[n] int32 which candidate of each list is the right one.

        Args:
          right: n candidates; positions in the lists where these are rows alone.
          lists: the n lists, which are needed where they are mappings.

        Raises:
          ValueError: a list does not have its right candidate.
        """
        right = as_list("right", right, "a list of n candidates", letters=True)
        names = [None] * len(right) if lists is None else _names(lists)
        check_count("right", len(right), "lists", len(names))
        return np.array(
            [_place(i, one, own) for i, (one, own) in enumerate(zip(right, names, strict=True))],
            np.int32,
        )

    def decode(self, outputs: np.ndarray, lists: Any = None) -> list[Hashable]:
        """The candidates of n outputs, such as `predict` returns them.

        Args:
          outputs: [n] integers. lists: the n lists; None, or lists of rows, give positions.
        """
        outputs = array("outputs", outputs, "n")
        names = [None] * len(outputs) if lists is None else _names(lists)
        return [
            int(number) if own is None else own[number]
            for number, own in zip(outputs, names, strict=True)
        ]

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The features of candidates."""
        del options
        title = "features of candidates"
        return [ranking(title, self.features.names, weights["weights"], largest)]


def _place(i: int, candidate: Hashable, names: tuple[Hashable, ...] | None) -> int:
    if names is not None and candidate in names:
        return names.index(candidate)
    if names is None and isinstance(candidate, (int, np.integer)) and candidate >= 0:
        return int(candidate)
    what = "a position >= 0 in its list (of mappings give the lists, too)"
    expected = what if names is None else f"a candidate of lists[{i}]"
    raise ValueError(f"right[{i}] must be {expected}, got {text_of(candidate)}")


def _listed(lists: Any) -> list:
    return as_list("lists", lists, "n lists of candidates: mappings candidate -> row, or rows")


def _names(lists: Any) -> list[tuple[Hashable, ...] | None]:
    return [tuple(one) if isinstance(one, Mapping) else None for one in _listed(lists)]


def _read(lists: Any) -> tuple[Rows, np.ndarray]:
    """The rows of all candidates, and where each list begins."""
    rows = [list(one.values()) if isinstance(one, Mapping) else one for one in _listed(lists)]
    return read_sequences("lists", rows)


def prepare(
    lists: Any, right: Iterable[Hashable], *, min_count: int = 1, **options: Any
) -> Prepared:
    """A training set of candidate lists (re-ranking): `js.fit(*prepare(lists, right), C=10.0)`.

    Args:
      lists: of each of n inputs a mapping candidate -> row, candidates of any hashable kind, or
        rows alone. Rows are of any kind that `jaxstruct.multiclass.prepare` takes: what is known of
        input and candidate together, Psi(x, y).
      right: of each the right candidate; its position where the list is of rows alone.
      min_count: candidates that must have a named feature for it to count.
      options: those of `candidates`.

    Raises:
      ValueError: lists are none, one lacks its right candidate, or an option does not fit.
    """
    lists = held(lists)
    encoding = CandidateEncoding(fit_features(_read(lists)[0], min_count=min_count))
    return prepared(encoding, lists, encoding.outputs(right, lists), options)
