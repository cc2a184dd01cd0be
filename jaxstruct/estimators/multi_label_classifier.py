"""`MultiLabelClassifier`: any number of labels for each row, with weights of label pairs.

F(x, y; w) = sum_l <u_l, Phi(x)> [l in y] + sum_{k < l} t^{kl}_{y_k y_l}
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from jaxstruct.core.contract import Incomplete
from jaxstruct.core.feature_encoding import inputs_of
from jaxstruct.core.labels import LabelCodec
from jaxstruct.core.prepared import held
from jaxstruct.core.types import PyTree
from jaxstruct.estimators import class_rows
from jaxstruct.estimators.base import (
    Training,
    check_as_many,
    example_weights,
    is_log_linear,
    of_mean_one,
)
from jaxstruct.graphs.set_encoding import SetEncoding, indicators
from jaxstruct.solvers.predict import predict

_NUMBERS = 1 << 22
"""Scores of sets that are held at a time."""


class MultiLabelClassifier(class_rows.RowClassifier):
    """Sets of labels, trained together.

    X is as in `StructuralClassifier`, y an indicator matrix [n, L] of zeros and ones, dense or
    SciPy's (`sklearn.preprocessing.MultiLabelBinarizer` makes it of lists of labels). In `fit` None
    is an entry that is not known: `fit_latent` trains then, or the likelihood of what is known
    ("log_loss"). `score` is the share of sets that are right as a whole. There is no `partial_fit`.

    Parameters:
      C, constant, tol, max_iter: as in `StructuralClassifier`. objective: a formulation of
        `jaxstruct.fit`, or "log_loss" (14 labels at most).
      loss: "hamming", "normalised_hamming", "zero_one", "f1" or "ranking".
      pairs: whether pairs of labels have weights; without them labels are independent.

    Attributes, beside those of `StructuralEstimator`:
      classes_: [L], the columns of y. n_features_in_: d.
      feature_names_in_: [d], of frames and of rows that name their features.
      coef_: [L, d] of u. intercept_: [L]. pairs_: [L (L - 1) / 2, 2, 2] of t, or None.
    """

    loss: str = "hamming"
    pairs: bool = True
    constant: float = 1.0

    def __sklearn_tags__(self) -> Tags:
        """y is a matrix."""
        tags: Any = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        y = known = _training_indicators(y)
        if isinstance(known, Incomplete):
            y, known = known
        features, rows, _ = class_rows.read_training(self, X, y, self.constant, multi_output=True)
        check_as_many(rows.count, len(y), "rows")
        weights = example_weights(sample_weight, len(y))
        which, weights = class_rows.distinct_examples(rows, known, weights)
        outputs = y[which] if known is y else Incomplete(y[which], known[which])
        self.classes_ = np.arange(y.shape[1])
        self.encoding_ = SetEncoding(features, LabelCodec(tuple(self.classes_.tolist())))
        rows, options = class_rows.taken(rows, which), {"loss": self.loss, "pairs": self.pairs}
        problem, inputs = class_rows.training_of_class(self, rows, options)
        return Training(problem, inputs, outputs, of_mean_one(weights), which)

    def _finish(self, weights: PyTree) -> None:
        features = self.encoding_.features
        table = weights["labels"][: features.number_of_features]
        self.weights_ = weights | {"labels": table}
        self.pairs_ = weights.get("pairs")
        self.coef_, self.intercept_ = class_rows.coefficients(features, table)

    def predict(self, X: Any) -> np.ndarray:
        """[n, L] int, 1 for the labels of each set."""
        inputs = inputs_of(self._new_rows(X))
        return np.asarray(predict(self.problem_, self.weights_, inputs)).astype(int)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of sets that are right as a whole.

        Raises:
          ValueError: y holds no indicators of the labels of training.
        """
        check_is_fitted(self)
        X, y = held(X), _indicators(held(y))
        if y.shape[1] != len(self.classes_):
            raise ValueError(
                f"y has {y.shape[1]} columns, that of training {len(self.classes_)}: one a label, "
                "in the order of training (MultiLabelBinarizer(classes=...) keeps it)"
            )
        return super().score(X, y, sample_weight)

    def _label_scores(self, X: Any) -> np.ndarray:
        return class_rows.scores_of(self._new_rows(X), self.weights_["labels"])

    def decision_function(self, X: Any) -> np.ndarray:
        """[n, L] by how much F rises as a label comes in, the others being those predicted.

        It is positive for the labels that `predict` finds, where inference is exact.
        """
        scores = self._label_scores(X)
        if self.pairs_ is None:
            return scores
        found, pairs = self.predict(X), self.pairs_.astype(np.float64)
        ends = np.stack(np.triu_indices(found.shape[1], 1)).T
        for (first, second), t in zip(ends, pairs, strict=True):
            scores[:, first] += (t[1] - t[0])[found[:, second]]
            scores[:, second] += (t[:, 1] - t[:, 0])[found[:, first]]
        return scores

    @available_if(is_log_linear)
    def predict_proba(self, X: Any) -> np.ndarray:
        """[n, L] P(l in y | x), summed over all sets; of objective="log_loss" alone."""
        scores = self._label_scores(X)
        sets = (np.arange(1 << scores.shape[1])[:, None] >> np.arange(scores.shape[1])) & 1
        of_pairs = np.zeros(len(sets))
        if self.pairs_ is not None:
            firsts, seconds = np.triu_indices(scores.shape[1], 1)
            places = np.arange(len(firsts)), sets[:, firsts], sets[:, seconds]
            of_pairs = self.pairs_.astype(np.float64)[places].sum(axis=1)
        step = max(1, _NUMBERS // len(sets))
        parts = [scores[i : i + step] @ sets.T + of_pairs for i in range(0, len(scores), step)]
        return np.concatenate([softmax(part, axis=1) @ sets for part in parts])


def _training_indicators(y: Any) -> np.ndarray | Incomplete:
    """`_indicators`, or `Incomplete` where one is None."""
    if issparse(y) or np.dtype(getattr(y, "dtype", object)) != np.dtype(object):
        return _indicators(y)
    table = np.array(y, object)
    values = table.ravel().tolist()
    if table.ndim != 2 or None not in values:
        return _indicators(y)
    return indicators(values, table.shape[1])


def _indicators(y: Any) -> np.ndarray:
    """[n, L] int32 zeros and ones."""
    array = y.toarray() if issparse(y) else y
    if isinstance(array, (list, tuple)) and len({np.size(one) for one in array}) > 1:
        array = np.asarray(array, object)
    array = np.asarray(array)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise ValueError(
            f"y must be [n, L] zeros and ones, got {array.dtype} of shape {array.shape}: "
            "sklearn.preprocessing.MultiLabelBinarizer makes it of lists of labels"
        )
    return array.astype(np.int32)
