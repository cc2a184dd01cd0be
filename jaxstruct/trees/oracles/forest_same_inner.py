"""The best other tree of a forest with the same inner nodes; see `same_inner_nodes`."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import column_by_column, of_one_example
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.forests import Forest
from jaxstruct.trees.oracles.forest_trees import ForestScores, is_whole, put, size_of
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


def _is_token(forest: Forest, node: Array) -> Array:
    return forest.nodes[node, 1] == forest.nodes[node, 2]


def _value(forest: Forest, scores: ForestScores, edge: Array) -> Array:
    """The score of an edge and of its parts that are tokens."""
    _, left, right = forest.edges[edge]
    total = scores.edges[edge] + jnp.where(_is_token(forest, left), scores.nodes[left], 0)
    return total + jnp.where(_is_token(forest, right), scores.nodes[right], 0)


def _own_edge(forest: Forest, rule: Array, split: Array, begin: Array, end: Array) -> Array:
    """The edge of a rule and a split among begin..end - 1."""

    def look(edge: Array, found: Array) -> Array:
        number, left, _ = forest.edges[edge]
        fits = (number == rule) & (forest.nodes[left, 2] + 1 == split)
        return jnp.where(fits, edge, found)

    return jax.lax.fori_loop(begin, end, look, begin)


def _other_edge(
    forest: Forest, scores: ForestScores, own: Array, begin: Array, end: Array
) -> tuple[Array, Array]:
    """(the best edge of a node beside its own one with the same inner nodes, what it adds)."""
    _, left, right = forest.edges[own]
    split = forest.nodes[left, 2]

    def look(edge: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        _, a, b = forest.edges[edge]
        fits = (edge != own) & (forest.nodes[a, 2] == split)
        fits &= (a == left) | _is_token(forest, a)
        fits &= (b == right) | _is_token(forest, b)
        value = _value(forest, scores, edge)
        better = fits & (value > best[1])
        return jnp.where(better, edge, best[0]), jnp.where(better, value, best[1])

    nothing = own, jnp.asarray(-jnp.inf, scores.nodes.dtype)
    edge, value = jax.lax.fori_loop(begin, end, look, nothing)
    return edge, jnp.where(value > -jnp.inf, value - _value(forest, scores, own), -jnp.inf)


def _walk(forest: Forest, scores: ForestScores, tree: BinaryTree, size: Array) -> _Walk:
    """Down the true tree."""
    T = tree.symbols.shape[0]

    def top(node: Array, found: Array) -> Array:
        edge = _own_edge(forest, tree.rules[0], tree.splits[0], *forest.nodes[node, 3:])
        fits = forest.edges[edge, 0] == tree.rules[0]
        return jnp.where(is_whole(forest, forest.nodes[node], size) & fits, node, found)

    def step(n: Array, walk: _Walk) -> _Walk:
        begin, end = forest.nodes[walk.nodes[n], 3:]
        own = _own_edge(forest, tree.rules[n], tree.splits[n], begin, end)
        other, gain = _other_edge(forest, scores, own, begin, end)
        _, left, right = forest.edges[own]
        at_right = n + tree.splits[n] - tree.begins[n]
        nodes = put(walk.nodes, jnp.where(_is_token(forest, left), T - 1, n + 1), left)
        nodes = put(nodes, jnp.where(_is_token(forest, right), T - 1, at_right), right)
        rest = ((walk.own, own), (walk.other, other), (walk.gains, gain))
        return _Walk(nodes, *(put(old, n, new) for old, new in rest))

    zeros, nothing = jnp.zeros(T, jnp.int32), jnp.full(T, -jnp.inf, scores.nodes.dtype)
    nodes = put(zeros, 0, jax.lax.fori_loop(0, size, top, jnp.int32(0)))
    turns = jnp.sum(tree.rules >= 0, dtype=jnp.int32)
    return jax.lax.fori_loop(0, turns, step, _Walk(nodes, zeros, zeros, nothing))


def _of_one_token(
    forest: Forest, scores: ForestScores, tree: BinaryTree, size: Array
) -> tuple[BinaryTree, Array]:
    """(tree, there): the best other symbol over a sentence of one token."""

    def look(node: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        score = scores.nodes[node] + scores.tops[node]
        better = (forest.nodes[node, 0] != tree.symbols[0]) & (score > best[1])
        return jnp.where(better, node, best[0]), jnp.where(better, score, best[1])

    nothing = jnp.int32(0), jnp.asarray(-jnp.inf, scores.nodes.dtype)
    node, score = jax.lax.fori_loop(0, size, look, nothing)
    return tree._replace(symbols=put(tree.symbols, 0, forest.nodes[node, 0])), score > -jnp.inf


def _of_more_tokens(
    forest: Forest, scores: ForestScores, tree: BinaryTree, size: Array
) -> tuple[BinaryTree, Array]:
    """Every edge that gains is taken; if none does, the one that costs least."""
    T, walk = tree.symbols.shape[0], _walk(forest, scores, tree, size)
    places, most = jnp.arange(T), jnp.max(walk.gains)
    first = jnp.min(jnp.where(walk.gains == most, places, T - 1))
    taken = jnp.where(most > 0, walk.gains > 0, places == first)
    edges = jnp.where(taken, walk.other, walk.own)

    def step(n: Array, tree: BinaryTree) -> BinaryTree:
        rule, left, right = forest.edges[edges[n]]
        symbols = tree.symbols
        for node in (left, right):
            symbol, first, _, _, _ = forest.nodes[node]
            new = jnp.where(_is_token(forest, node), symbol, symbols[first])
            symbols = put(symbols, first, new)
        return tree._replace(symbols=symbols, rules=put(tree.rules, n, rule))

    turns = jnp.sum(tree.rules >= 0, dtype=jnp.int32)
    return jax.lax.fori_loop(0, turns, step, tree), most > -jnp.inf


def _best(forest: Forest, scores: ForestScores, tree: BinaryTree) -> BinaryTree:
    size = size_of(forest)
    several, found = _of_more_tokens(forest, scores, tree, size)
    single, of_one = _of_one_token(forest, scores, tree, size)
    many = tree.rules[0] >= 0
    found = jnp.where(many, found, of_one)
    return jax.tree.map(
        lambda a, b: jnp.where(found, jnp.where(many, a, b), PADDING), several, single
    )


_of_one = of_one_example(column_by_column(_best))


def best_with_same_inner(forest: Forest, scores: ForestScores, tree: BinaryTree) -> BinaryTree:
    """argmax F(y) over the trees y != `tree` of ONE forest that have the inner nodes of `tree`.

    Args:
      forest, scores: as in `forest_trees.best_forest_tree`. tree: one of the forest's.

    Returns:
      BinaryTree, PADDING where there is no such tree; ties as in `same_inner_nodes`.
    """
    tree = BinaryTree(*(jnp.asarray(leaf, jnp.int32) for leaf in tree))
    return _of_one(forest, jax.lax.stop_gradient(scores), tree)
