"""Inside and outside over a forest: the log-partition function of its trees, and the marginals.

    p(y) = exp(F(y) - log Z),    log Z = log sum_y exp F(y)

Upwards the log sums of nodes are taken over their edges, downwards the probability of a node is
divided among them, as `inside_outside` does on charts.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import column_by_column, of_one_example
from jaxstruct.core.finite import finite_or_zero
from jaxstruct.core.types import Array
from jaxstruct.trees.forests import Forest
from jaxstruct.trees.oracles.forest_trees import ForestScores, is_whole, put, size_of


class ForestMarginals(NamedTuple):
    """Probabilities of the parts of ONE forest; all 0 where it has no tree.

    Fields:
      scores: of nodes, of edges, and of nodes as top nodes. log_partition: log Z.
    """

    scores: ForestScores
    log_partition: Array


class _Inside(NamedTuple):
    """Log sums of the trees below nodes, [N], without and with the node's own score."""

    raw: Array
    own: Array


def _edge_score(forest: Forest, scores: ForestScores, inside: _Inside, edge: Array) -> Array:
    _, left, right = forest.edges[edge]
    return inside.own[left] + inside.own[right] + scores.edges[edge]


def _inside(forest: Forest, scores: ForestScores) -> _Inside:
    def of_node(node: Array, inside: _Inside) -> _Inside:
        _, _, _, begin, end = forest.nodes[node]

        def larger(edge: Array, top: Array) -> Array:
            return jnp.maximum(top, _edge_score(forest, scores, inside, edge))

        top = jax.lax.fori_loop(begin, end, larger, jnp.asarray(-jnp.inf, scores.nodes.dtype))
        shift = finite_or_zero(top)

        def more(edge: Array, total: Array) -> Array:
            return total + jnp.exp(_edge_score(forest, scores, inside, edge) - shift)

        total = jax.lax.fori_loop(begin, end, more, jnp.zeros((), scores.nodes.dtype))
        raw = jnp.where(end > begin, shift + jnp.log(total), 0)
        return _Inside(put(inside.raw, node, raw), put(inside.own, node, raw + scores.nodes[node]))

    nothing = jnp.full(forest.nodes.shape[0], -jnp.inf, scores.nodes.dtype)
    return jax.lax.fori_loop(0, size_of(forest), of_node, _Inside(nothing, nothing))


def _tops(forest: Forest, scores: ForestScores, inside: _Inside) -> Array:
    """[N] log sums of whole trees by their top node."""
    nodes = jnp.arange(forest.nodes.shape[0])
    size = size_of(forest)
    whole = (nodes < size) & is_whole(forest, forest.nodes.T, size)
    return jnp.where(whole, inside.own + scores.tops, -jnp.inf)


def _log_partition(tops: Array) -> Array:
    shift = finite_or_zero(jnp.max(tops))
    return shift + jnp.log(jnp.sum(jnp.exp(tops - shift)))


def _value(forest: Forest, scores: ForestScores) -> Array:
    return _log_partition(_tops(forest, scores, _inside(forest, scores)))


def _marginals(forest: Forest, scores: ForestScores) -> ForestMarginals:
    inside = _inside(forest, scores)
    tops = _tops(forest, scores, inside)
    log_z = _log_partition(tops)
    top = jnp.where(tops > -jnp.inf, jnp.exp(tops - finite_or_zero(log_z)), 0)
    size = size_of(forest)

    def of_node(n: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        node = size - 1 - n
        _, _, _, begin, end = forest.nodes[node]

        def of_edge(edge: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
            nodes, edges = found
            _, left, right = forest.edges[edge]
            score = _edge_score(forest, scores, inside, edge)
            given = jnp.exp(score - finite_or_zero(inside.raw[node]))
            share = jnp.where(score > -jnp.inf, nodes[node] * given, 0)
            nodes = put(nodes, left, nodes[left] + share)
            return put(nodes, right, nodes[right] + share), put(edges, edge, share)

        return jax.lax.fori_loop(begin, end, of_edge, found)

    start = top, jnp.zeros_like(scores.edges)
    nodes, edges = jax.lax.fori_loop(0, size, of_node, start)
    return ForestMarginals(ForestScores(nodes, edges, top), log_z)


_value_of_one = of_one_example(column_by_column(_value))
_marginals_of_one = of_one_example(column_by_column(_marginals))


def forest_marginals(forest: Forest, scores: ForestScores) -> ForestMarginals:
    """The probability of each part of ONE forest under p(y) = exp(F(y) - log Z).

    Args:
      forest, scores: as in `forest_trees.best_forest_tree`.
    """
    return _marginals_of_one(forest, scores)


@jax.custom_vjp
def forest_log_partition(forest: Forest, scores: ForestScores) -> Array:
    """log Z = log sum_y exp F(y) over the trees of ONE forest; -inf where it has none.

    The gradient in a score is the probability of its part, as `forest_marginals` has it. Only first
    derivatives in reverse mode exist.

    Args:
      forest, scores: as in `forest_trees.best_forest_tree`.

    Source: Baker 1979; Lari and Young 1990.
    """
    return _value_of_one(forest, scores)


def _forward(forest: Forest, scores: ForestScores) -> tuple[Array, ForestScores]:
    found = _marginals_of_one(forest, scores)
    return found.log_partition, found.scores


def _backward(gradient: ForestScores, cotangent: Array) -> tuple[None, ForestScores]:
    return None, jax.tree.map(lambda share: cotangent * share, gradient)


forest_log_partition.defvjp(_forward, _backward)
