"""`DocumentRanker`: the documents of a query, the most relevant first."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from jaxstruct.core.checks import warn
from jaxstruct.core.feature_encoding import dense_or_sparse
from jaxstruct.core.prepared import held
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.estimators.base import ListEstimator, Training, check_as_many, example_weights
from jaxstruct.estimators.class_rows import score_of_each
from jaxstruct.rankings.encoding import prepare, read_filled, rows_of_groups
from jaxstruct.rankings.losses import Measure, mean_ranking_loss

MOST_SPREAD = 30
"""Times the median. 1,000 documents of 30 features, a sixth of them times s, C = 100: 21 rounds at
s = 1; after 300 rounds a relative gap of .001 at s = 10, .08 at 30, .7 at 100, .998 at 1,000."""


class DocumentRanker(ListEstimator):
    """Rankings of documents by their features, learned from graded queries.

    X is a list of n queries, each an array [k, d] of features of its documents, a SciPy matrix, a
    frame, or a list of mappings name -> number, bool or text. y is a list of n lists of relevances,
    integers >= 0. Or X and y are flat, a row a document of any query, and `groups` of `fit`,
    `predict`, `decision_function` and `score` names the query of each row, as the qid of LETOR
    files and of XGBoost; of LightGBM's sizes it is np.repeat(np.arange(len(sizes)), sizes). There
    is no `partial_fit`.

    Features should be scaled alike, by StandardScaler, say: `fit` warns where they are not, since
    training then takes many times as long.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being queries. objective: "svm1_margin",
        "svm1_slack" or "svm2_slack" of `jaxstruct.fit`; there is no "log_loss".
      loss: "ndcg", "average_precision" or "roc_area". at: places that count, of "ndcg" alone.
      min_count: documents that must have a named feature for it to count.
    """

    loss: str = "ndcg"
    at: int | None = None
    min_count: int = 1

    _read = staticmethod(prepare)

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        found = super()._prepare(X, y, sample_weight)
        _warn_of_scales(found.inputs)
        return found

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train on n queries; see the class and the base class.

        Args:
          sample_weight: [n] of the queries, with groups in the order in which they first come.
          groups: None, or of flat X and y the query of each row.
        """
        X, y, _ = _queries(X, y, groups)
        return super().fit(X, y, sample_weight)

    def decision_function(self, X: Any, groups: Any = None) -> Any:
        """Of each query [k] <w, x_i>, or with groups of each row; `predict` counts the documents
        of its query that each one stands before."""
        check_is_fitted(self)
        X, _, places = _queries(X, None, groups)
        rows, offsets = read_filled("X", X, "document")
        encoded = dense_or_sparse(self.encoding_.features, "X", rows)
        scores = score_of_each(encoded, self.weights_["weights"])
        return _as_given(np.split(scores, offsets[1:-1]), places)

    def predict(self, X: Any, groups: Any = None) -> Any:
        """Of each query [k] the number of documents that each one stands before, the best one
        before k - 1; with groups an array, of each row. Of equal scores the first stands first."""
        X, _, places = _queries(X, None, groups)
        return _as_given(super().predict(X), places)

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """The mean of 1 - Delta over the queries: mean NDCG (at `at`), MAP or mean ROC area.

        Documents of equal scores count by the mean over their orders, so that the order in which
        they are given plays no part (McSherry and Najork 2008). Where a query has no order to find,
        Delta is 0.
        """
        X, y, _ = _queries(held(X), held(y), groups)
        found, weights = self.decision_function(X), example_weights(sample_weight, len(y))
        if [*map(len, found)] != [*map(len, y)]:
            raise ValueError("y must have a relevance for each document of X, query by query")
        options = self.options_
        measure = Measure(options["loss"], options["at"], "float64")
        losses = [
            mean_ranking_loss(measure, np.asarray(own), scores)
            for own, scores in zip(y, found, strict=True)
        ]
        return float(1 - weights @ losses / weights.sum())


def _warn_of_scales(inputs: PyTree) -> None:
    """Warn where dense columns differ much in spread."""
    if isinstance(inputs.rows, SparseFeatures):
        return
    spread = inputs.rows.rows.std(axis=0, dtype=np.float64)
    spread = np.sort(spread[spread > 0])
    if spread.size and spread[-1] > MOST_SPREAD * spread[len(spread) // 2]:
        warn(
            f"X has features of different scales, with standard deviations {spread[0]:.2g} to "
            f"{spread[-1]:.2g}: training may take very long; scale them alike, "
            "make_pipeline(StandardScaler(), DocumentRanker()).fit(X, y, "
            "documentranker__groups=groups)"
        )


def _queries(X: Any, y: Any, groups: Any) -> tuple[Any, Any, list[np.ndarray] | None]:
    """(X, y) query by query, and the rows of each one where they came flat, with groups."""
    if groups is None:
        return X, y, None
    count = X.shape[0] if hasattr(X, "shape") else len(X)
    if y is not None:
        check_as_many(count, len(y), "rows", " relevances")
    places = rows_of_groups(groups, count)
    rows = [_safe_indexing(X, own) for own in places]
    return rows, None if y is None else [np.asarray(y)[own] for own in places], places


def _as_given(found: list, places: list[np.ndarray] | None) -> Any:
    """Of each query, or [rows] where rows came flat."""
    if places is None:
        return found
    flat = np.concatenate([np.asarray(own) for own in found])
    return flat[np.argsort(np.concatenate(places))]
