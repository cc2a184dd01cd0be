"""Labels of tokens (thesis 4.4), of segments and of the nodes of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from jaxstruct import confidence
from jaxstruct.chains import ChainEncoding, chain_inputs, label_weights
from jaxstruct.core.contract import Incomplete
from jaxstruct.core.feature_encoding import dense_or_sparse, fit_features
from jaxstruct.core.feature_rows import read_sequences
from jaxstruct.core.labels import check_known, codec_of_lists, fit_open_codec
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree
from jaxstruct.estimators.base import (
    LOG_LOSS,
    ListEstimator,
    Training,
    class_weights,
    example_weights,
    is_log_linear,
    label_array,
    of_mean_one,
    share_right,
    weighted_f1,
)
from jaxstruct.estimators.class_rows import set_features, training_of_class
from jaxstruct.graphs import prepare as graph_examples
from jaxstruct.graphs import with_log_loss
from jaxstruct.segments import prepare as segment_examples
from jaxstruct.segments.encoding import read_spans


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


class SegmentLabeller(ListEstimator):
    """Segments by a semi-Markov chain: a structural SVM, or a random field ("log_loss").

    X is a list of n sequences of tokens, as in `SequenceLabeller`; y a list of n lists of IOB2
    labels (IOBES and BILOU are read, too), or of triples (start, end, label), tokens start .. end -
    1. Predictions are of the kind of y, labels in IOB2. There is no `partial_fit`.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being sequences. objective: a formulation of
        `jaxstruct.fit`, or "log_loss".
      loss: "hamming", "normalised_hamming", "zero_one" or "f1" (`jaxstruct.segments.segmenter`).
      longest: tokens of a segment at most; None for the longest of y.
      phrases: names of features of tokens whose texts, joined, are features of whole segments.
      phrase_count: how many segments must have a phrase for it to count.
      window, start_stop, min_count: as in `SequenceLabeller`.
      most_segments: of "f1", more than any sequence of y has.

    Attributes, beside those of `StructuralEstimator`:
      classes_: the labels; "O", of tokens in no segment, first where there is one.
    """

    loss: str = "hamming"
    longest: int | None = None
    phrases: Any = ()
    phrase_count: int = 2
    window: int = 0
    start_stop: bool = False
    min_count: int = 1
    most_segments: int = 16

    _read = staticmethod(segment_examples)

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        found = super()._prepare(X, y, sample_weight)
        self.classes_ = np.array(self.encoding_.codec.classes, object)
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """F1 of whole segments over all sequences, those of a sequence counting `sample_weight`
        times: right where begin, end and label are; 0 where there are none at all."""
        X = list(X)
        found = self.predict(X)
        lengths = [one.shape[0] if hasattr(one, "shape") else len(one) for one in X]
        weights, wanted = example_weights(sample_weight, len(X)), read_spans(y, lengths, "y")
        labels = [label for own in wanted for *_, label in own]
        check_known("y", labels, self.encoding_.codec.classes)
        spans = read_spans(found, lengths)
        return weighted_f1([*map(set, spans)], [*map(set, wanted)], weights) or 0.0


class GraphLabeller(ListEstimator):
    """Labels of the nodes of any graph, from features of nodes, of edges and pairs of labels.

    X is a list of n graphs, (nodes, edges), (nodes, edges, edge_features) or of networkx, as
    `jaxstruct.graphs.prepare` reads them; y a list of n lists of labels in the order of the
    nodes, or of mappings node -> label. In `fit` None is a label that is not known, a set names
    those that it may be: `fit_latent` trains then. There is no `partial_fit`.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being graphs. objective: a formulation of
        `jaxstruct.fit`, or "log_loss": exact with plans, else under the tree-reweighted bound.
      loss: "hamming", "normalised_hamming", "zero_one" or costs [S, S].
      plans: whether inference is exact, by elimination, for forests and graphs of small treewidth;
        else it is tree-reweighted message passing, whose bounds the certificate counts.
      constant: value of a feature of every node; 0 for none.
      symmetric: whether pairs of labels do not distinguish the ends of an edge.

    Attributes, beside those of `StructuralEstimator`:
      classes_: [S] the labels, sorted.
    """

    loss: Any = "hamming"
    plans: bool = False
    constant: float = 1.0
    symmetric: bool = False

    _read = staticmethod(graph_examples)

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        found = super()._prepare(X, y, sample_weight)
        self.classes_ = label_array(self.encoding_.codec.classes)
        if self.plans or self.objective != LOG_LOSS:
            return found
        return found._replace(problem=with_log_loss(found.problem, "reweighted"))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of nodes labelled right, those of a graph weighted as `sample_weight`."""
        return share_right(self.predict(X), y, self.encoding_.codec.classes, sample_weight)
