"""The best other tree of a forest with the same inner nodes; see `same_inner_nodes`."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.in_turn import entry, in_turn, put
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.forests import Forest
from jaxstruct.trees.oracles.forest_trees import ForestScores, Nodes, size_of
from jaxstruct.trees.potentials import PADDING


class _Walk(NamedTuple):
    """The inner nodes of the true tree in preorder, one place too many.

    Fields:
      nodes: [T] of the forest. own, other: [T] the edge of the true tree, and the best other one
        with the same inner nodes. gains: [T] what the other one adds, -inf where there is none.
    """

    nodes: Array
    own: Array
    other: Array
    gains: Array


def _value(nodes: Nodes, scores: ForestScores, edge: Array) -> Array:
    """The score of an edge and of its parts that are tokens."""
    total = entry(scores.edges, edge)
    for part in nodes.parts(edge):
        total = total + jnp.where(nodes.is_token(part), entry(scores.nodes, part), 0)
    return total


def _own_edge(nodes: Nodes, tree: BinaryTree, n: Array | int, node: Array) -> Array:
    """The edge of a node by the rule and the split at place n of the true tree."""
    rule, split = entry(tree.rules, n), entry(tree.splits, n)

    def look(edge: Array, found: Array) -> Array:
        fits = (nodes.rule(edge) == rule) & (nodes.last(nodes.parts(edge)[0]) + 1 == split)
        return jnp.where(fits, edge, found)

    first, end = nodes.edges(node)
    return jax.lax.fori_loop(first, end, look, jnp.maximum(first, 0))


def _other_edge(nodes: Nodes, scores: ForestScores, node: Array, own: Array) -> tuple[Array, Array]:
    """(the best edge of a node beside its own one with the same inner nodes, what it adds)."""
    left, right = nodes.parts(own)

    def look(edge: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = nodes.parts(edge)
        fits = (edge != own) & (nodes.last(a) == nodes.last(left))
        fits &= ((a == left) | nodes.is_token(a)) & ((b == right) | nodes.is_token(b))
        value = _value(nodes, scores, edge)
        better = fits & (value > best[1])
        return jnp.where(better, edge, best[0]), jnp.where(better, value, best[1])

    nothing = own, jnp.asarray(-jnp.inf, entry(scores.nodes, 0).dtype)
    edge, value = jax.lax.fori_loop(*nodes.edges(node), look, nothing)
    return edge, jnp.where(value > -jnp.inf, value - _value(nodes, scores, own), -jnp.inf)


def _walk(nodes: Nodes, scores: ForestScores, tree: BinaryTree, turns: Array) -> _Walk:
    """Down the true tree."""
    T = tree.symbols.shape[0]

    def top(node: Array, found: Array) -> Array:
        same = nodes.rule(_own_edge(nodes, tree, 0, node)) == entry(tree.rules, 0)
        return jnp.where(nodes.is_whole(node) & same, node, found)

    def step(n: Array, walk: _Walk) -> _Walk:
        node = entry(walk.nodes, n)
        own = _own_edge(nodes, tree, n, node)
        other, gain = _other_edge(nodes, scores, node, own)
        left, right = nodes.parts(own)
        at_right = n + entry(tree.splits, n) - entry(tree.begins, n)
        found = put(walk.nodes, left, jnp.where(nodes.is_token(left), T - 1, n + 1))
        found = put(found, right, jnp.where(nodes.is_token(right), T - 1, at_right))
        rest = ((walk.own, own), (walk.other, other), (walk.gains, gain))
        return _Walk(found, *(put(old, new, n) for old, new in rest))

    zeros = jnp.zeros(T, jnp.int32)
    nothing = jnp.full(T, -jnp.inf, entry(scores.nodes, 0).dtype)
    first = put(zeros, jax.lax.fori_loop(0, nodes.size, top, jnp.int32(0)), 0)
    return jax.lax.fori_loop(0, turns, step, _Walk(first, zeros, zeros, nothing))


def _of_one_token(nodes: Nodes, scores: ForestScores, tree: BinaryTree) -> tuple[BinaryTree, Array]:
    """(tree, there): the best other symbol over a sentence of one token."""
    own = entry(tree.symbols, 0)

    def look(node: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        score = entry(scores.nodes, node) + entry(scores.tops, node)
        better = (nodes.symbol(node) != own) & (score > best[1])
        return jnp.where(better, node, best[0]), jnp.where(better, score, best[1])

    nothing = jnp.int32(0), jnp.asarray(-jnp.inf, entry(scores.nodes, 0).dtype)
    node, score = jax.lax.fori_loop(0, nodes.size, look, nothing)
    return tree._replace(symbols=put(tree.symbols, nodes.symbol(node), 0)), score > -jnp.inf


def _of_more_tokens(
    nodes: Nodes, scores: ForestScores, tree: BinaryTree, turns: Array
) -> tuple[BinaryTree, Array]:
    """Every edge that gains is taken; if none does, the one that costs least."""
    walk = _walk(nodes, scores, tree, turns)
    places, most = jnp.arange(walk.gains.shape[0]), jnp.max(walk.gains)
    first = jnp.min(jnp.where(walk.gains == most, places, len(places) - 1))
    taken = jnp.where(most > 0, walk.gains > 0, places == first)
    edges = jnp.where(taken, walk.other, walk.own)

    def step(n: Array, tree: BinaryTree) -> BinaryTree:
        edge, symbols = entry(edges, n), tree.symbols
        for part in nodes.parts(edge):
            at = nodes.first(part)
            new = jnp.where(nodes.is_token(part), nodes.symbol(part), entry(symbols, at))
            symbols = put(symbols, new, at)
        return tree._replace(symbols=symbols, rules=put(tree.rules, nodes.rule(edge), n))

    return jax.lax.fori_loop(0, turns, step, tree), most > -jnp.inf


def _best(nodes: Nodes, scores: ForestScores, tree: BinaryTree) -> BinaryTree:
    nodes = nodes._replace(size=entry(nodes.size))
    tree = BinaryTree(*map(entry, tree))
    turns = jnp.sum(tree.rules >= 0, dtype=jnp.int32)
    several, found = _of_more_tokens(nodes, scores, tree, turns)
    single, of_one = _of_one_token(nodes, scores, tree)
    found = jnp.where(turns > 0, found, of_one)
    return jax.tree.map(
        lambda a, b: jnp.where(found, jnp.where(turns > 0, a, b), PADDING), several, single
    )


_of_one = in_turn(_best)


def best_with_same_inner(forest: Forest, scores: ForestScores, tree: BinaryTree) -> BinaryTree:
    """argmax F(y) over the trees y != `tree` of ONE forest that have the inner nodes of `tree`.

    Args:
      forest, scores: as in `forest_trees.best_forest_tree`. tree: one of the forest's.

    Returns:
      BinaryTree, PADDING where there is no such tree; ties as in `same_inner_nodes`.
    """
    tree = BinaryTree(*(jnp.asarray(leaf, jnp.int32) for leaf in tree))
    return _of_one(Nodes(forest, size_of(forest)), jax.lax.stop_gradient(scores), tree)
