"""`GraphLabeller`: a label for every node of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from jaxstruct.core.types import PyTree
from jaxstruct.estimators.base import (
    LOG_LOSS,
    StructuralEstimator,
    Training,
    example_weights,
    label_array,
    of_mean_one,
    share_right,
)
from jaxstruct.graphs import fit_encoding, with_log_loss
from jaxstruct.solvers.predict import predict


class GraphLabeller(StructuralEstimator):
    """Labels of the nodes of any graph, from features of nodes, of edges and pairs of labels.

    X is a list of n graphs, (nodes, edges), (nodes, edges, edge_features) or of networkx, as
    `jaxstruct.graphs.fit_encoding` reads them; y a list of n lists of labels in the order of the
    nodes, or of mappings node -> label. There is no `partial_fit`.

    Parameters:
      C, tol, max_iter: as in `StructuralClassifier`, n being graphs. objective: a formulation of
        `jaxstruct.fit`, or "log_loss": exact with plans, else under the tree-reweighted bound.
      loss: "hamming", "normalised_hamming", "zero_one" or costs [S, S].
      plans: whether inference is exact, by elimination, for forests and graphs of small treewidth;
        else it is tree-reweighted message passing, whose bounds the certificate counts.
      constant: value of a feature of every node; 0 for none.
      symmetric: whether pairs of labels do not tell the ends of an edge apart.

    Attributes, beside those of `StructuralEstimator`:
      classes_: [S]. encoding_, problem_, weights_: for `jaxstruct.predict`.
    """

    def __init__(
        self,
        C: float = 100.0,
        *,
        objective: str = "svm1_margin",
        loss: Any = "hamming",
        plans: bool = False,
        constant: float = 1.0,
        symmetric: bool = False,
        tol: float = 1e-3,
        max_iter: int = 500,
    ) -> None:
        """Keep the parameters; `fit` checks them."""
        self.C = C
        self.objective = objective
        self.loss = loss
        self.plans = plans
        self.constant = constant
        self.symmetric = symmetric
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Tags:
        """X is a list of graphs, no array."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        self.encoding_ = fit_encoding(X, y, plans=self.plans, constant=self.constant)
        self.classes_ = label_array(self.encoding_.codec.classes)
        self._set_problem(loss=self.loss, symmetric=self.symmetric)
        outputs = self.encoding_.outputs(y, X)
        weights = example_weights(sample_weight, len(outputs))
        exact = self.plans or self.objective != LOG_LOSS
        problem = self.problem_ if exact else with_log_loss(self.problem_, "reweighted")
        return Training(
            problem, self.encoding_.inputs(X), outputs, of_mean_one(weights),
            np.arange(len(outputs)),
        )  # fmt: skip

    def _finish(self, weights: PyTree) -> None:
        self.weights_ = weights

    def predict(self, X: Any) -> list:
        """The labels of n graphs: lists, or mappings node -> label where nodes have names."""
        check_is_fitted(self)
        found = predict(self.problem_, self.weights_, self.encoding_.inputs(X))
        return self.encoding_.decode(found, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of nodes labelled right, those of a graph weighted as `sample_weight`."""
        return share_right(self.predict(X), y, self.encoding_.codec.classes, sample_weight)
