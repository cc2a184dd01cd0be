"""What the weights make of one input: theta of `graph_labelling` and of `multi_label`."""

from __future__ import annotations

from typing import NamedTuple

from jaxstruct.core.types import Array
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.potentials import GraphPotentials


class GraphTheta(NamedTuple):
    """Potentials of one input, and its integers.

    Fields:
      nodes: [V, S]. pairs: [E, S, S].
      edges, number_of_nodes, number_of_edges, plan: of the input.
    """

    nodes: Array
    pairs: Array
    edges: Array
    number_of_nodes: Array
    number_of_edges: Array
    plan: Elimination | None


class SetTheta(NamedTuple):
    """Potentials of one set of labels.

    Fields:
      labels: [L] what each label adds where it is in the set; [L, 2] of both values where some are
        restricted to what is known.
      pairs: [P, 2, 2] of pairs (k, l), k < l, in lexicographic order; None without pairs.
    """

    labels: Array
    pairs: Array | None


def graph_potentials_of(theta: GraphTheta) -> GraphPotentials:
    """The potentials of a graph's theta as the oracles take them."""
    return GraphPotentials(
        theta.nodes, theta.edges, theta.pairs, theta.number_of_nodes, theta.number_of_edges
    )
