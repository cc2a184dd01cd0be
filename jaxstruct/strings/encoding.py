"""Candidates with features as people hold them, as inputs of `candidates`, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import Partial

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
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.spec import array
from jaxstruct.core.tables import Table, ranking
from jaxstruct.kernels.anchors import Anchors, fit_anchors
from jaxstruct.strings.inputs import (
    CandidateFeatures,
    KernelCandidates,
    feature_inputs,
    kernel_inputs,
)
from jaxstruct.strings.losses import similarity_loss
from jaxstruct.strings.structure import candidates, kernel_candidates


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


class KernelCandidateEncoding(NamedTuple):
    """Both kernels, the training inputs and the table of outputs. Made by `prepare_kernel`.

    Fields:
      anchors: K and the training inputs. table: L and the outputs.
    """

    anchors: Anchors
    table: Anchors
    structure = "kernel_candidates"

    def problem(self, *, loss: Any = "zero_one", **options: Any) -> Problem:
        """`kernel_candidates` of these tables; options as there, and loss="similarity", 1 - L."""
        L = np.asarray(self.table.gram())
        loss = similarity_loss(L) if isinstance(loss, str) and loss == "similarity" else loss
        return kernel_candidates(len(self.anchors), L, loss=loss, **options)

    def inputs(self, pairs: Any) -> KernelCandidates:
        """K of n inputs and the anchors, and their candidates.

        Args:
          pairs: n pairs (input, its candidates), as in `prepare_kernel`.

        Raises:
          ValueError: they are no pairs, a candidate is not in the table, or inputs have other
            columns or letters than training's.
        """
        things, lists = _split(pairs)
        gram, _ = self.anchors.values(things)
        return kernel_inputs(gram, self._candidates(lists), new=True)

    def outputs(self, right: Iterable[str]) -> np.ndarray:
        """[n] int32 rows of the table; ValueError names a text that is not there."""
        return _rows(self._numbers(), "right", as_list("right", right, "a list of n texts"))

    def decode(self, outputs: np.ndarray, pairs: Any = None) -> list[str]:
        """The texts of n outputs, such as `predict` returns them; pairs are not needed."""
        del pairs
        names = self.table.names
        return [names[number] for number in np.asarray(outputs)]

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The largest coefficients of a training input with an output."""
        del options
        both = (f"{x}: {y}" for x in self.anchors.names for y in self.table.names)
        return [ranking("inputs and outputs", both, weights["coefficients"], largest)]

    def _numbers(self) -> dict[str, int]:
        """The row of each text of the table."""
        return {text: row for row, text in enumerate(self.table.names)}

    def _candidates(self, lists: Sequence[list[str]]) -> Ragged:
        numbers = self._numbers()
        return ragged([_rows(numbers, f"pairs[{i}][1]", one) for i, one in enumerate(lists)], -1)


def _rows(numbers: Mapping[str, int], name: str, texts: Sequence[str]) -> np.ndarray:
    """The rows of the table of texts; ValueError names one that is not there."""
    unknown = [text for text in texts if text not in numbers]
    if unknown:
        raise ValueError(
            f"{name} has {text_of(unknown[0])} ({len(unknown)} such), which is not in the "
            "table of outputs: name it in prepare_kernel(more=), so that L is known of it"
        )
    return np.array([numbers[text] for text in texts], np.int32)


def _split(pairs: Any) -> tuple[list, list[list[str]]]:
    """(inputs, candidates) of n pairs."""
    what = "a list of n pairs (input, its candidates)"
    pairs = as_list("pairs", pairs, what)
    for i, one in enumerate(pairs):
        if not isinstance(one, (tuple, list)) or len(one) != 2 or isinstance(one[1], str):
            raise ValueError(f"pairs must be {what}, got pairs[{i}] = {text_of(one)}")
    things, lists = ([one[place] for one in pairs] for place in (0, 1))
    return things, [as_list(f"pairs[{i}][1]", own, "texts") for i, own in enumerate(lists)]


def prepare_kernel(
    kernel: Partial,
    output_kernel: Partial,
    pairs: Any,
    right: Iterable[str],
    *,
    more: Iterable[str] = (),
    min_count: int = 1,
    **options: Any,
) -> Prepared:
    """A training set of candidates under J = K(x, x') L(y, y') (thesis 4.34-4.36).

        data = js.strings.prepare_kernel(kernel, output_kernel, pairs, right, loss="similarity")
        js.save(js.trained(data, js.fit(*data, C=10.0)), "model.npz")

    Model files hold both kernels, of those of `jaxstruct.kernels`, the training inputs and the
    table of outputs.

    Args:
      kernel: K of two inputs. output_kernel: L of two outputs.
      pairs: n pairs (input, its candidates). Inputs are texts for kernels on strings, else rows of
        features as of `multiclass.prepare`; candidates are texts.
      right: n texts, the right output of each.
      more: texts that are no candidate here and may be one of an input to predict.
      min_count: rows that must have a named feature for it to count.
      options: those of `kernel_candidates`; loss="similarity" is 1 - L.

    Raises:
      ValueError: an argument does not fit; the values of a kernel are of none
        (`kernels.check_positive_semidefinite`).
    """
    things, lists = _split(held(pairs))
    right = as_list("right", right, "a list of n texts")
    check_count("right", len(right), "pairs", len(things))
    texts = [text for own in lists for text in own] + right + as_list("more", more, "texts")
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong:
        raise ValueError(f"pairs, right and more: outputs must be texts, got {text_of(wrong[0])}")
    table = list(dict.fromkeys(texts))
    anchors = fit_anchors(kernel, things, min_count)
    encoding = KernelCandidateEncoding(anchors, fit_anchors(output_kernel, table))
    inputs = kernel_inputs(anchors.gram(), encoding._candidates(lists))
    return Prepared(encoding, inputs, encoding.outputs(right), options)
