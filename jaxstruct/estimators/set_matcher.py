"""`SetMatcher`: one-to-one matchings of two sets of items."""

from __future__ import annotations

from typing import Any

from jaxstruct.assignments import prepare
from jaxstruct.core.prepared import held
from jaxstruct.estimators.base import (
    ListEstimator,
    check_as_many,
    example_weights,
    weighted_f1,
)


class SetMatcher(ListEstimator):
    """Matchings of two sets by features of their pairs, learned from matched examples.

    X is a list of n examples: arrays [r, c, d] of features of all pairs, lists of r lists of c
    rows, mappings (row, column) -> row of features of the pairs that may be matched, or tuples
    (one of these, rows, columns) with features of the items; see `jaxstruct.assignments.prepare`. y
    is a list of n lists of pairs (row, column), or of the other forms there: mappings row ->
    column, the column of each row, SciPy's two index arrays, indicators. An example whose pairs
    allow no complete matching gets None (`predict`). There is no `partial_fit`.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being examples. objective: a formulation of
        `jaxstruct.fit` but "svm2_margin"; there is no "log_loss".
      unmatched: whether any item may be matched to nothing, at a score that is learned; else all of
        the smaller set is matched.
      loss: "rows", "items", "normalised_rows" or "normalised_items".
      min_count: pairs (items) that must have a named feature for it to count.
    """

    unmatched: bool = False
    loss: str = "rows"
    min_count: int = 1

    _read = staticmethod(prepare)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """F1 of pairs: twice the right pairs by all that were found and all that are true.

        Of complete matchings it is the share of pairs that are right. The pairs of an example count
        `sample_weight` times; without any pair, found or true, it is 1.
        """
        X, y = held(X), held(y)
        found, weights = self.predict(X), example_weights(sample_weight, len(y))
        check_as_many(len(found), len(y))
        true = self.encoding_.decode(self.encoding_.outputs(y, X), X)
        made = [set(own or ()) for own in found]
        f1 = weighted_f1(made, [*map(set, true)], weights)
        return 1.0 if f1 is None else f1
