"""Things and their classes as people hold them, as inputs and outputs of `multiclass`, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import Partial

from jaxstruct.core import labels as codecs
from jaxstruct.core.checks import as_list
from jaxstruct.core.contract import Incomplete, Problem
from jaxstruct.core.feature_encoding import (
    SPARSE_COLUMNS,
    FeatureEncoding,
    dense_or_sparse,
    fit_features,
    inputs_of,
    one_matrix,
    sparse_from,
)
from jaxstruct.core.feature_rows import read_rows
from jaxstruct.core.labels import LabelCodec, fit_codec
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.tables import Table, rankings_by_label
from jaxstruct.core.types import PyTree
from jaxstruct.kernels.anchors import Anchors, fit_anchors
from jaxstruct.multiclass.structure import KernelInput, kernel_inputs, kernel_multiclass, multiclass


class ClassEncoding(NamedTuple):
    """What the columns of inputs and the numbers of classes mean. Made by `prepare`.

        data = prepare(rows, labels)
        solution = fit(*data, C=10.0)
        new = data.encoding.inputs(new_rows)
        predicted = data.encoding.decode(predict(data.problem, solution, new))

    Fields:
      features: which feature is which column. codec: which label is which class.
    """

    features: FeatureEncoding
    codec: LabelCodec
    structure = "multiclass"
    columns = SPARSE_COLUMNS

    def problem(self, **options: Any) -> Problem:
        """`multiclass` of these features and classes; options are those of `multiclass`."""
        sizes = self.features.number_of_features, len(self.codec.classes)
        return multiclass(*sizes, **options)

    def inputs(self, rows: Any) -> PyTree:
        """The inputs of n things: an array [n, d], or `SparseFeatures` of ragged stores.

        Args:
          rows: n rows, of the kind of training.

        Raises:
          ValueError: they are none, or have other columns.
        """
        read = read_rows("rows", rows)
        return inputs_of(dense_or_sparse(self.features, "rows", read))

    def outputs(self, labels: Sequence[Hashable]) -> np.ndarray | Incomplete:
        """[n] int32 classes; ValueError names a label that training did not have."""
        return codecs.encode_open(self.codec, labels)

    def decode(self, outputs: np.ndarray, rows: Any = None) -> list[Hashable]:
        """The labels of n classes, such as `predict` returns them; rows are not needed."""
        del rows
        return codecs.decode(self.codec, outputs)

    def together(self, records: list) -> Any:
        """Some records of a stream as `inputs` takes them."""
        return one_matrix(records)

    def from_store(self, arrays: Mapping[str, np.ndarray]) -> tuple[PyTree, np.ndarray]:
        """(inputs, outputs) of these columns."""
        return sparse_from(arrays, self.features.number_of_features), arrays["labels"]

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The features of each class; with output features W Lambda'."""
        w, output_features = weights["weights"], options.get("output_features")
        w = w if output_features is None else w @ np.asarray(output_features).T
        return rankings_by_label(self.features.names, self.codec.texts, w, largest)


def prepare(
    rows: Any,
    labels: Iterable[Hashable],
    *,
    classes: Iterable[Hashable] | None = None,
    min_count: int = 1,
    constant: float = 1.0,
    **options: Any,
) -> Prepared:
    """A training set of classes: `js.fit(*prepare(rows, labels), C=10.0)`.

    Args:
      rows: n rows of features: lists of names, mappings name -> number, bool or text, an array
        [n, d], a SciPy matrix or a pandas frame.
      labels: n labels of any hashable kind; None for one that is not known, or a set of those that
        it may be: the outputs are then `Incomplete`, for `jaxstruct.fit_latent` and
        `baselines.fit_random_field`.
      classes: all classes in the wanted order; None for those of `labels`, sorted if they can be.
      min_count: rows that must have a named feature for it to count.
      constant: value of a feature that every row has, which learns a constant for each class
        (regularised as every weight); 0 for none.
      options: those of `multiclass`.

    Raises:
      ValueError: rows, labels or an option do not fit; there is one class only.
    """
    rows = held(rows)
    read = read_rows("rows", rows)
    labels = as_list("labels", labels, f"a list of n = {read.count} labels, one a row")
    if len(labels) != read.count:
        raise ValueError(f"labels must be n = {read.count}, one a row, got {len(labels)}")
    codec = codecs.fit_open_codec(labels, classes)
    if len(codec.classes) < 2:
        raise ValueError(f"labels must name at least two classes, got {codec.classes} alone")
    encoding = ClassEncoding(fit_features(read, min_count=min_count, constant=constant), codec)
    return prepared(encoding, rows, encoding.outputs(labels), options)


class KernelClassEncoding(NamedTuple):
    """The kernel with its anchors, and the classes. Made by `prepare_kernel`.

    Fields:
      anchors: the training inputs. codec: which label is which class.
    """

    anchors: Anchors
    codec: LabelCodec
    structure = "kernel_multiclass"

    def problem(self, **options: Any) -> Problem:
        """`kernel_multiclass` of these anchors and classes; options are those of it."""
        return kernel_multiclass(len(self.anchors), len(self.codec.classes), **options)

    def inputs(self, things: Any) -> KernelInput:
        """K of n things and the m anchors [n, m]: rows or texts, of the kind of training.

        Raises:
          ValueError: they are none, or have other columns or letters.
        """
        gram, own = self.anchors.values(things)
        return kernel_inputs(gram, self_kernel=own)

    def outputs(self, labels: Iterable[Hashable]) -> np.ndarray:
        """[n] int32 classes; ValueError names a label that training did not have."""
        return codecs.encode(self.codec, labels)

    def decode(self, outputs: np.ndarray, things: Any = None) -> list[Hashable]:
        """The labels of n classes, such as `predict` returns them; things are not needed."""
        del things
        return codecs.decode(self.codec, outputs)

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The anchors of the largest coefficients of each class."""
        del options
        w = weights["coefficients"]
        return rankings_by_label(self.anchors.names, self.codec.texts, w, largest)


def prepare_kernel(
    kernel: Partial,
    things: Any,
    labels: Iterable[Hashable],
    *,
    classes: Iterable[Hashable] | None = None,
    min_count: int = 1,
    **options: Any,
) -> Prepared:
    """A training set of a machine with a kernel: `js.fit(*prepare_kernel(kernel, things, labels))`.

    Model files hold the kernels of `jaxstruct.kernels` with their parameters and the training
    inputs.

    Args:
      kernel: K, as `jaxstruct.kernels` makes it.
      things: n texts for kernels on strings; else n rows of features, as of `prepare`.
      labels: n labels of any hashable kind.
      classes: all classes in the wanted order; None for those of `labels`, sorted if they can be.
      min_count: rows that must have a named feature for it to count.
      options: those of `kernel_multiclass`.

    Raises:
      ValueError: an argument does not fit; there is one class only; the values are none of a
        kernel (`kernels.check_positive_semidefinite`).
    """
    things = held(things)
    anchors = fit_anchors(kernel, things, min_count)
    labels = as_list("labels", labels, "a list of n labels")
    if len(labels) != len(anchors):
        raise ValueError(f"labels must be n = {len(anchors)}, one a thing, got {len(labels)}")
    codec = fit_codec(labels, classes)
    if len(codec.classes) < 2:
        raise ValueError(f"labels must name at least two classes, got {codec.classes} alone")
    encoding = KernelClassEncoding(anchors, codec)
    return Prepared(encoding, kernel_inputs(anchors.gram()), encoding.outputs(labels), options)
