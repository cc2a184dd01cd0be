"""Exact samples of labellings from p(y) = exp(F(y) - log Z): sums forward, draws backward."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.draws import draw, drawn, noise
from jaxstruct.core.loops import scan_first
from jaxstruct.core.types import Array
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.oracles.enumeration import all_scores, labelling
from jaxstruct.graphs.oracles.variable_elimination import checked_plan, eliminated, prepared_steps
from jaxstruct.graphs.potentials import PADDING, GraphPotentials, checked_potentials


def _kernel(potentials: GraphPotentials, plan: Elimination, noise: Array) -> Array:
    """Nodes in the reverse order of their elimination, each given those drawn before it."""
    batch = max(leaf.shape[-1] for leaf in jax.tree.leaves((potentials, plan, noise)))
    noise = jnp.broadcast_to(noise, (*noise.shape[:-1], batch))
    potentials, steps = prepared_steps(potentials, plan, batch)
    V, S, B = potentials.nodes.shape
    tables, _, _ = eliminated(steps, S, summed=True)
    C, columns = tables.shape[1], jnp.arange(B)

    def body(labels: Array, row: tuple) -> tuple[Array, tuple]:
        table, node, around, own = row
        known = jnp.take_along_axis(labels, jnp.clip(around, 0, V - 1), axis=0)
        powers = S ** jnp.arange(around.shape[0] - 1, -1, -1)
        entry = jnp.sum(jnp.where(around >= 0, known, 0) * powers[:, None], axis=0)
        column = jnp.take_along_axis(table.reshape(S, C // S, B), entry[None, None], axis=1)
        return labels.at[node, columns].set(drawn(column[:, 0], own), mode="drop"), ()

    rows = (tables, steps.node, steps.around, noise)
    empty = jnp.zeros((V, B), jnp.int32)
    labels, _ = scan_first(body, empty, rows, steps.count, reverse=True)
    real = jnp.arange(V)[:, None] < potentials.number_of_nodes[None]
    return jnp.where(real, labels, PADDING)


_of_one = of_one_example(_kernel)


def sample_labelling(potentials: GraphPotentials, plan: Elimination, key: Array) -> Array:
    """One labelling drawn from p(y) = exp(F(y) - log Z), by variable elimination.

    Args:
      potentials: of one graph. plan: of the same edges in the same order.
      key: a random key of its own for every labelling.

    Returns:
      [V] int32 labels with PADDING beyond the last node. Forbidden labellings are never drawn;
      where all are forbidden, the labels are some labels. Probabilities are exact up to the
      rounding of sums.

    Raises:
      ValueError: as `best_labelling`.
    """
    potentials, plan = checked_plan(potentials, plan)
    nodes = potentials.nodes
    return _of_one(potentials, plan, noise(key, nodes.shape, nodes.dtype))


def sample_of_all(potentials: GraphPotentials, key: Array) -> Array:
    """One labelling of a small graph drawn from p(y), by enumeration.

    Args:
      potentials: as in `best_of_all`. key: a random key of its own for every labelling.

    Returns:
      As `sample_labelling`.

    Raises:
      ValueError: as `all_scores`.
    """
    potentials = checked_potentials(potentials)
    V, S = potentials.nodes.shape
    number = draw(key, all_scores(potentials))
    real = jnp.arange(V) < potentials.number_of_nodes
    return jnp.where(real, labelling(number, V, S), PADDING)
