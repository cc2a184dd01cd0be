"""`DocumentRanker`: the documents of a query, the most relevant first."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from jaxstruct.core.feature_encoding import dense_or_sparse
from jaxstruct.core.feature_rows import read_sequences
from jaxstruct.estimators.base import ListEstimator, Training, example_weights
from jaxstruct.estimators.class_rows import scores_of
from jaxstruct.rankings import prepare


class DocumentRanker(ListEstimator):
    """Rankings of documents by their features, learned from graded queries.

    X is a list of n queries, each an array [k, d] of features of its documents, a SciPy matrix, a
    frame, or a list of mappings name -> number, bool or text. y is a list of n lists of relevances,
    integers >= 0. There is no `partial_fit`.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being queries. objective: "svm1_margin",
        "svm1_slack" or "svm2_slack" of `jaxstruct.fit`; there is no "log_loss".
      loss: "ndcg", "average_precision" or "roc_area". at: places that count, of "ndcg" alone.
      min_count: documents that must have a named feature for it to count.
    """

    def __init__(
        self,
        C: float = 100.0,
        *,
        objective: str = "svm1_margin",
        loss: str = "ndcg",
        at: int | None = None,
        min_count: int = 1,
        tol: float = 1e-3,
        max_iter: int = 500,
    ) -> None:
        """Keep the parameters; `fit` checks them."""
        self.C = C
        self.objective = objective
        self.loss = loss
        self.at = at
        self.min_count = min_count
        self.tol = tol
        self.max_iter = max_iter

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        data = prepare(X, y, loss=self.loss, at=self.at, min_count=self.min_count)
        return self._training(data, example_weights(sample_weight, len(y)))

    def decision_function(self, X: Any) -> list[np.ndarray]:
        """Of each query [k] <w, x_i>; `predict` counts the documents that each stands before."""
        check_is_fitted(self)
        rows, offsets = read_sequences("X", X)
        encoded = dense_or_sparse(self.encoding_.features, "X", rows)
        scores = scores_of(encoded, self.weights_["weights"][:, None])[:, 0]
        return np.split(scores, offsets[1:-1])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean of 1 - Delta over the queries: mean NDCG (at `at`), MAP or mean ROC area.

        Where a query has no order to find, Delta is 0.
        """
        found, weights = self.predict(X), example_weights(sample_weight, len(y))
        if [*map(len, found)] != [*map(len, y)]:
            raise ValueError("y must have a relevance for each document of X, query by query")
        every, longest = np.arange(len(found)), max(map(len, found))
        both = [self.encoding_.outputs(one).padded(every, longest) for one in (y, found)]
        losses = np.asarray(jax.vmap(self.problem_.model.loss)(*both), np.float64)
        return float(1 - weights @ losses / weights.sum())
