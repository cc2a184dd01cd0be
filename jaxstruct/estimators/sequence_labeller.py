"""`SequenceLabeller`: a label for every token of a sequence (thesis 4.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from jaxstruct import confidence
from jaxstruct.chains import ChainEncoding, chain_inputs, label_weights
from jaxstruct.core.contract import Incomplete
from jaxstruct.core.feature_encoding import dense_or_sparse, fit_features
from jaxstruct.core.feature_rows import read_sequences
from jaxstruct.core.labels import codec_of_lists, fit_open_codec
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree
from jaxstruct.estimators.base import (
    ListEstimator,
    Training,
    class_weights,
    example_weights,
    is_log_linear,
    label_array,
    of_mean_one,
    share_right,
)
from jaxstruct.estimators.class_rows import set_features, training_of_class


class SequenceLabeller(ListEstimator):
    """Label sequences by a chain: a structural SVM, or a conditional random field ("log_loss").

        F(x, y; w) = sum_t <u_{y^t}, Phi(x^t)> + sum_t v_{y^t y^{t+1}}                   (4.20)

    X is a list of n sequences, each a list of tokens: lists of feature names, mappings name ->
    number, bool or text, or an array or SciPy matrix [l, d]. y is a list of n lists of labels. In
    `fit` None is a label that is not known, a set names those that it may be: `fit_latent` trains
    then, or the likelihood of what is known ("log_loss"). CRFsuite's c2 is n / (2 C). There is no
    `partial_fit`, as in `StructuralClassifier`.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being sequences. objective: a formulation of
        `jaxstruct.fit`, or "log_loss".
      loss: "hamming", "normalised_hamming", "zero_one" or costs [S, S] (`jaxstruct.chains.chain`).
      class_weight: None, "balanced" or {label: weight}: what a wrong label in place of this one
        costs in the Hamming loss. Sequences have weights of their own, `sample_weight`.
      window: how many tokens on either side count as features of each.
      start_stop: whether first and last labels have weights of their own.
      min_count: tokens that must have a named feature for it to count.

    Attributes, beside those of `StructuralEstimator`:
      classes_: [S] the labels, sorted. n_features_in_: the features of a token, d.
      feature_names_in_: [d], of tokens that name their features.
    """

    loss: Any = "hamming"
    class_weight: Any = None
    window: int = 0
    start_stop: bool = False
    min_count: int = 1

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        rows, offsets = read_sequences("X", X)
        codec = codec_of_lists(y, None, "sequences", offsets, fit_open_codec, "y")
        features = fit_features(rows, min_count=self.min_count)
        self.encoding_, self.classes_ = ChainEncoding(features, codec), label_array(codec.classes)
        set_features(self, features)
        outputs = self.encoding_.outputs(y)
        weights = example_weights(sample_weight, len(y))
        loss, tokens = self._loss(outputs, weights), dense_or_sparse(features, "X", rows)
        options = {"loss": loss, "window": self.window, "start_stop": self.start_stop}
        problem, inputs = training_of_class(self, tokens, options, offsets)
        which = np.arange(len(weights))
        return Training(problem, chain_inputs(inputs), outputs, of_mean_one(weights), which)

    def _loss(self, outputs: Ragged | Incomplete, weights: np.ndarray) -> Any:
        """The loss, with the weights of labels in it."""
        if self.class_weight is None:
            return self.loss
        if self.objective == "log_loss" or not isinstance(self.loss, str) or self.loss != "hamming":
            raise ValueError(
                'class_weight needs loss="hamming" and an objective with a loss: give costs of '
                "your own as loss, or weights of sequences as sample_weight"
            )
        if isinstance(outputs, Incomplete):
            raise ValueError("class_weight counts labels, so that all of y must be known")
        each = np.ones(len(self.classes_))
        each[:] = class_weights(
            self.class_weight, self.classes_, self.classes_[outputs.rows],
            np.repeat(weights, outputs.lengths),
        )  # fmt: skip
        return label_weights(each)

    def _finish(self, weights: PyTree) -> None:
        d, blocks = self.encoding_.features.number_of_features, 2 * self.window + 1
        table = weights["emissions"]
        table = table.reshape(blocks, -1, table.shape[1])[:, :d].reshape(blocks * d, -1)
        self.weights_ = weights | {"emissions": table}

    @available_if(is_log_linear)
    def predict_marginals(self, X: Any) -> list[np.ndarray]:
        """n arrays [l, S] of P(y^t = label | x); of objective="log_loss" alone."""
        found: Any = confidence.marginals(*self.model_.on(X)).probabilities
        return [found[i] for i in range(len(found))]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of tokens labelled right, those of a sequence weighted as `sample_weight`."""
        return share_right(self.predict(X), y, self.encoding_.codec.classes, sample_weight)
