"""`GraphLabeller`: a label for every node of a graph."""

from __future__ import annotations

from typing import Any

from jaxstruct.estimators.base import (
    LOG_LOSS,
    ListEstimator,
    Training,
    label_array,
    share_right,
)
from jaxstruct.graphs import prepare, with_log_loss


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

    _read = staticmethod(prepare)

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Training:
        found = super()._prepare(X, y, sample_weight)
        self.classes_ = label_array(self.encoding_.codec.classes)
        if self.plans or self.objective != LOG_LOSS:
            return found
        return found._replace(problem=with_log_loss(found.problem, "reweighted"))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of nodes labelled right, those of a graph weighted as `sample_weight`."""
        return share_right(self.predict(X), y, self.encoding_.codec.classes, sample_weight)
