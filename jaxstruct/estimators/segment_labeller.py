"""`SegmentLabeller`: segments of sequences with labels, such as names in sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.core.labels import check_known
from jaxstruct.estimators.base import (
    ListEstimator,
    Training,
    example_weights,
    weighted_f1,
)
from jaxstruct.segments import prepare
from jaxstruct.segments.encoding import read_spans


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

    _read = staticmethod(prepare)

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
