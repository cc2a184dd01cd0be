"""Graph labelling (the graph form of thesis 4.21).

F(x, y; w) = sum_v <u_{y_v}, Phi(x_v)>
             + sum_e [ t^{k_e}_{y_a y_b} + <p_{y_a y_b}, Phi(x_e)> ],   e = (a, b)

over the nodes v and edges e of the graph x: features of nodes with labels, a table of label pairs
for every kind of edge, and features of edges with label pairs, as chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import (
    check_choice,
    check_flag,
    check_record,
    checked_dtype,
    checked_size,
)
from jaxstruct.core.contract import Inference, InferenceFacts, Model, Padding, Problem, Space, Truth
from jaxstruct.core.device import zeros_on_device
from jaxstruct.core.labels import checked_completion
from jaxstruct.core.problem import make_problem
from jaxstruct.core.transposition import sum_of_squares
from jaxstruct.core.types import Array, PyTree, Static, static
from jaxstruct.graphs import decoding as graph_decoding
from jaxstruct.graphs.decoding import Decoding, View, decode, labelling_oracles, score
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.example_checks import check_graphs
from jaxstruct.graphs.inference import GraphTheta, graph_inference, graph_potentials_of, seen_graph
from jaxstruct.graphs.inputs import GraphInput
from jaxstruct.graphs.losses import GraphLoss, delta, graph_loss, node_costs, plain_labels
from jaxstruct.graphs.marginals import Marginals, check_marginals, relaxed_parts
from jaxstruct.graphs.oracles.reweighted import PASSES
from jaxstruct.graphs.potentials import GraphPotentials
from jaxstruct.graphs.set_visits import add_rows, row_action, row_scores

NOT_ADDITIVE = (
    'loss="zero_one" does not add up over nodes: take "hamming", "normalised_hamming" or costs'
)


@static
class GraphSizes:
    """What the examples of a structure must fit: d, S, p (0 for none), K (0 for none), and how many
    classes of weights its nodes are of."""

    features: int
    labels: int
    edge_features: int
    edge_kinds: int
    node_classes: int


def _output_sizes(x: GraphInput) -> int:
    """The positions of the labels are the nodes."""
    check_record("inputs", x, GraphInput, "graph_inputs")
    return np.shape(jax.tree.leaves(x.nodes)[0])[1]


def _marginal_sizes(x: GraphInput) -> Marginals:
    """The positions of marginals are the nodes and the edges, one at least."""
    return Marginals(_output_sizes(x), max(np.shape(x.edges)[1], 1))


_PADDING = Padding(output_sizes=_output_sizes)
_PADDING_OF_MARGINALS = Padding(output_sizes=_marginal_sizes)


def _mean_of_both(tables: Array) -> Array:
    """Tables [.., S, S] made symmetric, an orthogonal projection."""
    return (tables + jnp.swapaxes(tables, -1, -2)) / 2


def _potentials(symmetric: Static, w: PyTree, x: GraphInput) -> GraphTheta:
    nodes = row_scores(w["nodes"], x.nodes)
    E, S = x.edges.shape[0], nodes.shape[1]
    pairs = jnp.zeros((E, S, S), nodes.dtype)
    if "pairs" in w:
        rows = jnp.zeros(E, jnp.int32) if x.kinds is None else x.kinds
        pairs = pairs + w["pairs"].at[rows].get(mode="clip")
    if "edges" in w:
        pairs = pairs + row_scores(w["edges"], x.edge_features).reshape(E, S, S)
    if symmetric.value:
        pairs = _mean_of_both(pairs)
    return GraphTheta(nodes, pairs, x.edges, x.number_of_nodes, x.number_of_edges, x.plan)


def _real_parts(u: GraphTheta) -> tuple[Array, Array]:
    """(nodes, pairs) of one theta-shaped u, 0 on padding."""
    V, E = u.nodes.shape[0], u.pairs.shape[0]
    nodes = jnp.where((jnp.arange(V) < u.number_of_nodes)[:, None], u.nodes, 0)
    return nodes, jnp.where((jnp.arange(E) < u.number_of_edges)[:, None, None], u.pairs, 0)


def _add(symmetric: Static, w: PyTree, x: GraphInput, u: GraphTheta) -> PyTree:
    """w + A' u of a batch."""
    nodes, pairs = jax.vmap(_real_parts)(u)
    if symmetric.value:
        pairs = _mean_of_both(pairs)
    B, E, S, _ = pairs.shape
    new = {"nodes": add_rows(w["nodes"], x.nodes, nodes)}
    if "pairs" in w:
        rows = jnp.zeros((B, E), jnp.int32) if x.kinds is None else x.kinds
        new["pairs"] = w["pairs"].at[rows].add(pairs, mode="clip")
    if "edges" in w:
        new["edges"] = add_rows(w["edges"], x.edge_features, pairs.reshape(B, E, S * S))
    return new


def _gram_action(sizes: GraphSizes, symmetric: Static, x: GraphInput, u: GraphTheta) -> GraphTheta:
    """A_x A_x' u through inner products of the rows."""
    nodes, pairs = _real_parts(u)
    E, S, _ = pairs.shape
    if symmetric.value:
        pairs = _mean_of_both(pairs)
    moved = jnp.zeros_like(pairs)
    if sizes.edge_kinds:
        rows = jnp.zeros(E, jnp.int32) if x.kinds is None else x.kinds
        totals = jnp.zeros((sizes.edge_kinds, S, S), pairs.dtype).at[rows].add(pairs, mode="clip")
        moved = moved + totals.at[rows].get(mode="clip")
    if sizes.edge_features:
        flat = row_action(x.edge_features, pairs.reshape(E, S * S))
        moved = moved + flat.reshape(E, S, S)
    return u._replace(nodes=row_action(x.nodes, nodes), pairs=moved)


def _restrict(theta: GraphTheta, possible: Array) -> GraphTheta:
    """theta without the labels that are not possible [V, S]; padding stays as it is."""
    beyond = jnp.arange(possible.shape[0]) >= theta.number_of_nodes
    return theta._replace(nodes=jnp.where(possible | beyond[:, None], theta.nodes, -jnp.inf))


def _costs(loss: GraphLoss, y_true: Array | Truth) -> Array:
    """[V, S] of an additive loss."""
    if not loss.additive:
        raise ValueError(NOT_ADDITIVE)
    return node_costs(loss, y_true)


def _graph(theta: GraphTheta) -> tuple[GraphPotentials, Elimination | None]:
    return graph_potentials_of(theta), theta.plan


def _initial_weights(sizes: GraphSizes, dtype: str) -> dict[str, Array]:
    d, S, p, K = sizes.features, sizes.labels, sizes.edge_features, sizes.edge_kinds
    shapes: dict[str, tuple[int, ...]] = {"nodes": (d, S)}
    if K:
        shapes["pairs"] = (K, S, S)
    if p:
        shapes["edges"] = (p, S * S)
    return {name: zeros_on_device(shape, dtype) for name, shape in shapes.items()}


def _check(
    sizes: GraphSizes,
    way: Decoding,
    additive: Static,
    inputs: GraphInput,
    outputs: np.ndarray | Truth | None = None,
) -> None:
    relaxed = way.name == graph_decoding.RELAXED
    if isinstance(outputs, Truth):
        if not additive.value:
            raise ValueError(NOT_ADDITIVE)
        outputs = checked_completion(outputs, sizes.labels, inputs.number_of_nodes)
    check_graphs(sizes, way.name, inputs, None if relaxed else outputs)
    if relaxed and outputs is not None:
        check_marginals(outputs, "graphs.marginal_outputs")


def _assembled(
    sizes: GraphSizes, loss: GraphLoss, way: Decoding, symmetric: Static, dtype: str
) -> Problem:
    """The problem of checked options."""
    space = Space(
        add=Partial(_add, symmetric),
        gram_action=Partial(_gram_action, sizes, symmetric),
        squared_norm=sum_of_squares,
    )
    measured, plain = Partial(delta, loss), Partial(plain_labels, loss)
    view = View(Partial(_graph), Partial(_costs, loss), measured, plain, way)
    potentials = Partial(_potentials, symmetric)
    relaxed = way.name == graph_decoding.RELAXED
    if relaxed and not loss.additive:
        raise ValueError(NOT_ADDITIVE)
    if relaxed:
        model, oracles = relaxed_parts(potentials, view)
        inference = Inference(facts=InferenceFacts(advice=graph_decoding.OF_RELAXED))
    else:
        model = Model(
            potentials, Partial(score, view), Partial(decode, view), measured, restrict=_restrict
        )
        oracles = labelling_oracles(view, loss.additive, jnp.zeros((), dtype))
        enumerates = Static(way.name == "enumeration")
        inference = graph_inference(Partial(seen_graph, enumerates), view.costs)
    return make_problem(
        _initial_weights(sizes, dtype), model, oracles, space,
        Partial(_check, sizes, way, Static(loss.additive)),
        _PADDING_OF_MARGINALS if relaxed else _PADDING, inference, tested=True,
    )  # fmt: skip


def graph_labelling(
    number_of_features: int,
    number_of_labels: int,
    *,
    number_of_edge_features: int = 0,
    edge_kinds: int = 1,
    symmetric: bool = False,
    loss: str | np.ndarray = "hamming",
    node_weights: Sequence[float] = (),
    inference: str = "reweighted",
    passes: int = PASSES,
    dtype: str = "float32",
) -> Problem:
    """Learning to label the nodes of graphs; see the module for F.

    Weights w = {"nodes": u [d, S], and as chosen "pairs": t [K, S, S], "edges": p [p, S S]}; the
    first label of a pair is that of the first end of an edge.

    Args:
      number_of_features: d of a node, dense or sparse (sparse padding has index d).
      number_of_labels: S >= 2.
      number_of_edge_features: p of an edge, dense or sparse; 0 for none.
      edge_kinds: K, how many tables of label pairs edges choose from; 0 for none, 1 for one that
        all edges share.
      symmetric: whether t and p do not distinguish the ends of an edge; only their symmetric part
        then counts.
      loss: "hamming", "normalised_hamming", "zero_one", or [S, S] costs (see `losses`).
      node_weights: of an additive loss, what nodes of class 1, 2, .. weigh where others weigh 1,
        and 0 for nodes to ignore; `weighted_labels` gives the class of each node to train on.
      inference: "reweighted" for any graph, with a bound that the certificate counts;
        "elimination", exact, for inputs with plans; "enumeration", exact, for a few nodes;
        "modes" and "propagation" (max-product), cheap and without a bound, so that no training with
        them is ever certified; "relaxed", marginals in place of labellings: outputs of
        `marginal_outputs`.
      passes: of message passing, at most.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `graph_inputs`. Outputs are [V] int32 labels, -1 on padding, with classes of
      nodes to train on only. svm0, svm1 and svm2 know no loss, and no weights. Additive losses
      serve svm1_margin and both slack re-scalings, and svm0, svm1 and svm2 by the best wrong
      labelling, of V calls (of three sweeps by elimination); zero_one serves all seven that way,
      enumeration all seven with any loss. Ties are broken as the oracle breaks them.
      A relaxed problem has the same weights; `marginals` says what its certificate means.

    Raises:
      ValueError: an argument does not fit.

    Source: T. Finley and T. Joachims, "Training structural SVMs when exact inference is
    intractable", ICML 2008, for training with inexact oracles.
    """
    labels, dtype = checked_size("number_of_labels", number_of_labels, 2), checked_dtype(dtype)
    losses = graph_loss(loss, labels, dtype, node_weights)
    sizes = GraphSizes(
        checked_size("number_of_features", number_of_features),
        labels,
        checked_size("number_of_edge_features", number_of_edge_features, 0),
        checked_size("edge_kinds", edge_kinds, 0),
        len(losses.weights),
    )
    check_flag("symmetric", symmetric)
    check_choice("inference", inference, graph_decoding.NAMES)
    if sizes.node_classes > 1 and inference == graph_decoding.RELAXED:
        raise ValueError(
            'node_weights: inference="relaxed" has marginals as outputs, which have no classes '
            "of nodes; take another inference, or costs with a row of zeros for a label to ignore"
        )
    way = Decoding(inference, checked_size("passes", passes))
    return _assembled(sizes, losses, way, Static(bool(symmetric)), dtype)
