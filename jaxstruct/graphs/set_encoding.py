"""Things and their sets of labels as people hold them, as those of `multi_label`, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.checks import as_list
from jaxstruct.core.contract import Incomplete, Problem
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    dense_or_sparse,
    fit_features,
    inputs_of,
    one_matrix,
)
from jaxstruct.core.feature_rows import read_rows
from jaxstruct.core.labels import (
    LabelCodec,
    encode_lists,
    encode_open,
    fit_codec,
    flat_labels,
    placed_errors,
)
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.tables import MOST_COLUMNS, Table, pairs_table, rankings_by_label
from jaxstruct.core.types import PyTree
from jaxstruct.graphs.multi_label import multi_label

MOST_ENUMERATED = 14
"""Labels of which all 2^L sets are enumerated unless the options say otherwise."""


class SetEncoding(NamedTuple):
    """What the columns of inputs and the numbers of labels mean. Made by `prepare_sets`.

        data = prepare_sets(rows, labels)
        solution = fit(*data, C=10.0)
        new = data.encoding.inputs(new_rows)
        predicted = data.encoding.decode(predict(data.problem, solution, new))

    Fields:
      features: which feature is which column. codec: which label is which number.
    """

    features: FeatureEncoding
    codec: LabelCodec
    structure = "multi_label"

    def problem(self, **options: Any) -> Problem:
        """`multi_label` of these features and labels; options are those of `multi_label`.

        Of more than 14 labels inference is "reweighted", with a bound that the certificate counts,
        unless the options say otherwise.
        """
        L = len(self.codec.classes)
        if L > MOST_ENUMERATED:
            options = {"inference": "reweighted", **options}
        return multi_label(self.features.number_of_features, L, **options)

    def inputs(self, rows: Any) -> PyTree:
        """The inputs of n things: an array [n, d], or `SparseFeatures` of ragged stores.

        Args:
          rows: n rows, of the kind of training.

        Raises:
          ValueError: they are none, or have other columns.
        """
        read = read_rows("rows", rows)
        return inputs_of(dense_or_sparse(self.features, "rows", read))

    def outputs(
        self, labels: Sequence[Iterable[Hashable] | Mapping[Hashable, Any] | None]
    ) -> np.ndarray | Incomplete:
        """[n, L] int32, 1 for the labels of each set; they may be empty.

        Raises:
          ValueError: a label is none of training's, or a text stands where a set should.
        """
        found = encode_lists(self.codec, _sets(labels))
        classes = self.codec.classes
        partly = [one is None or isinstance(one, Mapping) for one in labels]
        if any(partly):
            known: list[Any] = [
                (one or {}) if part else dict.fromkeys(classes, 0) | dict.fromkeys(one or (), 1)
                for one, part in zip(labels, partly, strict=True)
            ]
            return indicators([one.get(label) for one in known for label in classes], len(classes))
        sets = np.zeros((len(found), len(self.codec.classes)), np.int32)
        sets[np.repeat(np.arange(len(found)), found.lengths), found.rows] = 1
        return sets

    def decode(self, outputs: np.ndarray, rows: Any = None) -> list[set[Hashable]]:
        """The sets of n outputs [n, L], such as `predict` returns them; rows are not needed."""
        del rows
        outputs = np.asarray(outputs)
        if outputs.ndim != 2 or outputs.shape[1] != len(self.codec.classes):
            raise ValueError(
                f"outputs must be [n, L = {len(self.codec.classes)}], got shape {outputs.shape}"
            )
        classes = self.codec.classes
        return [{classes[number] for number in np.flatnonzero(row > 0)} for row in outputs]

    def together(self, records: list) -> Any:
        """Some records of a stream as `inputs` takes them."""
        return one_matrix(records)

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The features of each label, and of each pair t_11 + t_00 - t_01 - t_10."""
        del options
        labels = self.codec.texts
        found = rankings_by_label(self.features.names, labels, weights["labels"], largest)
        if "pairs" in weights:
            first, second = np.triu_indices(len(labels), 1)
            t = weights["pairs"]
            values = np.zeros((len(labels),) * 2)
            values[first, second] = t[:, 1, 1] + t[:, 0, 0] - t[:, 0, 1] - t[:, 1, 0]
            if len(labels) <= MOST_COLUMNS:  # of a ranking each pair once
                values += values.T
            found.append(pairs_table("pairs of labels", labels, values, largest, " + "))
        return found


def _sets(labels: Any) -> list[list]:
    """The labels of each set, as lists."""
    expected = "a list of n sets of labels"
    listed = as_list("labels", labels, expected)
    listed = [[*(one or ())] if one is None or isinstance(one, Mapping) else one for one in listed]
    return [as_list(f"labels[{i}]", one, "a set of labels") for i, one in enumerate(listed)]


def indicators(values: Sequence[Any], labels: int) -> np.ndarray | Incomplete:
    """[n, L] int32 of n L values, 0, 1 or None where it is not known, one row after the other.

    Args:
      labels: L.

    Returns:
      `Incomplete`, known [n, L, 2] bool, where one is not known.

    Raises:
      ValueError: a value is none of these.
    """
    with placed_errors(np.arange(0, len(values) + 1, labels)):
        found = encode_open(LabelCodec((0, 1)), values)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, labels, *leaf.shape[1:]), found)


def prepare_sets(
    rows: Any,
    labels: Sequence[Iterable[Hashable] | Mapping[Hashable, Any] | None],
    *,
    classes: Iterable[Hashable] | None = None,
    min_count: int = 1,
    constant: float = 1.0,
    **options: Any,
) -> Prepared:
    """A training set of sets of labels: `js.fit(*prepare_sets(rows, labels), C=10.0)`.

    Args:
      rows: n rows of features: lists of names, mappings name -> number, bool or text, an array
        [n, d], a SciPy matrix or a pandas frame.
      labels: n sets (or lists) of labels of any hashable kind; a set may be empty. Of a row of
        which a part is known a mapping label -> True, False or None, where what it does not name
        is not known, or None for nothing: the outputs are then `Incomplete`, for
        `jaxstruct.fit_latent` and `baselines.fit_random_field`.
      classes: all labels in the wanted order; None for those of `labels`, sorted if they can be.
      min_count: rows that must have a named feature for it to count.
      constant: value of a feature that every row has, which learns a constant for each label; 0 for
        none.
      options: those of `multi_label`.

    Raises:
      ValueError: rows, labels or an option do not fit.
    """
    rows, labels = held(rows), held(labels)
    read = read_rows("rows", rows)
    sets = _sets(labels)
    if len(sets) != read.count:
        raise ValueError(f"labels must be of n = {read.count} rows, got {len(sets)} sets")
    flat, offsets = flat_labels(sets)
    with placed_errors(offsets):
        codec = fit_codec(flat, classes)
    encoding = SetEncoding(fit_features(read, min_count=min_count, constant=constant), codec)
    return prepared(encoding, rows, encoding.outputs(labels), options)
