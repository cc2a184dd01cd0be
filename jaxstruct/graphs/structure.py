"""Graph labelling (the graph form of thesis 4.21).

F(x, y; w) = sum_v <u_{y_v}, Phi(x_v)>
             + sum_e [ t^{k_e}_{y_a y_b} + <p_{y_a y_b}, Phi(x_e)> ],   e = (a, b)

over the nodes v and edges e of the graph x: features of nodes with labels, a table of label pairs
for every kind of edge, and features of edges with label pairs, as chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
from jaxstruct.core.contract import (
    Bounded,
    Contenders,
    Inference,
    InferenceFacts,
    Model,
    Oracles,
    Padding,
    Problem,
    Space,
)
from jaxstruct.core.problem import make_problem
from jaxstruct.core.static import Static, static
from jaxstruct.core.transposition import sum_of_squares
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs import decoding as graph_decoding
from jaxstruct.graphs.decoding import Best, Decoding, best_found
from jaxstruct.graphs.example_checks import check_graphs
from jaxstruct.graphs.inference import graph_inference, seen_graph
from jaxstruct.graphs.inputs import GraphInput
from jaxstruct.graphs.losses import GraphLoss, delta, graph_loss, node_costs, plain_labels
from jaxstruct.graphs.marginals import (
    Marginals,
    best_marginals,
    check_marginals,
    labels_of,
    mean_cost,
    score_marginals,
)
from jaxstruct.graphs.oracles.enumeration import all_scores, labelling
from jaxstruct.graphs.oracles.reweighted import PASSES
from jaxstruct.graphs.oracles.variable_elimination import best_other
from jaxstruct.graphs.potentials import PADDING, score_labels
from jaxstruct.graphs.row_features import add_rows, row_action, row_scores
from jaxstruct.graphs.theta import GraphTheta, graph_potentials_of


@static
class GraphSizes:
    """What the examples of a structure must fit: d, S, p (0 for none), K (0 for none), and how many
    classes of weights its nodes are of."""

    features: int
    labels: int
    edge_features: int
    edge_kinds: int
    node_classes: int


class _Graph(NamedTuple):
    """What the functions of a structure are bound to."""

    loss: GraphLoss
    decoding: Decoding
    symmetric: Static


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


def _potentials(tables: _Graph, w: PyTree, x: GraphInput) -> GraphTheta:
    nodes = row_scores(w["nodes"], x.nodes)
    E, S = x.edges.shape[0], nodes.shape[1]
    pairs = jnp.zeros((E, S, S), nodes.dtype)
    if "pairs" in w:
        rows = jnp.zeros(E, jnp.int32) if x.kinds is None else x.kinds
        pairs = pairs + w["pairs"].at[rows].get(mode="clip")
    if "edges" in w:
        pairs = pairs + row_scores(w["edges"], x.edge_features).reshape(E, S, S)
    if tables.symmetric.value:
        pairs = _mean_of_both(pairs)
    return GraphTheta(nodes, pairs, x.edges, x.number_of_nodes, x.number_of_edges, x.plan)


def _real_parts(u: GraphTheta) -> tuple[Array, Array]:
    """(nodes, pairs) of one theta-shaped u, 0 on padding."""
    V, E = u.nodes.shape[0], u.pairs.shape[0]
    nodes = jnp.where((jnp.arange(V) < u.number_of_nodes)[:, None], u.nodes, 0)
    return nodes, jnp.where((jnp.arange(E) < u.number_of_edges)[:, None, None], u.pairs, 0)


def _add(tables: _Graph, w: PyTree, x: GraphInput, u: GraphTheta) -> PyTree:
    """w + A' u of a batch."""
    nodes, pairs = jax.vmap(_real_parts)(u)
    if tables.symmetric.value:
        pairs = _mean_of_both(pairs)
    B, E, S, _ = pairs.shape
    new = {"nodes": add_rows(w["nodes"], x.nodes, nodes)}
    if "pairs" in w:
        rows = jnp.zeros((B, E), jnp.int32) if x.kinds is None else x.kinds
        new["pairs"] = w["pairs"].at[rows].add(pairs, mode="clip")
    if "edges" in w:
        new["edges"] = add_rows(w["edges"], x.edge_features, pairs.reshape(B, E, S * S))
    return new


def _gram_action(sizes: GraphSizes, tables: _Graph, x: GraphInput, u: GraphTheta) -> GraphTheta:
    """A_x A_x' u through inner products of the rows."""
    nodes, pairs = _real_parts(u)
    E, S, _ = pairs.shape
    if tables.symmetric.value:
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


def _score(tables: _Graph, theta: GraphTheta, y: Array) -> Array:
    return score_labels(graph_potentials_of(theta), plain_labels(tables.loss, y))


def _best(tables: _Graph, theta: GraphTheta) -> Best:
    return best_found(tables.decoding, graph_potentials_of(theta), theta.plan)


def _answer(best: Best) -> Array | Bounded:
    return best.labels if best.bound is None else Bounded(best.labels, best.bound)


def _decode(tables: _Graph, theta: GraphTheta) -> Array:
    return _best(tables, theta).labels


def _loss(tables: _Graph, y_true: Array, y: Array) -> Array:
    return delta(tables.loss, y_true, y)


def _costs(tables: _Graph, y_true: Array) -> Array:
    """[V, S] of an additive loss."""
    if not tables.loss.additive:
        raise ValueError(
            'the loss of the graphs does not add up over nodes: take loss="hamming", '
            '"normalised_hamming" or [S, S] costs'
        )
    return node_costs(tables.loss, y_true)


def _loss_augmented(
    tables: _Graph, theta: GraphTheta, y_true: Array, scale: Array
) -> Array | Bounded:
    costs = scale * node_costs(tables.loss, y_true)
    return _answer(_best(tables, theta._replace(nodes=theta.nodes + costs)))


def _best_other(tables: _Graph, theta: GraphTheta, y_true: Array) -> Best:
    """The best y != y_true: some node has another label, whichever it is; ties to the lowest."""
    right = plain_labels(tables.loss, y_true)
    if tables.decoding.name == "elimination" and theta.plan is not None:
        return Best(best_other(graph_potentials_of(theta), theta.plan, right).labels, None)
    V, S = theta.nodes.shape
    at, labels = jnp.arange(V), jnp.arange(S)

    def without(v: Array) -> tuple[Array, Array, Array]:
        barred = (at == v)[:, None] & (labels[None] == right[v])
        nodes = jnp.where(barred, -jnp.inf, theta.nodes)
        best = _best(tables, theta._replace(nodes=nodes))
        value = _score(tables, theta._replace(nodes=nodes), best.labels)
        real = v < theta.number_of_nodes
        bound = value if best.bound is None else best.bound
        lowest = jnp.asarray(-jnp.inf, value.dtype)
        return best.labels, jnp.where(real, value, lowest), jnp.where(real, bound, lowest)

    every, values, bounds = jax.vmap(without)(at)
    first = jnp.argmax(values)
    found = values[first] > -jnp.inf
    y = jnp.where(found, every[first], y_true)
    exact = tables.decoding.name in graph_decoding.EXACT
    return Best(y, None if exact else jnp.max(bounds))


def _best_wrong(tables: _Graph, theta: GraphTheta, y_true: Array) -> Array | Bounded:
    return _answer(_best_other(tables, theta, y_true))


def _level_losses(tables: _Graph, y_true: Array) -> Array:
    del y_true
    return jnp.ones(1, tables.loss.costs.dtype)


def _best_by_level(
    tables: _Graph, theta: GraphTheta, y_true: Array, offsets: Array, slopes: Array
) -> Array | Bounded:
    """Zero-one: all wrong outputs are of one level."""
    best = _best_other(tables, theta, y_true)
    if best.bound is None:
        return best.labels
    return Bounded(best.labels, offsets[0] + slopes[0] * best.bound)


def _contenders(tables: _Graph, theta: GraphTheta, y_true: Array) -> Contenders:
    """Every labelling is a level."""
    V, S = theta.nodes.shape
    scores = all_scores(graph_potentials_of(theta))
    labels = labelling(jnp.arange(scores.shape[0]), V, S)
    real = (jnp.arange(V) < theta.number_of_nodes)[None]
    labels = jnp.where(real, labels, PADDING)
    losses = jax.vmap(_loss, (None, None, 0))(tables, y_true, labels)
    wrong = jnp.any(labels != plain_labels(tables.loss, y_true)[None], axis=1)
    return Contenders(losses, jnp.where(wrong, scores, -jnp.inf), theta)


def _output(trace: GraphTheta, level: Array) -> Array:
    V, S = trace.nodes.shape
    return jnp.where(jnp.arange(V) < trace.number_of_nodes, labelling(level, V, S), PADDING)


def _oracles(tables: _Graph) -> Oracles:
    additive = tables.loss.additive
    augmented = Partial(_loss_augmented, tables) if additive else None
    if tables.decoding.name == "enumeration":
        return Oracles(
            contenders=Partial(_contenders, tables), output=_output, loss_augmented_decode=augmented
        )
    cheap = tables.decoding.cheap
    return Oracles(
        cheap=None if cheap is None else _oracles(tables._replace(decoding=cheap)),
        loss_augmented_decode=augmented,
        best_wrong=Partial(_best_wrong, tables),
        level_losses=None if additive else Partial(_level_losses, tables),
        best_by_level=None if additive else Partial(_best_by_level, tables),
    )


def _marginal_score(theta: GraphTheta, y: Marginals) -> Array:
    return score_marginals(*_real_parts(theta), y)


def _marginal_decode(tables: _Graph, theta: GraphTheta) -> Marginals:
    return best_marginals(graph_potentials_of(theta), tables.decoding.passes).output


def _marginal_loss(tables: _Graph, y_true: Marginals, y: Marginals) -> Array:
    return mean_cost(node_costs(tables.loss, labels_of(y_true)), y)


def _marginals_augmented(
    tables: _Graph, theta: GraphTheta, y_true: Marginals, scale: Array
) -> Bounded:
    costs = scale * node_costs(tables.loss, labels_of(y_true))
    graph = graph_potentials_of(theta._replace(nodes=theta.nodes + costs))
    return best_marginals(graph, tables.decoding.passes)


def _relaxed_parts(tables: _Graph) -> tuple[Model, Oracles]:
    """Of marginals in place of labellings.

    Raises:
      ValueError: the loss does not add up over nodes.
    """
    if not tables.loss.additive:
        raise ValueError(
            'loss="zero_one" does not add up over nodes, which inference="relaxed" needs: take '
            '"hamming", "normalised_hamming" or costs'
        )
    model = Model(
        Partial(_potentials, tables), _marginal_score, Partial(_marginal_decode, tables),
        Partial(_marginal_loss, tables),
    )  # fmt: skip
    return model, Oracles(loss_augmented_decode=Partial(_marginals_augmented, tables))


def _initial_weights(sizes: GraphSizes, dtype: str) -> dict[str, Array]:
    d, S, p, K = sizes.features, sizes.labels, sizes.edge_features, sizes.edge_kinds
    shapes: dict[str, tuple[int, ...]] = {"nodes": (d, S)}
    if K:
        shapes["pairs"] = (K, S, S)
    if p:
        shapes["edges"] = (p, S * S)
    return {name: jnp.zeros(shape, dtype) for name, shape in shapes.items()}


def _check(
    sizes: GraphSizes, tables: _Graph, inputs: GraphInput, outputs: np.ndarray | None = None
) -> None:
    if tables.decoding.name != graph_decoding.RELAXED:
        check_graphs(sizes, tables.decoding.name, inputs, outputs)
        return
    check_graphs(sizes, tables.decoding.name, inputs)
    if outputs is not None:
        check_marginals(outputs, "graphs.marginal_outputs")


def _assembled(sizes: GraphSizes, tables: _Graph, dtype: str) -> Problem:
    space = Space(
        add=Partial(_add, tables),
        gram_action=Partial(_gram_action, sizes, tables),
        squared_norm=_squared_norm,
    )
    relaxed = tables.decoding.name == graph_decoding.RELAXED
    model = Model(
        Partial(_potentials, tables), Partial(_score, tables), Partial(_decode, tables),
        Partial(_loss, tables),
    )  # fmt: skip
    if relaxed:
        inference = Inference(facts=InferenceFacts(advice=graph_decoding.OF_RELAXED))
    else:
        enumerates = Static(tables.decoding.name == "enumeration")
        inference = graph_inference(Partial(seen_graph, enumerates), Partial(_costs, tables))
    model, oracles = _relaxed_parts(tables) if relaxed else (model, _oracles(tables))
    return make_problem(
        _initial_weights(sizes, dtype), model, oracles, space, Partial(_check, sizes, tables),
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
        them is ever certified; "escalated", modes first and reweighted where they find nothing
        violated; "relaxed", marginals in place of labellings: outputs of `marginal_outputs`.
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
    return _assembled(sizes, _Graph(losses, way, Static(bool(symmetric))), dtype)


def _squared_norm(w: PyTree, x: PyTree) -> Array:
    return sum_of_squares(w, x)
