"""What a labelled graph or a set of labels can be asked besides training.

P(y | x) = exp(F(x, y)) / Z(x) over all labellings: exact by variable elimination, on graphs with a
plan, or by enumeration, of a few nodes. Where Z is too dear `with_log_loss` puts one of these in
the place of -log P:

    bethe       the Bethe approximation of log Z by loopy belief propagation
    reweighted  the tree-reweighted bound of log Z: at least -log P, convex in w
    pseudo      - sum_v log P(y_v | the labels of its neighbours, x)

F(y) is taken off the potentials before any sum, node by node and edge by edge, so that y itself
scores 0: log Z and F would be large and nearly equal, and their difference coarse in float32. For
the same reason the bound stays one, and the Bethe approximation the same.

theta is what the weights make of one input of `graph_labelling` and of `multi_label`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxstruct.core.checks import check_choice
from jaxstruct.core.contract import Inference, InferenceFacts, Marginals, Problem
from jaxstruct.core.derived_inference import (
    of_whole_outputs,
    positions,
    raised_k_best,
    raised_softmax_margin,
)
from jaxstruct.core.problem import as_tested
from jaxstruct.core.types import Array, PyTree, Static
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.oracles import variable_elimination
from jaxstruct.graphs.oracles.belief_propagation import Propagated, belief_propagation
from jaxstruct.graphs.oracles.enumeration import enumerated_log_partition
from jaxstruct.graphs.oracles.k_best import (
    k_best_labellings,
    k_best_of_all,
    sample_labelling,
    sample_of_all,
)
from jaxstruct.graphs.oracles.reweighted_marginals import PseudoMarginals, reweighted_marginals
from jaxstruct.graphs.potentials import GraphPotentials, log_partition_of

DAMPING = 0.1
"""Of belief propagation: without any, messages of strong edges may swing for ever."""
PASSES = 100
"""Of belief propagation, at most: what has not come to rest by then seldom does."""
BOUND_PASSES, BOUND_TOLERANCE = 50, 1e-4
"""Of tree-reweighted sums: they creep on nodes of many edges, where 25 passes leave 1e-5 of the
bound, and 400 passes messages that move by 1e-3."""


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


def _ends(potentials: GraphPotentials, y: Array) -> tuple[Array, Array, Array, Array]:
    """([V] labels, [E] labels of the first ends, of the second ones, [E] whether there is one).

    Labels may hold the classes of their nodes, y + S c (see `losses`), which play no part here.
    """
    nodes, edges = potentials.nodes, potentials.edges
    labels = jnp.maximum(y, 0) % nodes.shape[1]
    ends = jnp.clip(edges, 0, nodes.shape[0] - 1)
    real = jnp.arange(edges.shape[0]) < potentials.number_of_edges
    return labels, labels[ends[:, 0]], labels[ends[:, 1]], real


def _less_truth(potentials: GraphPotentials, y: Array) -> GraphPotentials:
    """The potentials with F(y) taken off, part by part: y scores 0."""
    nodes, pairs = potentials.nodes, potentials.pairs
    labels, first, second, _ = _ends(potentials, y)
    of_nodes = nodes[jnp.arange(nodes.shape[0]), labels]
    of_edges = pairs[jnp.arange(pairs.shape[0]), first, second]
    return potentials._replace(
        nodes=nodes - of_nodes[:, None], pairs=pairs - of_edges[:, None, None]
    )


def _propagated(potentials: GraphPotentials) -> Propagated:
    return belief_propagation(
        potentials, kind="sum", schedule="serial", passes=PASSES, damping=DAMPING
    )


def _bounded(potentials: GraphPotentials) -> PseudoMarginals:
    return reweighted_marginals(potentials, BOUND_PASSES, BOUND_TOLERANCE)


_bethe_partition = log_partition_of(_propagated)
_bound_of_partition = log_partition_of(_bounded)


def _log_loss(seen: Partial, theta: PyTree, y: Array) -> Array:
    """-log P(y | x), exact."""
    potentials, plan = seen(theta)
    potentials = _less_truth(potentials, y)
    if plan is None:
        return enumerated_log_partition(potentials)
    return variable_elimination.log_partition(potentials, plan)


def _node_marginals(seen: Partial, theta: PyTree) -> tuple[Array, Array]:
    """([V, S] P(y_v = s), log Z)."""
    potentials, plan = seen(theta)
    if plan is None:
        log_z, counts = jax.value_and_grad(enumerated_log_partition, allow_int=True)(potentials)
        return counts.nodes, log_z
    found = variable_elimination.marginals(potentials, plan)
    return found.nodes, found.log_partition


def _graph_marginals(seen: Partial, theta: GraphTheta) -> Marginals:
    return Marginals(*_node_marginals(seen, theta), positions(theta.number_of_nodes))


def _set_marginals(seen: Partial, theta: PyTree) -> Marginals:
    """[L] P(the label is in the set)."""
    nodes, log_z = _node_marginals(seen, theta)
    return Marginals(nodes[:, 1], log_z)


def _k_best(seen: Partial, theta: PyTree, k: int) -> tuple[Array, Array]:
    potentials, plan = seen(theta)
    if plan is None:
        found = k_best_of_all(potentials, k)
    else:
        found = k_best_labellings(potentials, plan, k)
    return found[0], found[1]


def _sample(seen: Partial, theta: PyTree, key: Array) -> Array:
    potentials, plan = seen(theta)
    if plan is None:
        return sample_of_all(potentials, key)
    return sample_labelling(potentials, plan, key)


def _raised(costs: Partial, seen: Partial, theta: PyTree, y_true: Array) -> tuple:
    """(potentials whose score is F(y) + Delta(y_true, y), plan)."""
    potentials, plan = seen(theta)
    nodes = potentials.nodes + costs(y_true).astype(potentials.nodes.dtype)
    return potentials._replace(nodes=nodes), plan


def _as_it_is(seen: tuple) -> tuple:
    return seen


def graph_inference(seen: Partial, costs: Partial, of_sets: bool = False) -> Inference:
    """The inference of graphs, or of sets of labels.

    Args:
      seen: theta -> (GraphPotentials, its plan of elimination, or None to enumerate); it raises
        ValueError where neither is possible.
      costs: y_true -> [V, S] what each label of each node costs; it raises ValueError where the
        loss is not additive.
    """
    marginals = _set_marginals if of_sets else _graph_marginals
    raised, own = Partial(_raised, costs, seen), Partial(_as_it_is)
    return Inference(
        log_loss=Partial(_log_loss, seen),
        marginals=Partial(marginals, seen),
        k_best=Partial(_k_best, seen),
        sample=Partial(_sample, seen),
        softmax_margin=Partial(raised_softmax_margin, Partial(_log_loss, own), raised),
        augmented_k_best=Partial(raised_k_best, Partial(_k_best, own), raised),
    )


def seen_graph(enumerates: Static, theta: GraphTheta) -> tuple[GraphPotentials, Elimination | None]:
    """The graph of one input of `graph_labelling` and its plan.

    Raises:
      ValueError: it has none and not all labellings are enumerated.
    """
    if theta.plan is None and not enumerates.value:
        raise ValueError(
            "inputs have no plans of elimination, without which a graph gives neither the k best "
            "labellings nor probabilities: make them with plans=True, of few nodes take "
            'graph_labelling(.., inference="enumeration"), and for a log loss alone '
            'graphs.with_log_loss(problem, "bethe"), "reweighted" or "pseudo"'
        )
    return graph_potentials_of(theta), theta.plan


def _bethe(theta: GraphTheta, y: Array) -> Array:
    return _bethe_partition(_less_truth(graph_potentials_of(theta), y))


def _reweighted(theta: GraphTheta, y: Array) -> Array:
    return _bound_of_partition(_less_truth(graph_potentials_of(theta), y))


def _pseudo(theta: GraphTheta, y: Array) -> Array:
    potentials = graph_potentials_of(theta)
    nodes, edges, pairs = potentials.nodes, potentials.edges, potentials.pairs
    labels, first, second, real = _ends(potentials, y)
    V, E = nodes.shape[0], edges.shape[0]
    at = jnp.arange(E)
    of_first = jnp.where(real[:, None], pairs[at, :, second], 0)
    of_second = jnp.where(real[:, None], pairs[at, first], 0)
    ends = jnp.clip(edges, 0, V - 1)
    scores = nodes.at[ends[:, 0]].add(of_first).at[ends[:, 1]].add(of_second)
    own = scores[jnp.arange(V), labels]
    each = jax.nn.logsumexp(scores - own[:, None], axis=1)
    return jnp.sum(jnp.where(jnp.arange(V) < potentials.number_of_nodes, each, 0))


_APPROXIMATE = {
    "bethe": Inference(log_loss=Partial(_bethe), facts=InferenceFacts(convex=False, exact=False)),
    "reweighted": Inference(log_loss=Partial(_reweighted), facts=InferenceFacts(exact=False)),
    "pseudo": Inference(log_loss=Partial(_pseudo), facts=InferenceFacts(exact=False)),
}


def with_log_loss(problem: Problem, name: str) -> Problem:
    """The problem with an approximation in the place of its log loss -log P(y | x).

    bethe: log Z_Bethe - F(y) by loopy belief propagation. Exact on forests; elsewhere neither a
    bound nor convex in w, and where messages do not come to rest its gradient is not that of its
    value, so that a run of `fit_random_field` may end in ROUNDING.

    reweighted: the tree-reweighted bound of log Z, less F(y): at least -log P, however early
    messages stop; convex in w where they come to rest; exact on chains in the order of their nodes.

    pseudo: - sum_v log P(y_v | the labels of its neighbours, x). It needs no inference and is
    convex in w; its weights are those of P itself in the limit of many examples, where P is of this
    form. Without edges it is -log P.

    Args:
      problem: made by `graph_labelling`, on inputs with or without plans.
      name: "bethe", "reweighted" or "pseudo".

    Raises:
      ValueError: an argument does not fit.

    Source: J. Yedidia, W. Freeman and Y. Weiss, "Constructing free energy approximations and
    generalized belief propagation algorithms", IEEE Transactions on Information Theory 51, 2005; M.
    Wainwright, T. Jaakkola and A. Willsky, "A new class of upper bounds on the log partition
    function", the same volume; J. Besag, "Statistical analysis of non-lattice data", 1975.
    """
    check_choice("name", name, tuple(_APPROXIMATE))
    log_loss = problem.inference.log_loss if isinstance(problem, Problem) else None
    log_loss = of_whole_outputs(log_loss)
    ours = False
    if isinstance(log_loss, Partial):
        exact = log_loss.func is _log_loss and log_loss.args[0].func is seen_graph
        ours = exact or log_loss.func in (_bethe, _reweighted, _pseudo)
    if not ours:
        raise ValueError(
            "problem must be made by jaxstruct.graphs.graph_labelling with labellings as outputs, "
            f"got {type(problem).__name__} of another structure"
        )
    chosen = _APPROXIMATE[name]
    other = problem._replace(
        model=problem.model._replace(restrict=None),  # no difference of two bounds is a bound
        inference=problem.inference._replace(log_loss=chosen.log_loss, facts=chosen.facts),
    )
    return as_tested(other, problem)
