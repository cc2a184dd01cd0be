"""Tree-reweighted sums: an upper bound of log Z, convex in the potentials, with its gradient.

    log Z <= max_mu <mu, theta> + sum_v H(mu_v) - sum_e g_e I(mu_e)

over the local polytope, g_e the part that an edge takes of its ends (see `sweeps`, `even_shares`),
I the mutual information of the ends. Every sweep computes a bound B(theta, M), M the messages
against it, and its gradient in theta at fixed M. Minimised over M, B is the right-hand side, and
the gradient is mu: the pseudo-marginals.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.loops import scan_first
from jaxstruct.core.scores import finite_or_zero
from jaxstruct.core.semiring import Sums
from jaxstruct.core.types import Array
from jaxstruct.graphs.oracles.layout import (
    Layout,
    in_given_order,
    minus,
    rows_at,
    shares_of,
    times,
    with_rows_at,
)
from jaxstruct.graphs.oracles.sweeps import (
    LITTLE,
    Messages,
    Shares,
    begun,
    both_ways,
    checked_call,
    even_shares,
    no_messages,
    sweep,
    to_rest,
)
from jaxstruct.graphs.potentials import GraphPotentials

PASSES = 200
TOLERANCE = 1e-5


class PseudoMarginals(NamedTuple):
    """What tree-reweighted sums found of ONE graph.

    Fields:
      nodes: [V, S], a distribution a node, 0 beyond the last one.
      pairs: [E, S, S], a distribution an edge as they were given, 0 beyond the last one.
      log_partition: scalar, at least log Z, of which both are the gradient at fixed messages.
      converged: bool scalar, no message changed by more than the tolerance in the last pass.
      passes: int32 scalar.
    """

    nodes: Array
    pairs: Array
    log_partition: Array
    converged: Array
    passes: Array


def _shares_of_nodes(layout: Layout, shares: Shares, beliefs: Array) -> Array:
    """[V, S, B] the gradient of what the nodes keep for themselves in a sweep upward."""
    left = jnp.where(layout.real & (shares.left_up > LITTLE), shares.left_up, 0)
    return left[:, None] * shares_of(beliefs, (1,))


def _gradient(layout: Layout, messages: Messages, shares: Shares) -> tuple[Array, Array]:
    """([V, S, B], [E, S, S, B]) of the bound of a sweep upward that left these messages.

    d / d M_st(x_t) = d / d B_t(x_t), and of that each x_s has the part exp((g B_s(x_s) - M_ts(x_s)
    + pairs(x_s, x_t) - M_st(x_t)) / g), up to its sum over x_s: so the edges are walked back.
    """

    def body(slopes: Array, row: tuple) -> tuple[Array, tuple]:
        low, high, table, against, share = row
        rest = minus(times(share[None], rows_at(messages.beliefs, low)), against)
        joint = rest[:, None] + table
        top = finite_or_zero(jnp.max(joint, axis=0))
        weights = jnp.exp((joint - top[None]) / share[None, None])
        total = jnp.sum(weights, axis=0)
        pair = weights * (rows_at(slopes, high) / jnp.where(total > 0, total, 1))[None]
        slope = rows_at(slopes, low) + share[None] * jnp.sum(pair, axis=1)
        return with_rows_at(slopes, low, slope), (pair,)

    rows = (layout.low, layout.high, layout.pairs, messages.down, shares.up)
    start = _shares_of_nodes(layout, shares, messages.beliefs)
    slopes, (pairs,) = scan_first(body, start, rows, layout.count, reverse=True)
    used = (layout.low < layout.nodes.shape[0])[:, None, None]
    return slopes, jnp.where(used, pairs, 0)


def _kernel(potentials: GraphPotentials, passes: Array, tolerance: Array) -> PseudoMarginals:
    _, layout, most, tolerance = begun(potentials, passes, tolerance)
    shares = even_shares(layout)
    turn = both_ways(layout, shares, Sums(), jnp.zeros((), layout.nodes.dtype))
    ends = to_rest(no_messages(layout), turn, most, tolerance)
    last = sweep(layout, ends.messages, shares, Sums(), upward=True)
    nodes, pairs = _gradient(layout, last.messages, shares)
    allowed = last.bound > -jnp.inf
    return PseudoMarginals(
        jnp.where(layout.real[:, None] & allowed[None, None], nodes, 0),
        in_given_order(layout, jnp.where(allowed[None, None, None], pairs, 0)),
        last.bound,
        ends.residual <= tolerance,
        ends.passes,
    )


_of_one = of_one_example(_kernel)


def reweighted_marginals(
    potentials: GraphPotentials, passes: Array | int = PASSES, tolerance: Array | float = TOLERANCE
) -> PseudoMarginals:
    """Pseudo-marginals of one graph and the bound of log Z that they belong to; see the module.

    Args:
      potentials: of one graph.
      passes: at most so many sweeps up and down, at least 1; may be traced.
      tolerance: a pass that changes no message by more ends it.

    Returns:
      `PseudoMarginals`. log_partition is an upper bound however early it stops; on a chain in the
      order of its nodes it is log Z and they are the marginals. Once converged, marginals of edges
      sum up to those of their nodes. Where every labelling is seen to be forbidden the bound is
      -inf and all of them are 0. Under `vmap`, nested or not, one batched program runs for all
      graphs, each of which stops by itself. They have no derivative in JAX.

    Raises:
      ValueError: as `graph_potentials`; passes is below 1.

    Source: M. Wainwright, T. Jaakkola and A. Willsky, "A new class of upper bounds on the log
    partition function", IEEE Transactions on Information Theory 51, 2005; T. Meltzer, A. Globerson
    and Y. Weiss, "Convergent message passing algorithms: a unifying view", UAI 2009.
    """
    return _of_one(*checked_call(potentials, passes, tolerance))
