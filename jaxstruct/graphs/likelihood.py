"""Conditional likelihoods of one labelled graph, for `baselines.fit_random_field`.

P(y | x) = exp(F(x, y; w)) / Z(x). Where Z is too dear, three things stand in for -log P:

    graph_likelihood       log Z - F, exact, on graphs with a plan of elimination
    bethe_likelihood       the Bethe approximation of log Z by loopy belief propagation
    reweighted_likelihood  the tree-reweighted bound of log Z: at least -log P, convex in w
    pseudo_likelihood      - sum_v log P(y_v | the labels of its neighbours, x)
    set_likelihood         log Z - F of one set of labels, exact, over all sets

F(y) is taken off the potentials before any sum, node by node and edge by edge, so that y itself
scores 0: log Z and F would be large and nearly equal, and their difference coarse in float32. For
the same reason the bound stays one, and the Bethe approximation the same.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.contract import Problem
from jaxstruct.core.convexity import not_convex
from jaxstruct.core.types import Array, PyTree
from jaxstruct.graphs.oracles.belief_propagation import belief_propagation
from jaxstruct.graphs.oracles.enumeration import labelling, number_of_labellings
from jaxstruct.graphs.oracles.reweighted_marginals import reweighted_marginals
from jaxstruct.graphs.oracles.variable_elimination import log_partition
from jaxstruct.graphs.potentials import GraphPotentials
from jaxstruct.graphs.theta import GraphTheta, SetTheta, graph_potentials_of

DAMPING = 0.1
"""Of belief propagation: without any, messages of strong edges may swing for ever."""
PASSES = 100
"""Of belief propagation, at most: what has not come to rest by then seldom does."""
BOUND_PASSES, BOUND_TOLERANCE = 50, 1e-4
"""Of tree-reweighted sums: they creep on nodes of many edges, where 25 passes leave 1e-5 of the
bound, and 400 passes messages that move by 1e-3."""


def _checked(problem: Problem, theta: PyTree) -> GraphPotentials:
    del problem
    if not isinstance(theta, GraphTheta):
        raise ValueError(
            f"theta must be that of a problem made by graph_labelling, got {type(theta).__name__}: "
            "give the likelihood of its own structure"
        )
    return graph_potentials_of(theta)


def _ends(potentials: GraphPotentials, y: Array) -> tuple[Array, Array, Array, Array]:
    """([V] labels, [E] labels of the first ends, of the second ones, [E] whether there is one).

    Labels may tell the classes of their nodes, y + S c (see `losses`), which play no part here.
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


def _with_gradient(found: Callable) -> Callable:
    """potentials -> log Z, whose gradient are the marginals that were found beside it."""

    @jax.custom_vjp
    def value(potentials: GraphPotentials) -> Array:
        return found(potentials).log_partition

    def forward(potentials: GraphPotentials) -> tuple[Array, PyTree]:
        ends = found(potentials)
        return ends.log_partition, (ends.nodes, ends.pairs)

    def backward(counts: PyTree, cotangent: Array) -> tuple[GraphPotentials]:
        nodes, pairs = (cotangent * count for count in counts)
        return (GraphPotentials(nodes, None, pairs, None, None),)

    value.defvjp(forward, backward)
    return value


def _propagated(potentials: GraphPotentials) -> PyTree:
    return belief_propagation(
        potentials, kind="sum", schedule="serial", passes=PASSES, damping=DAMPING
    )


def _bounded(potentials: GraphPotentials) -> PyTree:
    return reweighted_marginals(potentials, BOUND_PASSES, BOUND_TOLERANCE)


_bethe = _with_gradient(_propagated)
_bound = _with_gradient(_bounded)


def graph_likelihood(problem: Problem, theta: PyTree, y: Array) -> Array:
    """-log P(y | x) = log Z - F(y) of one graph, exact, by variable elimination.

    Args:
      problem: a `graph_labelling`; its loss and inference play no part.
      theta: its potentials of one input with a plan (`graph_inputs(.., plans=True)`).
      y: [V] labels, -1 on padding.

    Returns:
      A scalar, differentiable once in reverse mode.

    Raises:
      ValueError: theta is none of a graph_labelling, or has no plan; as `log_partition`.

    Source: J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields", ICML 2001.
    """
    potentials = _checked(problem, theta)
    if theta.plan is None:
        raise ValueError(
            "graph_likelihood needs plans of elimination: make the inputs with graph_inputs(.., "
            "plans=True), or give bethe_likelihood, reweighted_likelihood or pseudo_likelihood"
        )
    return log_partition(_less_truth(potentials, y), theta.plan)


@not_convex
def bethe_likelihood(problem: Problem, theta: PyTree, y: Array) -> Array:
    """The Bethe approximation of -log P(y | x): log Z_Bethe - F(y), by loopy belief propagation.

    Exact on forests. Elsewhere it is neither a bound nor convex in w, and where messages do not
    come to rest (`belief_propagation(..).converged`) its gradient is not that of its value; a run
    of `fit_random_field` may then end in ROUNDING.

    Args:
      problem, theta, y: as `graph_likelihood`, without a plan.

    Returns:
      A scalar; its derivative, once in reverse mode, counts the beliefs.

    Raises:
      ValueError: theta is none of a graph_labelling.

    Source: J. Yedidia, W. Freeman and Y. Weiss, "Constructing free energy approximations and
    generalized belief propagation algorithms", IEEE Transactions on Information Theory 51, 2005.
    """
    return _bethe(_less_truth(_checked(problem, theta), y))


def reweighted_likelihood(problem: Problem, theta: PyTree, y: Array) -> Array:
    """A bound of -log P(y | x), from above: the tree-reweighted bound of log Z, less F(y).

    Convex in w where messages come to rest, so that training has one optimum, and exact on chains
    in the order of their nodes. It is a bound however early they stop.

    Args:
      problem, theta, y: as `graph_likelihood`, without a plan.

    Returns:
      A scalar; its derivative, once in reverse mode, counts the pseudo-marginals.

    Raises:
      ValueError: theta is none of a graph_labelling.

    Source: M. Wainwright, T. Jaakkola and A. Willsky, "A new class of upper bounds on the log
    partition function", IEEE Transactions on Information Theory 51, 2005.
    """
    return _bound(_less_truth(_checked(problem, theta), y))


def set_likelihood(problem: Problem, theta: PyTree, y: Array) -> Array:
    """-log P(y | x) = log Z - F(y) of one set of labels, exact, over all 2^L sets.

    Args:
      problem: made by `multi_label` with inference="enumeration"; its loss plays no part.
      theta: its potentials of one input. y: [L] zeros and ones.

    Returns:
      A scalar >= 0, convex in theta.

    Raises:
      ValueError: theta is none of a multi_label.
    """
    del problem
    if not isinstance(theta, SetTheta):
        raise ValueError(
            f"theta must be that of a problem made by multi_label, got {type(theta).__name__}: "
            "give the likelihood of its own structure"
        )
    L, pairs = theta.labels.shape[0], theta.pairs
    sets = labelling(jnp.arange(number_of_labellings(L, 2)), L, 2)
    less, weights = sets - y[None], theta.labels
    if pairs is not None:  # t_ab of two values in {0, 1} is a polynomial in them
        first, second = np.triu_indices(L, 1)
        less = jnp.concatenate(
            [
                less, less[:, first], less[:, second],
                sets[:, first] * sets[:, second] - (y[first] * y[second])[None],
            ],
            axis=1,
        )  # fmt: skip
        rises = pairs[:, 1, 0] - pairs[:, 0, 0], pairs[:, 0, 1] - pairs[:, 0, 0]
        both = pairs[:, 1, 1] - pairs[:, 0, 0] - rises[0] - rises[1]
        weights = jnp.concatenate([weights, *rises, both])
    return jax.nn.logsumexp(less.astype(weights.dtype) @ weights)


def pseudo_likelihood(problem: Problem, theta: PyTree, y: Array) -> Array:
    """- sum_v log P(y_v | the labels of its neighbours, x) of one graph.

    Without edges this is the likelihood itself: every node a logistic regression of its own. It
    needs no inference and is convex in w; its weights are those of P itself in the limit of many
    examples, where P is of this form.

    Args:
      problem, theta, y: as `graph_likelihood`, without a plan.

    Returns:
      A scalar, differentiable.

    Raises:
      ValueError: theta is none of a graph_labelling.

    Source: J. Besag, "Statistical analysis of non-lattice data", The Statistician 24, 1975.
    """
    potentials = _checked(problem, theta)
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
