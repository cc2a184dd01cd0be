"""Inside and outside over a forest: the log-partition function of its trees, and the marginals.

    p(y) = exp(F(y) - log Z),    log Z = log sum_y exp F(y)

Upwards the log sums of nodes are taken over their edges, downwards the probability of a node is
divided among them, as `inside_outside` does on charts.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.in_turn import entry, in_turn, put
from jaxstruct.core.scores import finite_or_zero
from jaxstruct.core.types import Array
from jaxstruct.trees.forests import Forest
from jaxstruct.trees.oracles.forest_trees import (
    ForestScores,
    Nodes,
    is_token,
    is_whole,
    nodes_of,
)


class _Inside(NamedTuple):
    """Log sums of the trees below nodes, [N], without and with the node's own score."""

    raw: Array
    own: Array


def _edge_score(
    nodes: Nodes, scores: ForestScores, inside: _Inside, node: Array, edge: Array
) -> Array:
    _, left, right, score = nodes.edge(scores, node, edge)
    return entry(inside.own, left) + entry(inside.own, right) + score


def _inside(nodes: Nodes, scores: ForestScores) -> _Inside:
    dtype = entry(scores.nodes, 0).dtype

    def of_node(node: Array, inside: _Inside) -> _Inside:
        def larger(edge: Array, top: Array) -> Array:
            return jnp.maximum(top, _edge_score(nodes, scores, inside, node, edge))

        edges = nodes.edges(node)
        shift = jax.lax.fori_loop(*edges, larger, jnp.asarray(-jnp.inf, dtype))
        shift = finite_or_zero(shift)

        def more(edge: Array, total: Array) -> Array:
            return total + jnp.exp(_edge_score(nodes, scores, inside, node, edge) - shift)

        total = jax.lax.fori_loop(*edges, more, jnp.zeros((), dtype))
        raw = jnp.where(is_token(nodes, node), 0, shift + jnp.log(total))
        own = raw + entry(scores.nodes, node)
        return _Inside(put(inside.raw, raw, node), put(inside.own, own, node))

    nothing = jnp.full(scores.nodes.shape, -jnp.inf, dtype)
    return jax.lax.fori_loop(0, nodes.size, of_node, _Inside(nothing, nothing))


def _tops(nodes: Nodes, scores: ForestScores, inside: _Inside) -> Array:
    """[N] log sums of whole trees by their top node."""

    def of_node(node: Array, tops: Array) -> Array:
        top = entry(inside.own, node) + entry(scores.tops, node)
        return put(tops, jnp.where(is_whole(nodes, node), top, -jnp.inf), node)

    nothing = jnp.full_like(inside.own, -jnp.inf)
    return jax.lax.fori_loop(0, nodes.size, of_node, nothing)


def _log_partition(tops: Array) -> Array:
    shift = finite_or_zero(jnp.max(tops))
    return shift + jnp.log(jnp.sum(jnp.exp(tops - shift)))


def _value(nodes: Nodes, scores: ForestScores) -> Array:
    nodes = nodes._replace(size=entry(nodes.size))
    return _log_partition(_tops(nodes, scores, _inside(nodes, scores)))


def _marginals(nodes: Nodes, scores: ForestScores) -> tuple[Array, ForestScores]:
    """(log Z, probabilities of nodes, of edges, and of nodes as top nodes)."""
    nodes = nodes._replace(size=entry(nodes.size))
    inside = _inside(nodes, scores)
    tops = _tops(nodes, scores, inside)
    log_z = _log_partition(tops)
    top = jnp.where(tops > -jnp.inf, jnp.exp(tops - finite_or_zero(log_z)), 0)

    def of_node(n: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        node = nodes.size - 1 - n
        raw = finite_or_zero(entry(inside.raw, node))

        def of_edge(edge: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
            shares, edges = found
            score = _edge_score(nodes, scores, inside, node, edge)
            share = entry(shares, node) * jnp.where(score > -jnp.inf, jnp.exp(score - raw), 0)
            for part in nodes.edge(scores, node, edge)[1:3]:
                shares = put(shares, entry(shares, part) + share, part)
            return shares, put(edges, share, edge)

        return jax.lax.fori_loop(*nodes.edges(node), of_edge, found)

    start = top, jnp.zeros(scores.edges.shape, top.dtype)
    shares, edges = jax.lax.fori_loop(0, nodes.size, of_node, start)
    return log_z, ForestScores(shares, edges, top)


_value_of_one = in_turn(_value)
_marginals_of_one = in_turn(_marginals)


@jax.custom_vjp
def forest_log_partition(forest: Forest, scores: ForestScores) -> Array:
    """log Z = log sum_y exp F(y) over the trees of ONE forest; -inf where it has none.

    The gradient in a score is the probability of its part, of a top node's the one that it is on
    top; all are 0 where there is no tree. Only first derivatives in reverse mode exist.

    Args:
      forest, scores: as in `forest_trees.best_forest_tree`.

    Source: Baker 1979; Lari and Young 1990.
    """
    return _value_of_one(nodes_of(forest), scores)


def _forward(forest: Forest, scores: ForestScores) -> tuple[Array, ForestScores]:
    return _marginals_of_one(nodes_of(forest), scores)


def _backward(gradient: ForestScores, cotangent: Array) -> tuple[None, ForestScores]:
    return None, jax.tree.map(lambda share: cotangent * share, gradient)


forest_log_partition.defvjp(_forward, _backward)
