"""`MeasureClassifier`: two classes, trained for a measure of the whole sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.multiclass import type_of_target

from jaxstruct.core.feature_encoding import inputs_of
from jaxstruct.core.labels import LabelCodec, check_known
from jaxstruct.core.prepared import held
from jaxstruct.core.ragged import ragged
from jaxstruct.core.types import PyTree
from jaxstruct.estimators import class_rows
from jaxstruct.estimators.base import Training, check_as_many, example_weights
from jaxstruct.rankings import sample_inputs
from jaxstruct.rankings.encoding import SampleEncoding, warn_of_texts
from jaxstruct.rankings.losses import Measure, chosen, table_loss


def _times(sample_weight: Any, n: int) -> np.ndarray:
    """[n] how many times each row counts; ValueError where weights say no such numbers."""
    weights = example_weights(sample_weight, n)
    if (weights == weights[0]).all():
        return np.ones(n, int)
    wrong = np.flatnonzero(weights != np.floor(weights))
    if wrong.size:
        raise ValueError(
            f"sample_weight[{wrong[0]}] is {weights[wrong[0]]:g}: expected whole numbers, a row "
            "counting so many times, since measures of a whole sample count examples"
        )
    return weights.astype(int)


class MeasureClassifier(class_rows.RowClassifier):
    """Two classes by <w, x> > 0, with w trained for F1, precision or recall of the whole sample.

        1/2 |w|^2 + C xi,    xi = max over labels y of the sample [Delta(y) - F(y_true) + F(y)]

    with F = 1/n sum_i y_i <w, x_i>: the training set is ONE example, of n labels (Joachims 2005).
    Of "error_rate" it is the binary SVM, C that of the mean hinge. X is as in
    `StructuralClassifier`; y holds n labels of two kinds, the second (sorted) is positive; of two
    texts a warning says which. A sample_weight is a whole number, how many times the row counts, or
    all are alike. There is no `partial_fit`.

    Parameters:
      C: > 0, of the slack. objective: a formulation of `jaxstruct.fit`; no "log_loss".
      loss: "f1", "error_rate", "precision_at", "recall_at", or a function (tp, fp, fn, tn) ->
        Delta, see `jaxstruct.rankings.sample_labels`.
      at: of the last two, how many examples are labelled positive, in training and by `predict`;
        None for as many as are positive in training.
      constant: value >= 0 of a feature of every row, which learns a threshold; 0 for none.
      tol, max_iter: as in `StructuralClassifier`.

    Attributes, beside those of `StructuralEstimator`:
      classes_: [2] the labels, sorted. n_features_in_: d.
      feature_names_in_: [d], of frames and of rows that name their features.
      coef_: [1, d]. intercept_: [1].
    """

    loss: str | Callable = "f1"
    at: int | None = None
    constant: float = 1.0

    def __sklearn_tags__(self) -> Tags:
        """Two classes."""
        tags: Any = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        features, rows, y = class_rows.read_labelled(self, X, y, self.constant)
        codes, times = np.unique(y, return_inverse=True)[1], _times(sample_weight, len(y))
        which, times = class_rows.distinct_examples(rows, codes, times)
        which = np.repeat(which, times.astype(int))  # in an order that is not that of the file
        rows, y = class_rows.taken(rows, which), y[which]
        self.classes_, positive = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}: y must hold two classes, got {len(self.classes_)} class"
            )
        warn_of_texts(self.classes_.tolist(), "fit(X, y == positive)")
        self.encoding_ = SampleEncoding(features, LabelCodec(tuple(self.classes_.tolist())))
        at = self.at
        if at is None and self.loss in ("precision_at", "recall_at"):
            at = int(positive.sum())
        self._set_problem(loss=self.loss, at=at)
        x = sample_inputs(inputs_of(rows, np.array([0, rows.count])))
        outputs = ragged([positive.astype(np.int32)], -1)
        return Training(self.problem_, x, outputs, np.ones(1), np.zeros(1, int))

    def _finish(self, weights: PyTree) -> None:
        self.weights_ = weights
        table = weights["weights"][:, None]
        self.coef_, self.intercept_ = class_rows.coefficients(self.encoding_.features, table)

    def decision_function(self, X: Any) -> np.ndarray:
        """[n] <w, x>."""
        return class_rows.score_of_each(self._new_rows(X), self.weights_["weights"])

    def predict(self, X: Any) -> np.ndarray:
        """[n] the class of the sign of <w, x>; of "precision_at" and "recall_at" the `at` rows of
        the largest ones are positive, so that rows depend on each other."""
        scores, at = self.decision_function(X), self.options_["at"]
        positive = scores > 0
        if at is not None:
            positive = np.argsort(np.argsort(-scores, kind="stable")) < at
        return self.classes_[positive.astype(int)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """1 - Delta of the whole sample: its F1, say.

        Of "precision_at" and "recall_at" rows of equal scores count by the mean over their orders,
        so that the order of the rows plays no part.

        Raises:
          ValueError: y holds other labels than training's, or a weight is no whole number.
        """
        y = held(y)
        scores, options = self.decision_function(X), self.options_
        check_known("y", np.ravel(np.asarray(y, object)).tolist(), self.classes_.tolist())
        check_as_many(len(scores), np.size(y), "rows", " labels")
        times = _times(sample_weight, len(scores))
        true = np.repeat(np.asarray(y) == self.classes_[1], times)
        scores, at = np.repeat(scores, times), options["at"]
        positive = (scores > 0).astype(float) if at is None else chosen(scores, at)
        tp, fp = (np.sort(positive[own]).sum() for own in (true, ~true))
        measure = Measure(options["loss"], at, "float32")
        return float(1 - table_loss(measure, tp, fp, true.sum(), len(true)))
