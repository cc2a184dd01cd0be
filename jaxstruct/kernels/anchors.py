"""A kernel with the training inputs that it is taken with, from data as people hold them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import as_list, check_record
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    dense_or_sparse,
    fit_features,
    inputs_of,
)
from jaxstruct.core.feature_rows import DenseRows, Rows, read_rows
from jaxstruct.core.types import Array, PyTree, SparseFeatures
from jaxstruct.kernels.gram import diagonal, gram_matrix
from jaxstruct.kernels.strings import Strings, encode_strings

_gram = jax.jit(gram_matrix, static_argnames="num_features")
_diagonal = jax.jit(diagonal)


class Anchors(NamedTuple):
    """K and the m points x_j of K(., x_j). Made by `fit_anchors`.

    Fields:
      kernel: as the functions of this package make it. leaves: the points: letters [m, T] and
        lengths of texts; indices and values [m, p] of sparse rows; one array [m, d] of dense rows.
      features: which feature is which column; None of texts. letters: of texts; "" of rows.
    """

    kernel: Partial
    leaves: tuple[np.ndarray, ...]
    features: FeatureEncoding | None
    letters: str

    def __len__(self) -> int:
        """The number m of points."""
        return len(self.leaves[0])

    @property
    def names(self) -> tuple[str, ...]:
        """The texts, or the numbers of the rows."""
        if self.features is not None:
            return tuple(f"training input {i}" for i in range(len(self)))
        pairs = zip(self.leaves[0].tolist(), self.leaves[1].tolist(), strict=True)
        return tuple("".join(self.letters[i] for i in row[:length]) for row, length in pairs)

    def gram(self) -> Array:
        """[m, m] K(x_i, x_j)."""
        return _gram(self.kernel, self._points(), num_features=self._columns())

    def values(self, things: Any, rows: Rows | None = None) -> tuple[Array, Array]:
        """([n, m] K(z_i, x_j), [n] K(z_i, z_i)) of n new things.

        Args:
          things: n texts or rows, as those of training. rows: of them, where they are read already.

        Raises:
          ValueError: they have other columns or letters than training's.
        """
        points = points_of(self.features, self.letters, things, rows)
        gram = _gram(self.kernel, points, self._points(), num_features=self._columns())
        return gram, _diagonal(self.kernel, points)

    def _points(self) -> PyTree:
        if self.features is None:
            return Strings(*self.leaves)
        return SparseFeatures(*self.leaves) if len(self.leaves) == 2 else self.leaves[0]

    def _columns(self) -> int | None:
        return None if self.features is None else self.features.number_of_features


def points_of(
    features: FeatureEncoding | None, letters: str, things: Any, rows: Rows | None = None
) -> PyTree:
    """Texts or rows as points of a kernel: `Strings`, an array [n, d] or `SparseFeatures`."""
    if features is None:
        return encode_strings(as_list("texts", things, "a list of n texts"), letters)
    read = dense_or_sparse(features, "rows", read_rows("rows", things) if rows is None else rows)
    if isinstance(read, DenseRows):
        return read.values
    return SparseFeatures(*(store.rows for store in inputs_of(read, np.array([0, read.count]))))


def fit_anchors(
    kernel: Partial, things: Any, min_count: int = 1, rows: Rows | None = None
) -> Anchors:
    """The anchors of a training set.

    Args:
      kernel: K, as the functions of this package make it; model files hold these.
      things: m texts, for kernels on strings; else m rows of features.
      min_count: rows that must have a named feature for it to count. rows: read already.

    Raises:
      ValueError: kernel is none, or things are no rows and no texts.
    """
    check_record("kernel", kernel, Partial, "jaxstruct.kernels")
    features, letters = None, ""
    texts = isinstance(things, (list, tuple)) and all(isinstance(one, str) for one in things)
    if texts and rows is None:
        letters = "".join(sorted({*"".join(things)}))
    else:
        rows = read_rows("things", things) if rows is None else rows
        features = fit_features(rows, min_count=min_count)
    points = points_of(features, letters, things, rows)
    leaves = (points,) if isinstance(points, np.ndarray) else tuple(map(np.asarray, points))
    return Anchors(kernel, leaves, features, letters)
