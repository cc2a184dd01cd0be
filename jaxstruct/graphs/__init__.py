"""Graph labelling: factor graphs, their inference with and without bounds, and its learning."""

from jaxstruct.graphs.edge_lists import complete_edges, grid_edges
from jaxstruct.graphs.elimination import (
    Elimination,
    elimination,
    min_fill_width,
    stacked_plans,
)
from jaxstruct.graphs.encoding import GraphEncoding, prepare
from jaxstruct.graphs.factors import (
    FactorGraph,
    factor_graph,
    graph_potentials,
    padded,
    stacked,
)
from jaxstruct.graphs.inference import with_log_loss
from jaxstruct.graphs.inputs import GraphInput, graph_inputs
from jaxstruct.graphs.losses import weighted_labels
from jaxstruct.graphs.marginals import Marginals, marginal_outputs, set_marginals
from jaxstruct.graphs.multi_label import multi_label
from jaxstruct.graphs.oracles.belief_propagation import belief_propagation
from jaxstruct.graphs.oracles.conditional_modes import conditional_modes
from jaxstruct.graphs.oracles.enumeration import (
    MOST_LABELLINGS,
    all_scores,
    best_of_all,
    enumerated_log_partition,
)
from jaxstruct.graphs.oracles.k_best import k_best_labellings, k_best_of_all
from jaxstruct.graphs.oracles.relaxation import relaxed
from jaxstruct.graphs.oracles.reweighted import log_partition_bound, reweighted
from jaxstruct.graphs.oracles.reweighted_marginals import PseudoMarginals, reweighted_marginals
from jaxstruct.graphs.oracles.sampling import sample_labelling, sample_of_all
from jaxstruct.graphs.oracles.variable_elimination import (
    best_labelling,
    best_other,
    log_partition,
    marginals,
)
from jaxstruct.graphs.potentials import GraphPotentials, score_labels
from jaxstruct.graphs.set_encoding import SetEncoding, prepare_sets
from jaxstruct.graphs.structure import graph_labelling
from jaxstruct.graphs.text import factor_text
from jaxstruct.graphs.theta import GraphTheta, SetTheta, graph_potentials_of

__all__ = [
    "prepare", "prepare_sets", "Elimination", "FactorGraph", "GraphEncoding", "GraphInput",
    "GraphPotentials", "GraphTheta", "MOST_LABELLINGS", "Marginals", "PseudoMarginals",
    "SetEncoding", "SetTheta", "all_scores", "belief_propagation", "best_labelling", "best_of_all",
    "best_other", "complete_edges", "conditional_modes", "elimination", "enumerated_log_partition",
    "factor_graph", "factor_text", "graph_inputs", "graph_labelling", "graph_potentials",
    "graph_potentials_of", "grid_edges", "k_best_labellings", "k_best_of_all", "log_partition",
    "log_partition_bound", "marginal_outputs", "marginals", "min_fill_width", "multi_label",
    "padded", "relaxed", "reweighted", "reweighted_marginals", "sample_labelling", "sample_of_all",
    "score_labels", "set_marginals", "stacked", "stacked_plans", "weighted_labels", "with_log_loss",
]  # fmt: skip
