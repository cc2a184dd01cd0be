"""`PathSearchCV`: the C of any estimator by cross-validation, each fold along one path of C."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from jaxstruct.core.caller import callers_level
from jaxstruct.core.checks import as_numbers, kind_and_text_of
from jaxstruct.core.feature_encoding import UnseenFeatures, report_unseen_to
from jaxstruct.core.prepared import held
from jaxstruct.estimators.base import StructuralEstimator, unsolved_trainings
from jaxstruct.models.trained import TrainedModel


def _best_has(name: str) -> Any:
    """Whether the estimator that was found, or the one given, has a method."""

    def check(self: PathSearchCV) -> bool:
        getattr(getattr(self, "best_estimator_", self.estimator), name)
        return True

    return available_if(check)


class PathSearchCV(MetaEstimatorMixin, BaseEstimator):
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

    def __init__(
        self,
        estimator: Any,
        Cs: Sequence[float] = (1.0, 10.0, 100.0, 1000.0),
        *,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
    ) -> None:
        """Keep the parameters; `fit` checks them."""
        self.estimator = estimator
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.refit = refit

    def __sklearn_tags__(self) -> Tags:
        """Those of the estimator, but for its own checks of X."""
        tags = super().__sklearn_tags__()
        of_best = self.estimator.__sklearn_tags__()
        tags.estimator_type = of_best.estimator_type
        tags.classifier_tags = of_best.classifier_tags
        tags.input_tags, tags.target_tags = of_best.input_tags, of_best.target_tags
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Score every C on every fold, and train with the best.

        Args:
          X, y, sample_weight: of the estimator; examples held out are scored with their weights
            where `scoring` is None.

        Raises:
          ValueError: an argument does not fit; the message names it.
        """
        _last(self.estimator)
        X, y = held(X), held(y)
        self.Cs_ = _rising(self.Cs)
        scorer = None if self.scoring is None else check_scoring(self.estimator, self.scoring)
        folds: Any = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        parts = folds.split(X if hasattr(X, "shape") else np.empty((len(y), 1)), y)
        scores = (self._scores(X, y, sample_weight, train, test, scorer) for train, test in parts)
        unseen: list[str] = []
        with unsolved_trainings() as unsolved:
            with report_unseen_to(lambda notice, count: unseen.append(notice)):
                self.scores_ = np.array([*scores])
            self.mean_scores_ = self.scores_.mean(axis=0)
            best = int(np.argmax(self.mean_scores_))
            self.C_, self.best_score_ = float(self.Cs_[best]), float(self.mean_scores_[best])
            if self.refit:
                model: Any = clone(self.estimator)
                _last(model).C = self.C_
                self.best_estimator_ = model.fit(X, y, **_weights_of(model, sample_weight))
        if unseen:
            warnings.warn(
                f"PathSearchCV: in {len(unseen)} of {self.scores_.size} scorings of examples held "
                f"out, {unseen[0]}",
                UnseenFeatures,
                stacklevel=callers_level(),
            )
        if unsolved:
            trainings = self.scores_.size + bool(self.refit)
            warnings.warn(
                f"PathSearchCV: {len(unsolved)} of {trainings} trainings did not reach tol, the "
                f"last of them {unsolved[-1]}",
                ConvergenceWarning,
                stacklevel=callers_level(),
            )
        return self

    def _scores(
        self, X: Any, y: Any, sample_weight: Any, train: Any, test: Any, scorer: Any
    ) -> list[float]:
        """The score of each C on the examples held out."""
        model: Any = clone(self.estimator)
        last, before = _last(model), model[:-1] if isinstance(model, Pipeline) else None
        of_train, of_test = ((_taken(X, own), _taken(y, own)) for own in (train, test))
        x_train, x_test = of_train[0], of_test[0]
        if before is not None and len(before):
            x_train = before.fit_transform(x_train, of_train[1])
            x_test = before.transform(x_test)
        own, held_out = (
            None if sample_weight is None else np.asarray(sample_weight)[part]
            for part in (train, test)
        )
        found = []
        for each in last._path(x_train, of_train[1], own, self.Cs_.tolist()):
            if scorer is None:
                found.append(each.score(x_test, of_test[1], held_out))
            else:
                found.append(scorer(each, x_test, of_test[1]))
        return found

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

    @_best_has("predict")
    def predict(self, X: Any) -> Any:
        """Of the best estimator."""
        return self._best().predict(X)

    @_best_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Of the best estimator."""
        return self._best().decision_function(X)

    @_best_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Of the best estimator."""
        return self._best().predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Of the best estimator, by `scoring`."""
        X, y = held(X), held(y)
        if self.scoring is not None:
            scorer: Any = check_scoring(self.estimator, self.scoring)
            return scorer(self._best(), X, y)
        return self._best().score(X, y, sample_weight=sample_weight)


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


def _taken(values: Any, which: np.ndarray) -> Any:
    return _safe_indexing(values, which)


def _weights_of(model: Any, sample_weight: Any) -> dict[str, Any]:
    """How `fit` of an estimator or a pipeline is given the weights."""
    if sample_weight is None:
        return {}
    prefix = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    return {f"{prefix}sample_weight": sample_weight}
