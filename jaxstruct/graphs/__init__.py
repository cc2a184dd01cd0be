"""Graph labelling: factor graphs, their inference with and without bounds, and its learning."""

from jaxstruct.graphs.elimination import elimination
from jaxstruct.graphs.encoding import prepare
from jaxstruct.graphs.factors import FactorGraph, factor_graph, graph_potentials
from jaxstruct.graphs.inference import with_log_loss
from jaxstruct.graphs.inputs import GraphInput, graph_inputs
from jaxstruct.graphs.losses import weighted_labels
from jaxstruct.graphs.marginals import marginal_outputs, set_marginals
from jaxstruct.graphs.multi_label import multi_label
from jaxstruct.graphs.oracles.belief_propagation import belief_propagation
from jaxstruct.graphs.oracles.conditional_modes import conditional_modes
from jaxstruct.graphs.oracles.enumeration import best_of_all
from jaxstruct.graphs.oracles.k_best import k_best_labellings, sample_labelling
from jaxstruct.graphs.oracles.relaxation import relaxed
from jaxstruct.graphs.oracles.reweighted import log_partition_bound, reweighted
from jaxstruct.graphs.oracles.variable_elimination import (
    best_labelling,
    best_other,
    log_partition,
    marginals,
)
from jaxstruct.graphs.potentials import GraphPotentials, grid_edges, score_labels
from jaxstruct.graphs.set_encoding import prepare_sets
from jaxstruct.graphs.structure import graph_labelling

__all__ = [
    "FactorGraph", "GraphInput", "GraphPotentials", "belief_propagation", "best_labelling",
    "best_of_all", "best_other", "conditional_modes", "elimination", "factor_graph",
    "graph_inputs", "graph_labelling", "graph_potentials", "grid_edges",
    "k_best_labellings", "log_partition", "log_partition_bound", "marginal_outputs",
    "marginals", "multi_label", "prepare", "prepare_sets", "relaxed", "reweighted",
    "sample_labelling", "score_labels", "set_marginals", "weighted_labels", "with_log_loss",
]  # fmt: skip
