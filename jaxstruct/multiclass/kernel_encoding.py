"""Things or texts and their classes as people hold them, as those of `kernel_multiclass`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jax.tree_util import Partial

from jaxstruct.core import labels as codecs
from jaxstruct.core.checks import as_list, check_record
from jaxstruct.core.contract import Problem
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    dense_or_sparse,
    fit_features,
)
from jaxstruct.core.feature_rows import DenseRows, read_rows
from jaxstruct.core.labels import LabelCodec, fit_codec
from jaxstruct.core.prepared import Prepared, held
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.tables import Table, rankings_by_label
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.kernels import Strings, encode_strings, gram_matrix
from jaxstruct.kernels.gram import diagonal
from jaxstruct.multiclass.structure import KernelInput, kernel_inputs, kernel_multiclass


class KernelClassEncoding(NamedTuple):
    """A kernel, the training inputs that it is taken with, and the classes. Made by
    `prepare_kernel`.

    Fields:
      kernel: K, as `jaxstruct.kernels` makes it. anchors: the m training inputs as two arrays,
        letters and lengths of texts, indices and values of sparse rows; as one of dense rows.
      features: which feature is which column; None of texts. letters: of texts; "" of rows.
      codec: which label is which class.
    """

    kernel: Partial
    anchors: tuple[np.ndarray, ...]
    features: FeatureEncoding | None
    letters: str
    codec: LabelCodec
    structure = "kernel_multiclass"

    def problem(self, **options: Any) -> Problem:
        """`kernel_multiclass` of these anchors and classes; options are those of it."""
        return kernel_multiclass(len(self.anchors[0]), len(self.codec.classes), **options)

    def inputs(self, things: Any) -> KernelInput:
        """K of n things and the m anchors [n, m]: rows or texts, of the kind of training.

        Raises:
          ValueError: they are none, or have other columns or letters.
        """
        points = _points(self.features, self.letters, things)
        gram = gram_matrix(self.kernel, points, self._anchors(), num_features=self._columns())
        return kernel_inputs(gram, self_kernel=diagonal(self.kernel, points))

    def inputs_of_training(self) -> KernelInput:
        """Those of the anchors themselves."""
        anchors = self._anchors()
        return kernel_inputs(gram_matrix(self.kernel, anchors, num_features=self._columns()))

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
        names = tuple(f"training input {i}" for i in range(len(self.anchors[0])))
        if self.features is None:
            lengths = self.anchors[1].tolist()
            rows = zip(self.anchors[0].tolist(), lengths, strict=True)
            names = tuple("".join(self.letters[i] for i in row[:length]) for row, length in rows)
        return rankings_by_label(names, self.codec.texts, weights["coefficients"], largest)

    def _anchors(self) -> PyTree:
        if self.features is None:
            return Strings(*self.anchors)
        return SparseFeatures(*self.anchors) if len(self.anchors) == 2 else self.anchors[0]

    def _columns(self) -> int | None:
        return None if self.features is None else self.features.number_of_features


def _points(features: FeatureEncoding | None, letters: str, things: Any) -> PyTree:
    """Things as points of a kernel: `Strings`, an array [n, d] or `SparseFeatures` [n, m]."""
    if features is None:
        return encode_strings(as_list("texts", things, "a list of n texts"), letters)
    rows = dense_or_sparse(features, "rows", read_rows("rows", things))
    if isinstance(rows, DenseRows):
        return rows.values
    d, every = rows.number_of_features, np.arange(rows.count)
    stores = Ragged(rows.indices, rows.offsets, d), Ragged(rows.values, rows.offsets)
    width = max(1, int(stores[0].lengths.max(initial=1)))
    return SparseFeatures(*(store.padded(every, width) for store in stores))


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
    check_record("kernel", kernel, Partial, "jaxstruct.kernels")
    things = held(things)
    labels = as_list("labels", labels, "a list of n labels")
    features, letters = None, ""
    if isinstance(things, (list, tuple)) and all(isinstance(one, str) for one in things):
        count, letters = len(things), "".join(sorted({*"".join(things)}))
    else:
        read = read_rows("things", things)
        count, features = read.count, fit_features(read, min_count=min_count)
    if len(labels) != count:
        raise ValueError(f"labels must be n = {count}, one a thing, got {len(labels)}")
    codec = fit_codec(labels, classes)
    if len(codec.classes) < 2:
        raise ValueError(f"labels must name at least two classes, got {codec.classes} alone")
    points = _points(features, letters, things)
    anchors = (points,) if isinstance(points, np.ndarray) else tuple(map(np.asarray, points))
    encoding = KernelClassEncoding(kernel, anchors, features, letters, codec)
    inputs = encoding.inputs_of_training()
    return Prepared(encoding, inputs, encoding.outputs(labels), options)
