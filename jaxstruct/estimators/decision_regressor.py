"""`DecisionRegressor`: costs predicted so that decisions by them are good."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jaxstruct.core.feature_encoding import dense_or_sparse
from jaxstruct.core.feature_rows import read_rows
from jaxstruct.core.spec import array
from jaxstruct.decisions import Decisions, decide, prepare
from jaxstruct.decisions.sets import regret_of
from jaxstruct.decisions.structure import with_instances
from jaxstruct.estimators.base import ListEstimator, example_weights
from jaxstruct.estimators.class_rows import scores_of


class DecisionRegressor(ListEstimator):
    """Decisions by linear predictions of their costs, trained by SPO+ to a certified optimum.

    X are n rows of features: an array [n, p], a SciPy matrix, a frame, lists of names or mappings
    name -> number, bool or text; where examples differ in more, such as the ends of paths,
    `jaxstruct.decisions.DecisionInput(rows, instances)`. y is an array [n, d] of true costs.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`. objective: "svm1_margin", SPO+; there is no
        "log_loss".
      decisions: the set, such as `jaxstruct.decisions.grid_paths(5, 5)`.
      min_count: rows that must have a named feature for it to count. constant: value of a feature
        that every row has; 0 for none.
    """

    decisions: Decisions | None = None
    min_count: int = 1
    constant: float = 1.0

    _read = staticmethod(prepare)

    def predict(self, X: Any) -> np.ndarray:
        """[n, d] the best decisions under predicted costs; one that has none is a ValueError."""
        return np.stack(self.model_.predict(X, no_output="raise"))

    def predict_costs(self, X: Any) -> np.ndarray:
        """[n, d] the predicted costs."""
        check_is_fitted(self)
        rows = read_rows("X", with_instances(X).features)
        encoded = dense_or_sparse(self.encoding_.features, "X", rows)
        return scores_of(encoded, self.weights_["weights"])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the normalised regret, `jaxstruct.decisions.regret`; examples count v_i times."""
        check_is_fitted(self)
        data, found = with_instances(X), self.predict(X)
        weights = example_weights(sample_weight, len(found))
        costs = array("y", y, "n d", "numbers", {"n": len(found), "d": found.shape[1]})
        decisions = self.encoding_.decisions
        best = decide(decisions, costs, data.instance)
        return -regret_of(decisions, found, best, weights[:, None] * costs)
