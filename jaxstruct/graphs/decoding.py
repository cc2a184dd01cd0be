"""How a graph structure finds its best labelling: exact, with a bound, or without one."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxstruct.core.static import static
from jaxstruct.core.types import Array
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.oracles.belief_propagation import belief_propagation
from jaxstruct.graphs.oracles.conditional_modes import conditional_modes
from jaxstruct.graphs.oracles.enumeration import best_of_all
from jaxstruct.graphs.oracles.reweighted import reweighted
from jaxstruct.graphs.oracles.variable_elimination import best_labelling
from jaxstruct.graphs.potentials import GraphPotentials

EXACT = ("elimination", "enumeration")
BOUNDED = ("reweighted",)
UNBOUNDED = ("modes", "propagation")
RELAXED = "relaxed"
"""Not one of labellings: its outputs are marginals, see `marginals`."""
OF_RELAXED = (
    'problem has inference="relaxed", whose outputs are marginals: give the problem of labellings '
    "with the same options, it takes the same weights"
)
"""Why a relaxed problem has no inference of its own."""
ESCALATED = "escalated"
"""Conditional modes first, tree-reweighted passing where they find nothing violated."""
NAMES = (*BOUNDED, *EXACT, *UNBOUNDED, RELAXED, ESCALATED)


@static
class Decoding:
    """Which oracle serves a structure.

    Fields:
      name: one of `NAMES`. passes: of message passing, at most.
    """

    name: str
    passes: int

    @property
    def cheap(self) -> Decoding | None:
        """Which one is asked first, if any."""
        return Decoding("modes", self.passes) if self.name == ESCALATED else None


class Best(NamedTuple):
    """The best labelling found, and at least max F; None where it is the value itself."""

    labels: Array
    bound: Array | None


def best_found(decoding: Decoding, potentials: GraphPotentials, plan: Elimination | None) -> Best:
    """The best labelling of one graph by the oracle named.

    Args:
      decoding: static. potentials: of one graph. plan: where elimination is wanted.

    Returns:
      `Best`; the bound is +inf of an oracle that knows none.

    Raises:
      ValueError: elimination is wanted and there is no plan.
    """
    if decoding.name == "elimination":
        if plan is None:
            raise ValueError(
                'inference="elimination" needs plans: make the inputs with graph_inputs(.., '
                "plans=True)"
            )
        return Best(best_labelling(potentials, plan).labels, None)
    if decoding.name == "enumeration":
        return Best(best_of_all(potentials).labels, None)
    if decoding.name in ("reweighted", ESCALATED):
        found = reweighted(potentials, decoding.passes)
        return Best(found.labels, found.bound)
    if decoding.name == "modes":
        labels = conditional_modes(potentials).labels
    else:
        ends = belief_propagation(
            potentials, kind="max", schedule="serial", passes=decoding.passes, damping=0.3
        )
        labels = ends.labels
    return Best(labels, jnp.full((), jnp.inf, potentials.nodes.dtype))
