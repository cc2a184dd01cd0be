"""`PathSearchCV`: the C of any estimator by cross-validation, each fold along one path of C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from jaxstruct.core.checks import as_numbers, collected, kind_and_text_of, warn
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.prepared import held
from jaxstruct.estimators.base import StructuralEstimator, WithParameters
from jaxstruct.estimators.document_ranker import DocumentRanker
from jaxstruct.models.trained import TrainedModel
from jaxstruct.rankings.encoding import rows_of_groups


def _best_has(name: str) -> Any:
    """Whether the estimator that was found, or the one given, has a method."""

    def check(self: PathSearchCV) -> bool:
        getattr(getattr(self, "best_estimator_", self.estimator), name)
        return True

    return available_if(check)


class PathSearchCV(MetaEstimatorMixin, WithParameters):
    """Chooses C as `GridSearchCV` does, with one training a fold that is carried along the values.

    In each fold the steps before the estimator are fitted once, and each C starts from the solution
    of the C below it; `GridSearchCV` fits every step of a pipeline for every C anew. The scores are
    the same up to `tol`.

    Parameters:
      estimator: one of `jaxstruct.estimators`, or a pipeline that ends in one.
      Cs: the values, of the mean slack (see the estimator), in any order.
      cv, scoring: as in `GridSearchCV`; scoring None for the estimator's own `score`.
      refit: whether to train on all examples with the best C, of equal ones the smallest.

    Attributes:
      C_: the best value. Cs_: [m] the values, rising.
      scores_: [folds, m] of the examples held out. mean_scores_: [m], over the folds.
      best_score_: the mean at C_. best_estimator_: trained on all examples, if refit.
      classes_, n_features_in_, model_: of best_estimator_.
    """

    estimator: Any = field(kw_only=False)
    Cs: Sequence[float] = field(default=(1.0, 10.0, 100.0, 1000.0), kw_only=False)
    cv: Any = None
    scoring: Any = None
    refit: bool = True

    def __sklearn_tags__(self) -> Tags:
        """Those of the estimator, but for its own checks of X."""
        tags = super().__sklearn_tags__()
        of_best = self.estimator.__sklearn_tags__()
        tags.estimator_type = of_best.estimator_type
        tags.classifier_tags = of_best.classifier_tags
        tags.input_tags, tags.target_tags = of_best.input_tags, of_best.target_tags
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Score every C on every fold, and train with the best.

        Args:
          X, y, sample_weight: of the estimator; examples held out are scored with their weights
            where `scoring` is None.
          groups: of flat X and y of a `DocumentRanker` the query of each row; folds are of whole
            queries, and `scoring` is None.

        Raises:
          ValueError: an argument does not fit; the message names it.
        """
        _last(self.estimator)
        X, y = held(X), held(y)
        self.Cs_ = _rising(self.Cs)
        scorer = None if self.scoring is None else check_scoring(self.estimator, self.scoring)
        folds: Any = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        queries = None if groups is None else self._checked_groups(groups, len(y))
        if queries is not None:
            parts = folds.split(np.empty((len(queries), 1)))
        else:
            parts = folds.split(X if hasattr(X, "shape") else np.empty((len(y), 1)), y)
        scores = (
            self._scores(X, y, sample_weight, own, held_out, scorer, queries)
            for own, held_out in parts
        )
        with collected(ConvergenceWarning) as unsolved:
            with collected(UnseenFeatures) as unseen:
                self.scores_ = np.array([*scores])
            self.mean_scores_ = self.scores_.mean(axis=0)
            best = int(np.argmax(self.mean_scores_))
            self.C_, self.best_score_ = float(self.Cs_[best]), float(self.mean_scores_[best])
            if self.refit:
                model: Any = clone(self.estimator)
                _last(model).C = self.C_
                options = {"sample_weight": sample_weight, "groups": groups}
                self.best_estimator_ = model.fit(X, y, **_of_last(model, options))
        if unseen:
            held_out = f"{len(unseen)} of {self.scores_.size} scorings of examples held out"
            warn(f"PathSearchCV: in {held_out}, {unseen[0]}", UnseenFeatures)
        if unsolved:
            trainings = self.scores_.size + bool(self.refit)
            words = f"{len(unsolved)} of {trainings} trainings did not reach tol, the last of them:"
            warn(f"PathSearchCV: {words} {unsolved[-1]}", ConvergenceWarning)
        return self

    def _checked_groups(self, groups: Any, rows: int) -> list[np.ndarray]:
        """Of each query the places of its rows."""
        if not isinstance(_last(self.estimator), DocumentRanker) or self.scoring is not None:
            raise ValueError(
                "groups are of a DocumentRanker, and of scoring None; else give X and "
                "y example by example, and folds of groups to PathSearchCV(cv=)"
            )
        return rows_of_groups(groups, rows)

    def _scores(
        self, X: Any, y: Any, sample_weight: Any, train: Any, test: Any, scorer: Any,
        queries: list[np.ndarray] | None,
    ) -> list[float]:  # fmt: skip
        """The score of each C on the examples held out."""
        model: Any = clone(self.estimator)
        last, before = _last(model), model[:-1] if isinstance(model, Pipeline) else None

        def part(own: Any, fit: bool) -> tuple[Any, Any, Any]:
            """(X, y, weights) of some examples, after the steps before the estimator."""
            rows = own if queries is None else np.concatenate([queries[g] for g in own])
            x, labels = _safe_indexing(X, rows), _safe_indexing(y, rows)
            if before is not None and len(before):
                x = before.fit_transform(x, labels) if fit else before.transform(x)
            if queries is not None:
                x, labels = _by_query(queries, own, x, labels)
            return x, labels, None if sample_weight is None else np.asarray(sample_weight)[own]

        (x, labels, weights), held_out = part(train, True), part(test, False)
        return [
            each.score(*held_out) if scorer is None else scorer(each, *held_out[:2])
            for each in last._path(x, labels, weights, self.Cs_.tolist())
        ]

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    @property
    def classes_(self) -> np.ndarray:
        """The classes of the best estimator."""
        return self._best().classes_

    @property
    def model_(self) -> TrainedModel:
        """The trained model of the best estimator, without the steps before it in a pipeline."""
        return _last(self._best()).model_

    @property
    def n_features_in_(self) -> int:
        """The features of the best estimator."""
        return self._best().n_features_in_

    def _called(self, name: str, X: Any, *more: Any, **options: Any) -> Any:
        """A method of the best estimator, after the steps before it."""
        best = self._best()
        if isinstance(best, Pipeline) and len(best) > 1:
            X = best[:-1].transform(X)
        return getattr(_last(best), name)(X, *more, **options)

    @_best_has("predict")
    def predict(self, X: Any, **options: Any) -> Any:
        """Of the best estimator; options of its own, as no_output= or groups=."""
        return self._called("predict", X, **options)

    @_best_has("decision_function")
    def decision_function(self, X: Any, **options: Any) -> Any:
        """Of the best estimator; options of its own."""
        return self._called("decision_function", X, **options)

    @_best_has("predict_proba")
    def predict_proba(self, X: Any, **options: Any) -> Any:
        """Of the best estimator; options of its own."""
        return self._called("predict_proba", X, **options)

    def score(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> float:
        """Of the best estimator, by `scoring`; options of its own, where that is None."""
        X, y = held(X), held(y)
        if self.scoring is not None:
            scorer: Any = check_scoring(self.estimator, self.scoring)
            return scorer(self._best(), X, y)
        return self._called("score", X, y, sample_weight=sample_weight, **options)


def _last(model: Any) -> StructuralEstimator:
    last = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(last, StructuralEstimator):
        raise ValueError(
            "estimator must be one of jaxstruct.estimators, or a pipeline that ends in one, got "
            f"{kind_and_text_of(model)}"
        )
    return last


def _rising(Cs: Any) -> np.ndarray:
    values = as_numbers("Cs", Cs, "a list of numbers > 0")
    if values.ndim != 1 or not len(values) or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"Cs must be a list of numbers > 0, got {Cs!r}")
    return np.unique(values)


def _by_query(queries: list[np.ndarray], which: np.ndarray, X: Any, y: Any) -> tuple[list, list]:
    """Rows of some queries, one query after the other, query by query."""
    ends = np.cumsum([len(queries[g]) for g in which])
    own = np.split(np.arange(ends[-1]), ends[:-1])
    return [_safe_indexing(X, rows) for rows in own], [np.asarray(y)[rows] for rows in own]


def _of_last(model: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options of an estimator's `fit` that are given, as its pipeline takes them."""
    prefix = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    return {f"{prefix}{name}": own for name, own in options.items() if own is not None}
