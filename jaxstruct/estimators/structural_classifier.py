"""`StructuralClassifier`: one class for each row, by the machine of Crammer and Singer or logistic.

F(x, y; w) = <w_y, Phi(x)>,    f(x) = argmax_y F(x, y; w)                          (thesis 4.4)

`TaxonomyClassifier` has classes inside a taxonomy, which share features and cost by distance:

F(x, y; w) = sum_z lambda_z(y) <w_z, Phi(x)> over the nodes z that are y or above it (thesis 4.19).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import jax
import numpy as np
from scipy.special import log_softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from jaxstruct.core.checks import check_choice, check_flag, text_of
from jaxstruct.core.labels import (
    LabelCodec,
    check_known,
    check_one_kind,
    encode_open,
    is_open,
    named,
)
from jaxstruct.core.prepared import held
from jaxstruct.core.types import PyTree
from jaxstruct.estimators import class_rows
from jaxstruct.estimators.base import (
    Training,
    check_as_many,
    class_weights,
    example_weights,
    is_log_linear,
    of_mean_one,
)
from jaxstruct.multiclass import Taxonomy, taxonomy_features, taxonomy_from_paths, tree_loss
from jaxstruct.multiclass.encoding import ClassEncoding
from jaxstruct.multiclass.losses import zero_one_loss


def dtype_of(values: np.ndarray) -> str:
    """ "float64" for numbers of float64 under jax's x64 mode, else "float32"."""
    return str(jax.dtypes.canonicalize_dtype(values.dtype))


class StructuralClassifier(class_rows.RowClassifier):
    """Multiclass classification with a certificate.

        1/2 |w|^2 + C / (sum_i v_i) sum_i v_i xi_i,   xi_i = max_y [Delta(y_i, y) - F(y_i) + F(y)]

    for "svm1_margin", the default. `LinearSVC(multi_class="crammer_singer", C=c)` is C = c n here.

    X is an array or SciPy matrix [n, d], a frame, or n rows that name their features: lists of
    names or mappings name -> number, bool or text. y holds n labels. In `fit` None is a label that
    is not known, a set names those that it may be: `fit_latent` trains then, or the likelihood of
    what is known ("log_loss").

    Equal examples count as one of their summed weight, and the order of the examples plays no part.
    There is no `partial_fit`: the dual variables are those of one training set.

    Parameters:
      C: > 0, of the mean slack. objective: a formulation of `jaxstruct.fit` or "log_loss"
        (multinomial logistic regression, which has `predict_proba`).
      loss: None for zero-one, or [k, k] Delta(y_true, y) in the order of `classes_`.
      class_weight: None, "balanced" or {label: weight}, times the weights of the examples.
      constant: value >= 0 of a feature of every row, the intercept (regularised, as LinearSVC's);
        0 for none.
      tol: relative duality gap to stop at; of "log_loss" the gradient's norm relative to
        max(1, |w|).
      max_iter: bound on the rounds.

    Attributes, beside those of `StructuralEstimator`:
      classes_: [k] the labels, sorted. n_features_in_: d.
      feature_names_in_: [d], of frames and of rows that name their features.
      coef_: [k, d], of two classes [1, d], their difference. intercept_: [k] or [1].
      encoding_: what columns and classes mean (`ClassEncoding` of `multiclass.prepare`).
    """

    loss: Any = None
    class_weight: Any = None
    constant: float = 1.0

    def _tables(self) -> tuple[np.ndarray | None, Any]:
        """(output features [k, p] or None, loss [k, k] or None) of `classes_`."""
        return None, self.loss

    def _numbered(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(classes [k], class of each example)."""
        return np.unique(y, return_inverse=True)

    def _prepare_open(self, X: Any, labels: list, sample_weight: Any) -> Training:
        """The training set of labels with None or sets among them."""
        if self.class_weight is not None:
            raise ValueError("class_weight counts labels, so that all of y must be known")
        known = named(labels)
        check_one_kind("y", known)
        none = np.zeros(len(labels), int)
        features, rows, _ = class_rows.read_training(self, X, none, self.constant)
        check_as_many(rows.count, len(labels), "rows", " labels")
        weights = example_weights(sample_weight, len(labels))
        self.classes_, _ = self._numbered(np.array(known))
        codec = LabelCodec(tuple(self.classes_.tolist()))
        if len(codec.classes) < 2:
            raise ValueError(f"y must name at least two classes, got {codec.classes} alone")
        outputs = encode_open(codec, labels)
        return self._training(features, codec, rows, outputs, weights, np.arange(len(labels)))

    def _training(
        self, features: Any, codec: LabelCodec, rows: Any, outputs: Any, weights: Any, which: Any
    ) -> Training:
        self.encoding_ = ClassEncoding(features, codec)
        lam, loss = self._tables()
        options = {"output_features": lam, "loss": loss, "dtype": dtype_of(rows.values)}
        problem, inputs = class_rows.training_of_class(self, rows, options)
        return Training(problem, inputs, outputs, of_mean_one(weights), which)

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        labels = [] if y is None else np.ravel(np.asarray(y, object)).tolist()
        if is_open(labels):
            return self._prepare_open(X, labels, sample_weight)
        features, rows, y = class_rows.read_labelled(self, X, y, self.constant)
        weights = example_weights(sample_weight, len(y))
        self.classes_, numbers = self._numbered(y)
        k, seen = len(self.classes_), np.unique(numbers[weights > 0])
        if k < 2 or len(seen) < 2:
            raise ValueError(
                f"y must hold examples of at least two classes with weight, got {len(seen)} class"
            )
        weights = weights * self._class_weights(y, numbers, weights)[numbers]
        which, weights = class_rows.distinct_examples(rows, numbers, weights)
        rows = class_rows.taken(rows, which)
        codec, numbers = LabelCodec(tuple(self.classes_.tolist())), numbers[which].astype(np.int32)
        return self._training(features, codec, rows, numbers, weights, which)

    def _class_weights(self, y: np.ndarray, numbers: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """[k] the weights of the classes; 1 where a class has no example."""
        each, present = np.ones(len(self.classes_)), np.unique(numbers[weights > 0])
        each[present] = class_weights(
            self.class_weight, self.classes_[present], y[weights > 0], weights[weights > 0]
        )
        return each

    def _finish(self, weights: PyTree) -> None:
        features = self.encoding_.features
        table = weights["weights"][: features.number_of_features]
        self.weights_ = {"weights": table}
        lam, _ = self._tables()
        table = table.astype(np.float64) if lam is None else table @ lam.T
        self.coef_, self.intercept_ = class_rows.coefficients(features, table)
        if len(self.classes_) == 2:
            self.coef_ = self.coef_[1:] - self.coef_[:1]
            self.intercept_ = self.intercept_[1:] - self.intercept_[:1]

    def decision_function(self, X: Any) -> np.ndarray:
        """[n, k] F(x, y) of every class; of two classes [n] the second's less the first's."""
        rows, features, table = self._new_rows(X), self.encoding_.features, self.coef_.T
        if features.constant:
            table = np.concatenate([table, self.intercept_[None] / features.constant])
        scores = class_rows.scores_of(rows, table)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """[n] the class of the largest F, of equal ones the first."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is right; those of classes without training count, too.

        Raises:
          ValueError: y holds labels of another kind than training's, text for numbers, say.
        """
        check_is_fitted(self)
        X, y = held(X), held(y)
        check_known("y", np.ravel(np.asarray(y, object)).tolist(), self.classes_.tolist())
        return super().score(X, y, sample_weight)

    @available_if(is_log_linear)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """[n, k] log P(y | x); of objective="log_loss" alone."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return log_softmax(scores, axis=1)

    @available_if(is_log_linear)
    def predict_proba(self, X: Any) -> np.ndarray:
        """[n, k] P(y | x) = exp F(x, y) / sum_r exp F(x, r); of objective="log_loss" alone."""
        return np.exp(self.predict_log_proba(X))


LOSSES = ("tree", "zero_one")


class TaxonomyClassifier(StructuralClassifier):
    """`StructuralClassifier` whose classes lie in a taxonomy; what that says of X, y, C holds here.

    Parameters, beside those of `StructuralClassifier`:
      taxonomy: class -> its ancestors from the top down, {"D01B": ("D", "D01")}, or a `Taxonomy` of
        `jaxstruct.multiclass.taxonomy_from_parents` (several parents, classes at inner nodes).
        None: the classes of y side by side, which makes it a `StructuralClassifier`.
      loss: "tree", the height of the first common ancestor, or "zero_one".
      shared: whether classes share the weights of the nodes above them, every class's features
        being of norm 1; so that those without an example may be predicted, too.

    Attributes, beside those of `StructuralClassifier`:
      classes_: all classes of the taxonomy, sorted; those without an example among them.
      taxonomy_: the `Taxonomy`, its classes in this order; None without one.
    """

    taxonomy: Any = field(default=None, kw_only=False)
    C: float = 100.0
    loss: str = "tree"
    shared: bool = True

    def _check_options(self) -> None:
        super()._check_options()
        check_choice("loss", self.loss, LOSSES)
        check_flag("shared", self.shared)

    def _numbered(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the classes of the taxonomy, sorted, the class of each example)."""
        self.taxonomy_ = _in_order(self.taxonomy)
        if self.taxonomy_ is None:
            return super()._numbered(y)
        names = np.array([self.taxonomy_.names[node] for node in self.taxonomy_.classes])
        wrong = np.flatnonzero(~np.isin(y, names))
        if wrong.size:
            i = int(wrong[0])
            raise ValueError(
                f"y[{i}] is {text_of(y.tolist()[i])}, none of the {len(names)} classes of taxonomy"
                ": add it there"
            )
        return names, np.searchsorted(names, y)

    def _tables(self) -> tuple[np.ndarray | None, Any]:
        if self.taxonomy_ is None:
            return None, zero_one_loss(len(self.classes_))
        features = taxonomy_features(self.taxonomy_, normalise=True) if self.shared else None
        is_tree = self.loss == "tree"
        return features, tree_loss(self.taxonomy_) if is_tree else None


def _in_order(given: Any) -> Taxonomy | None:
    """The taxonomy with its classes sorted by name."""
    if given is None:
        return None
    if not isinstance(given, (Mapping, Taxonomy)):
        raise ValueError(
            "taxonomy must be None, a mapping class -> its ancestors or a Taxonomy, got "
            f"{text_of(given)}"
        )
    found = given if isinstance(given, Taxonomy) else taxonomy_from_paths(given)
    classes = sorted(found.classes, key=lambda node: found.names[node])
    return found._replace(classes=tuple(classes))
