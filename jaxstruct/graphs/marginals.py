"""Fractional labellings as outputs: marginals of nodes and edges in whole parts of `UNITS`.

Psi is linear in them, F = sum_v <theta_v, p_v> + sum_e <theta_e, p_e>, and so is an additive loss,

    Delta(y_i, p) = sum_v sum_s costs_v[s] p_v(s).

With all p of the local polytope in place of the labellings training stays convex, and has an exact
certificate of its own: Finley and Joachims 2008 call it over-generating, since every labelling is
one of these p, with the same Psi and the same loss. So

    P of the relaxation >= P of the labellings at the same w, and its slacks bound their risk,
    D of the relaxation <= its own optimum, which may lie above that of the labellings.

An output is E S^2 integers: with many labels or edges fewer planes fit into memory. Weights are
those of the problem of labellings with the same options, which predicts.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import check_record, checked_size
from jaxstruct.core.contract import Bounded, Model, Oracles
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.spec import array
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.graphs.decoding import View
from jaxstruct.graphs.inputs import GraphInput, store_of
from jaxstruct.graphs.oracles.relaxation import UNITS, objective, relaxed
from jaxstruct.graphs.potentials import PADDING, GraphPotentials, complete_edges


class Marginals(NamedTuple):
    """A point of the local polytope in whole parts of `UNITS`; PADDING on padding.

    Fields:
      nodes: [V, S] int32. pairs: [E, S, S] int32, the first label that of the first end; of a graph
        without edges one row of padding.
    """

    nodes: AnyArray
    pairs: AnyArray


def labels_of(y: Marginals) -> Array:
    """[V] int32 the likeliest label of each node, ties to the lowest; PADDING on padding."""
    best = jnp.argmax(y.nodes, axis=-1).astype(jnp.int32)
    return jnp.where(y.nodes[..., 0] < 0, PADDING, best)


def _best(potentials: GraphPotentials, passes: int) -> Bounded:
    """The best marginals found of one graph, as an oracle returns them."""
    found = relaxed(potentials, passes)
    pairs = found.pairs
    if not pairs.shape[0]:
        pairs = jnp.full((1, *pairs.shape[1:]), PADDING, jnp.int32)
    return Bounded(Marginals(found.nodes, pairs), found.bound)


def _score(view: View, theta: PyTree, y: Marginals) -> Array:
    potentials, _ = view.graph(theta)
    total = objective(y.nodes, potentials.nodes, (0, 1))
    return (
        total + objective(y.pairs, potentials.pairs, (0, 1, 2)) if len(potentials.pairs) else total
    )


def _decode(view: View, theta: PyTree) -> Marginals:
    return _best(view.graph(theta)[0], view.decoding.passes).output


def _loss(view: View, y_true: Marginals, y: Marginals) -> Array:
    return objective(y.nodes, view.costs(labels_of(y_true)), (0, 1))


def _loss_augmented(view: View, theta: PyTree, y_true: Marginals, scale: Array) -> Bounded:
    potentials, _ = view.graph(theta)
    nodes = potentials.nodes + scale * view.costs(labels_of(y_true))
    return _best(potentials._replace(nodes=nodes), view.decoding.passes)


def relaxed_parts(potentials: Partial, view: View) -> tuple[Model, Oracles]:
    """A model of marginals in place of labellings, and its oracles.

    Args:
      potentials: of the model. view: of its labellings, with a loss that adds up over nodes.
    """
    model = Model(potentials, *(Partial(each, view) for each in (_score, _decode, _loss)))
    return model, Oracles(loss_augmented_decode=Partial(_loss_augmented, view))


def _one_hot(y: np.ndarray, S: int) -> np.ndarray:
    return UNITS * (y[..., None] == np.arange(S)).astype(np.int32)


def _of_pairs(first: np.ndarray, second: np.ndarray, S: int) -> np.ndarray:
    """[.., S, S] of labels [..] at both ends."""
    return _one_hot(first, S)[..., :, None] * (second[..., None, None] == np.arange(S))


def set_marginals(outputs: np.ndarray) -> Marginals:
    """Sets of labels as outputs of `multi_label(.., inference="relaxed")`.

    Args:
      outputs: [n, L] zeros and ones.

    Returns:
      `Marginals` of arrays [n, L, 2] and [n, P, 2, 2].

    Raises:
      ValueError: outputs are no such array.
    """
    y = array("outputs", outputs, "n L", "zeros and ones", within=range(2)).astype(np.int32)
    first, second = complete_edges(y.shape[1]).T
    return Marginals(_one_hot(y, 2), _of_pairs(y[:, first], y[:, second], 2).astype(np.int32))


def marginal_outputs(inputs: GraphInput, outputs: Ragged, number_of_labels: int) -> Marginals:
    """Labellings as outputs of `graph_labelling(.., inference="relaxed")`.

    Args:
      inputs: of `graph_inputs`. outputs: labels of their nodes, as `graph_labelling` takes them.
      number_of_labels: S.

    Returns:
      `Marginals` of two `Ragged` stores.

    Raises:
      ValueError: outputs are no labels 0..S-1 of these graphs.
    """
    check_record("inputs", inputs, GraphInput, "graph_inputs")
    S = checked_size("number_of_labels", number_of_labels, 2)
    like = "inputs.nodes", np.asarray(inputs.number_of_nodes)
    outputs = store_of("outputs", outputs, "nodes", like, within=range(S))
    y = outputs.rows
    edges = inputs.edges
    at = edges.rows + np.repeat(outputs.offsets[:-1], edges.lengths)[:, None]
    pairs = _of_pairs(y[at[:, 0]], y[at[:, 1]], S).astype(np.int32)
    return Marginals(
        Ragged(_one_hot(y, S), outputs.offsets, PADDING), Ragged(pairs, edges.offsets, PADDING)
    )


def check_marginals(outputs: object, maker: str) -> None:
    """Raise ValueError unless outputs are Marginals of labellings: nodes and pairs all or nothing.

    Args:
      outputs: padded, with a leading axis [n]. maker: who makes them.
    """
    if not isinstance(outputs, Marginals):
        raise ValueError(
            f'outputs must be Marginals where inference="relaxed", made by {maker}; got '
            f"{type(outputs).__name__}"
        )
    for name, leaf in zip(Marginals._fields, jax.tree.map(np.asarray, outputs), strict=True):
        axes = tuple(range(2, leaf.ndim))
        padded = np.all(leaf == PADDING, axis=axes)
        one = np.all((leaf == 0) | (leaf == UNITS), axis=axes) & (leaf.sum(axis=axes) == UNITS)
        if not np.all(padded | one):
            raise ValueError(
                f"outputs.{name} must be {UNITS} at one label each, as {maker} makes them"
            )
