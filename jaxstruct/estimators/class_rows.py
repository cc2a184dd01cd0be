"""Rows of features as the estimators of classes and of label sets take them.

Numbers go through scikit-learn's own validation; named rows, which it does not know, through
that of `core.feature_rows`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from jaxstruct.core.contract import Problem
from jaxstruct.core.feature_encoding import (
    FeatureEncoding,
    dense_or_sparse,
    fit_features,
    inputs_of,
)
from jaxstruct.core.feature_rows import DenseRows, Rows, SparseRows, column_names, read_rows
from jaxstruct.core.labels import check_one_kind
from jaxstruct.core.prepared import held
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.sizes import size_class
from jaxstruct.core.types import PyTree
from jaxstruct.estimators.base import StructuralEstimator, check_as_many

FEWEST = 64
"""Examples of a training set, those of weight 0 included."""
_NUMBERS = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


def are_named(X: Any) -> bool:
    """Whether rows name their features: lists of names, or mappings; or a frame with texts."""
    if hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X, "columns"):
        return any(getattr(dtype, "kind", "O") not in "biuf" for dtype in X.dtypes)
    if not isinstance(X, (list, tuple)) or not X:
        return False
    first = next((row for row in X if not hasattr(row, "__len__") or len(row)), X[0])
    if isinstance(first, Mapping):
        return True
    return isinstance(first, (list, tuple, Set)) and all(isinstance(one, str) for one in first)


class RowClassifier(ClassifierMixin, StructuralEstimator):
    """A classifier of rows of features, dense, sparse or named."""

    def __sklearn_tags__(self) -> Tags:
        """Sparse rows are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _new_rows(self, X: Any) -> DenseRows | SparseRows:
        """Encoded rows to predict of; ValueError where they have other columns than training's."""
        check_is_fitted(self)
        X, features = held(X), self.encoding_.features
        if features.kind == "named":
            return dense_or_sparse(features, "X", read_rows("X", X))
        rows = read_rows("X", validate_data(self, X, reset=False, **_NUMBERS))
        kind = "dense" if isinstance(rows, DenseRows) else "sparse"
        return dense_or_sparse(features._replace(kind=kind), "X", rows)


def read_labelled(
    estimator: BaseEstimator, X: Any, y: Any, constant: float
) -> tuple[FeatureEncoding, DenseRows | SparseRows, np.ndarray]:
    """(columns, encoded rows, labels [n]) of a training set; see `read_training`."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
    check_one_kind("y", np.ravel(np.asarray(y, object)).tolist())
    features, rows, y = read_training(estimator, X, y, constant)
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    check_as_many(rows.count, len(y), "rows", " labels")
    return features, rows, y


def coefficients(features: FeatureEncoding, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(coef [k, d], intercept [k]) of weights [d (+ 1 of the constant), k]."""
    constant = features.constant
    intercept = table[-1] * constant if constant else np.zeros(table.shape[1])
    return np.ascontiguousarray(table[: features.columns].T), intercept


def read_training(
    estimator: BaseEstimator, X: Any, y: Any, constant: float, *, multi_output: bool = False
) -> tuple[FeatureEncoding, DenseRows | SparseRows, Any]:
    """(columns, encoded rows, y) of a training set; sets `n_features_in_`, `feature_names_in_`.

    Args:
      constant: value of the feature that every row has. multi_output: whether y is [n, L].

    Raises:
      ValueError: X or y does not fit.
    """
    if are_named(X):
        rows: Rows = read_rows("X", X)
        features = fit_features(rows, constant=constant)
        set_features(estimator, features)
    else:
        X, y = validate_data(
            estimator, X, y, multi_output=multi_output, y_numeric=False, **_NUMBERS
        )
        rows = read_rows("X", X)
        names = getattr(estimator, "feature_names_in_", None)
        if isinstance(rows, DenseRows) and names is not None:
            rows = rows._replace(names=column_names("X", names))
        features = fit_features(rows, constant=constant)
    return features, dense_or_sparse(features, "X", rows), y


def set_features(estimator: Any, features: FeatureEncoding) -> None:
    """Set `n_features_in_`, and `feature_names_in_` where columns have names."""
    estimator.n_features_in_ = features.columns
    if features.index is not None:
        estimator.feature_names_in_ = np.array(features.index.names, dtype=object)


def scores_of(rows: DenseRows | SparseRows, weights: np.ndarray) -> np.ndarray:
    """[n, k] rows times weights [d, k], in float64."""
    weights = weights.astype(np.float64)
    if isinstance(rows, DenseRows):
        return rows.values @ weights
    from scipy.sparse import csr_array  # what scikit-learn needs, too

    entries = rows.values.astype(np.float64), rows.indices, rows.offsets
    return csr_array(entries, (rows.count, rows.number_of_features)) @ weights


def score_of_each(rows: DenseRows | SparseRows, weights: np.ndarray) -> np.ndarray:
    """[n] rows times weights [d], in float64, each row by itself: equal rows have equal scores.

    BLAS adds up a row in an order that depends on its place, which breaks ties by rounding.
    """
    if isinstance(rows, SparseRows):
        return scores_of(rows, weights[:, None])[:, 0]
    values = np.ascontiguousarray(rows.values, np.float64)
    return np.einsum("ij,j->i", values, weights.astype(np.float64))


def training_of_class(
    estimator: StructuralEstimator, rows: DenseRows | SparseRows, options: dict[str, Any],
    offsets: np.ndarray | None = None,
) -> tuple[Problem, PyTree]:  # fmt: skip
    """Set the problem of the encoding; (problem, inputs) of a training, of more columns than these.

    A vocabulary differs from fold to fold; one of the same size class finds the programs compiled.
    Dense columns, which padding would make dearer, are rounded up to sixteens. A weight of a column
    that no example has is 0.

    Args:
      rows: encoded. options: of the problem. offsets: [n + 1] where rows are the tokens of n
        sequences.
    """
    estimator._set_problem(**options)
    features = estimator.encoding_.features
    d = features.number_of_features
    columns = -(-d // 16) * 16 if features.kind == "dense" else size_class(d, 16)
    wider = features._replace(columns=columns - (features.constant != 0))
    problem = estimator.encoding_._replace(features=wider).problem(**options)
    if isinstance(rows, SparseRows):
        return problem, inputs_of(rows._replace(number_of_features=columns), offsets)
    return problem, inputs_of(DenseRows(np.pad(rows.values, ((0, 0), (0, columns - d)))), offsets)


def taken(rows: DenseRows | SparseRows, which: np.ndarray) -> DenseRows | SparseRows:
    """The rows `which`, in that order."""
    if isinstance(rows, DenseRows):
        return DenseRows(rows.values[which])
    parts = rows.indices, rows.values
    indices, values = (Ragged(part, rows.offsets).take(which) for part in parts)
    return rows._replace(indices=indices.rows, values=values.rows, offsets=indices.offsets)


def distinct_examples(
    rows: DenseRows | SparseRows, outputs: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The examples that differ, in an order of their own, and their summed weights.

    Examples of weight 0 are left out and equal ones are made one. So a weight of 2 is, bit by bit,
    the same as the example twice, and the order of the training set plays no part.

    Args:
      outputs: [n, ...] integers. weights: [n] >= 0.

    Returns:
      (which, summed): positions [m] of examples, the first of equal ones, and [m] weights > 0. Of
      few examples there follow some of weight 0, so that all small sets share their programs.
    """
    kept = np.flatnonzero(weights > 0)
    keys = np.frombuffer(b"".join(_digest(rows, outputs, i) for i in kept.tolist()), dtype=">u8")
    keys = keys.reshape(-1, 2)
    order = np.lexsort((kept, keys[:, 1], keys[:, 0]))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(keys[order].view(np.int64), axis=0) != 0).any(axis=1)
    first = kept[order[new]]
    summed = np.bincount(np.cumsum(new) - 1, weights[kept[order]])
    more = max(0, FEWEST - len(first))
    return np.append(first, np.repeat(first[:1], more)), np.append(summed, np.zeros(more))


def _digest(rows: DenseRows | SparseRows, outputs: np.ndarray, i: int) -> bytes:
    """16 bytes that stand for one example."""
    digest = hashlib.blake2b(outputs[i].tobytes(), digest_size=16)
    if isinstance(rows, DenseRows):
        digest.update(np.ascontiguousarray(rows.values[i]).tobytes())
    else:
        own = slice(rows.offsets[i], rows.offsets[i + 1])
        digest.update(rows.indices[own].tobytes())
        digest.update(rows.values[own].tobytes())
    return digest.digest()
