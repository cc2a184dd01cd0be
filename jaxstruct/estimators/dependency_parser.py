"""`DependencyParser`: the heads of words, and labels of the arcs to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.core.prepared import held
from jaxstruct.dependencies import prepare
from jaxstruct.estimators.base import ListEstimator, example_weights
from jaxstruct.evaluation import attachment


class DependencyParser(ListEstimator):
    """Dependency trees by features of their arcs: a structural SVM, or a random field ("log_loss").

    X is a list of n sentences, lists of tokens, mappings of the same columns to texts such as
    {"word": "dogs", "tag": "NNS"}, or words, or pairs (word, tag); y a list of n trees, lists of
    heads (0 for the root, 1.. for words) or of pairs (head, label). In `fit` None is a head or a
    label that is not known, a set names those that it may be. Training trees whose arcs cross
    are refused where `projective` is: lift them before by `jaxstruct.dependencies.lifted`. There is
    no `partial_fit`.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being sentences. objective: a formulation of
        `jaxstruct.fit`, or "log_loss".
      projective: whether predicted arcs never cross; those of y must not then.
      loss: "hamming", "labelled_hamming" or one of them "normalised_" (`dependency_parser`).
      templates, label_templates, min_count, table, label_table: features of arcs, as
        `jaxstruct.dependencies.prepare` takes them.

    Attributes, beside those of `StructuralEstimator`:
      encoding_: the values of the columns, the templates and the labels.
    """

    projective: bool = True
    loss: str = "hamming"
    templates: Any = None
    label_templates: Any = None
    min_count: int = 2
    table: int = 2**16
    label_table: int = 2**12

    _read = staticmethod(prepare)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of words with the right head (and label, where y has some): UAS or LAS.

        The words of a sentence count `sample_weight` times.
        """
        y = held(y)
        weights = example_weights(sample_weight, len(y))
        found = [attachment([a], [b]) for a, b in zip(y, self.predict(X), strict=True)]
        shares = np.array([one.uas if one.las is None else one.las for one in found])
        words = weights * np.array([len(tree) for tree in y])
        return float(words @ shares / words.sum())
