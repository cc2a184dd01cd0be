"""The best tree of a forest at every level of its nodes' counts: CKY over the edges that there are.

    cells[node, m] = max over the edges of the node, and levels a of the left, b of the right part,
                     of cells[left, a] + cells[right, b] + edges[edge],    m = a + b + counts[node]

and the node's own score is added. A level stands for the sum of the counts of a tree's nodes; the
last one also for all larger sums. With one level this is CKY, with two and the nodes that the true
tree lacks the best wrong tree, with all the maximum over the values of a loss (thesis 4.5.2).

A forest has some dozens of edges, so all of it is one loop over single numbers (`core.in_turn`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.in_turn import entry, in_turn, put
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.forests import Forest
from jaxstruct.trees.oracles.traceback import first_best
from jaxstruct.trees.potentials import PADDING


class ForestScores(NamedTuple):
    """Potentials of the parts of one forest.

    Fields:
      nodes: [N] of a symbol over a token, or over a span. edges: [E] of the rules.
      tops: [N] what a node adds as the top node; of the others it is not read.
    """

    nodes: Array
    edges: Array
    tops: Array


class ForestTree(NamedTuple):
    """The best tree of the best level.

    Fields:
      tree: BinaryTree, PADDING throughout where no level qualifies.
      value: offsets + slopes F at its level, -inf where none qualifies.
    """

    tree: BinaryTree
    value: Array


class Nodes(NamedTuple):
    """The forest of one sentence as searches read it.

    Fields:
      forest: in place, not copied. size: how many nodes it has.
    """

    forest: Forest
    size: Array

    def symbol(self, node: Array) -> Array:
        """Of a node."""
        return entry(self.forest.nodes, node, 0)

    def first(self, node: Array) -> Array:
        """The first token."""
        return entry(self.forest.nodes, node, 1)

    def last(self, node: Array) -> Array:
        """The last token."""
        return entry(self.forest.nodes, node, 2)

    def edges(self, node: Array) -> tuple[Array, Array]:
        """(first, end) of its edges, none of a token."""
        return entry(self.forest.nodes, node, 3), entry(self.forest.nodes, node, 4)

    def is_token(self, node: Array) -> Array:
        """Whether it is over one token."""
        return self.first(node) == self.last(node)

    def is_whole(self, node: Array) -> Array:
        """Whether it is over the whole sentence, as the last one is."""
        last = self.last(jnp.maximum(self.size - 1, 0))
        return (self.first(node) == 0) & (self.last(node) == last)

    def rule(self, edge: Array) -> Array:
        """Of an edge."""
        return entry(self.forest.edges, edge, 0)

    def parts(self, edge: Array) -> tuple[Array, Array]:
        """(left, right) nodes of an edge."""
        return entry(self.forest.edges, edge, 1), entry(self.forest.edges, edge, 2)


def size_of(forest: Forest) -> Array:
    """How many nodes the forest of one sentence has."""
    return jnp.sum(forest.nodes[:, 0] >= 0, dtype=jnp.int32)


class _Given(NamedTuple):
    """What the search reads of one sentence."""

    nodes: Nodes
    scores: ForestScores
    counts: Array


class _Cells(NamedTuple):
    """The best scores below nodes.

    Fields:
      values: [N, L]. used: [N] beyond the largest level that has a tree.
    """

    values: Array
    used: Array


def _row_of_edges(given: _Given, cells: _Cells, node: Array) -> tuple[Array, Array]:
    """([L] best scores of an inner node over its edges, beyond its largest level)."""
    levels, count = cells.values.shape[1], entry(given.counts, node)

    def of_edge(edge: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        left, right = given.nodes.parts(edge)
        score = entry(given.scores.edges, edge)
        most = entry(cells.used, left), entry(cells.used, right)

        def of_left(a: Array, row: Array) -> Array:
            value = entry(cells.values, left, a)

            def of_right(b: Array, row: Array) -> Array:
                level = jnp.minimum(a + b + count, levels - 1)
                new = value + entry(cells.values, right, b) + score
                return put(row, jnp.maximum(entry(row, level), new), level)

            return jax.lax.fori_loop(0, jnp.where(value > -jnp.inf, most[1], 0), of_right, row)

        row = jax.lax.fori_loop(0, most[0], of_left, found[0])
        return row, jnp.maximum(found[1], most[0] + most[1] - 1 + count)

    nothing = jnp.full(levels, -jnp.inf, cells.values.dtype), jnp.int32(0)
    row, used = jax.lax.fori_loop(*given.nodes.edges(node), of_edge, nothing)
    return row, jnp.minimum(used, levels)


def _filled(given: _Given, levels: int) -> _Cells:
    def of_node(node: Array, cells: _Cells) -> _Cells:
        row, used = _row_of_edges(given, cells, node)
        level = jnp.minimum(entry(given.counts, node), levels - 1)
        alone = jnp.where(jnp.arange(levels) == level, 0, -jnp.inf).astype(row.dtype)
        token = given.nodes.is_token(node)
        row = jnp.where(token, alone, row) + entry(given.scores.nodes, node)
        used = jnp.where(token, level + 1, used)
        return _Cells(put(cells.values, row, node), put(cells.used, used, node))

    (N,), dtype = given.counts.shape, entry(given.scores.nodes, 0).dtype
    empty = _Cells(jnp.full((N, levels), -jnp.inf, dtype), jnp.zeros(N, jnp.int32))
    return jax.lax.fori_loop(0, given.nodes.size, of_node, empty)


def _best_of_levels(given: _Given, cells: _Cells) -> Array:
    """[L] the best score of whole trees."""

    def of_node(node: Array, best: Array) -> Array:
        scores = entry(cells.values, node) + entry(given.scores.tops, node)
        return jnp.where(given.nodes.is_whole(node), jnp.maximum(best, scores), best)

    nothing = jnp.full(cells.values.shape[1], -jnp.inf, cells.values.dtype)
    return jax.lax.fori_loop(0, given.nodes.size, of_node, nothing)


def _top_node(given: _Given, cells: _Cells, level: Array) -> Array:
    """The best node over the whole sentence at a level, the lowest symbol of equal ones."""

    def of_node(node: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        score = entry(cells.values, node, level) + entry(given.scores.tops, node)
        better = given.nodes.is_whole(node) & (score > best[0])
        return jnp.where(better, score, best[0]), jnp.where(better, node, best[1])

    nothing = jnp.asarray(-jnp.inf, cells.values.dtype), jnp.int32(0)
    return jax.lax.fori_loop(0, given.nodes.size, of_node, nothing)[1]


class _Way(NamedTuple):
    """What made a node at a level: the edge, and the levels of its parts."""

    value: Array
    edge: Array
    left: Array
    right: Array


def _best_way(given: _Given, cells: _Cells, node: Array, level: Array) -> _Way:
    """The first of equal ones by edge, then by the level of the left part."""
    below = level - entry(given.counts, node)
    last = level == cells.values.shape[1] - 1

    def of_edge(edge: Array, best: _Way) -> _Way:
        left, right = given.nodes.parts(edge)
        score, most = entry(given.scores.edges, edge), entry(cells.used, right)

        def of_left(a: Array, best: _Way) -> _Way:
            value = entry(cells.values, left, a)

            def of_right(b: Array, best: _Way) -> _Way:
                new = _Way(value + entry(cells.values, right, b) + score, edge, a, b)
                better = new.value > best.value
                return jax.tree.map(lambda x, y: jnp.where(better, x, y), new, best)

            first = jnp.maximum(below - a, 0)
            end = jnp.where(a <= below, jnp.minimum(first + 1, most), 0)
            return jax.lax.fori_loop(first, jnp.where(last, most, end), of_right, best)

        return jax.lax.fori_loop(0, entry(cells.used, left), of_left, best)

    zero = jnp.int32(0)
    nothing = _Way(jnp.asarray(-jnp.inf, cells.values.dtype), zero, zero, zero)
    return jax.lax.fori_loop(*given.nodes.edges(node), of_edge, nothing)


class _Walk(NamedTuple):
    """A tree on the way down: what stands at each place of the preorder, one place too many."""

    nodes: Array
    levels: Array
    tree: BinaryTree


def _placed(nodes: Nodes, walk: _Walk, place: Array, node: Array, level: Array) -> _Walk:
    """A node among those to come, or its symbol above its token."""
    token, first = nodes.is_token(node), nodes.first(node)
    at = jnp.where(token, first, walk.tree.symbols.shape[0] - 1)
    place = jnp.where(token, walk.nodes.shape[0] - 1, place)
    symbols = put(walk.tree.symbols, nodes.symbol(node), at)
    tree = walk.tree._replace(symbols=symbols)
    return _Walk(put(walk.nodes, node, place), put(walk.levels, level, place), tree)


def _tree(
    given: _Given, cells: _Cells, top: Array, level: Array, found: Array, tokens: int
) -> BinaryTree:
    """The tree below a top node at a level."""
    nodes = given.nodes

    def step(n: Array, walk: _Walk) -> _Walk:
        node = entry(walk.nodes, n)
        way = _best_way(given, cells, node, entry(walk.levels, n))
        left, right = nodes.parts(way.edge)
        first, split = nodes.first(node), nodes.last(left) + 1
        values = nodes.rule(way.edge), first, split, nodes.last(node) + 1
        inner = [put(old, new, n) for old, new in zip(walk.tree[1:], values, strict=True)]
        walk = walk._replace(tree=BinaryTree(walk.tree.symbols, *inner))
        walk = _placed(nodes, walk, n + 1, left, way.left)
        return _placed(nodes, walk, n + split - first, right, way.right)

    blank = jnp.full(tokens, PADDING, jnp.int32)
    zeros, symbols = jnp.zeros(tokens, jnp.int32), jnp.full(tokens + 1, PADDING, jnp.int32)
    walk = _Walk(zeros, zeros, BinaryTree(symbols, blank, blank, blank, blank))
    walk = _placed(nodes, walk, jnp.int32(0), top, level)
    turns = jnp.where(found, nodes.last(top), 0)
    tree = jax.lax.fori_loop(0, turns, step, walk).tree
    symbols = jnp.where(found, tree.symbols, PADDING)
    return BinaryTree(symbols[:-1], *(leaf[:-1] for leaf in tree[1:]))


def _best(
    tokens: int, nodes: Nodes, scores: ForestScores, counts: Array, offsets: Array, slopes: Array,
    valid: Array,
) -> ForestTree:  # fmt: skip
    given = _Given(nodes._replace(size=entry(nodes.size)), scores, counts)
    offsets, slopes, valid = map(entry, (offsets, slopes, valid))
    cells = _filled(given, offsets.shape[0])
    best = _best_of_levels(given, cells)
    usable = valid & (best > -jnp.inf)
    values = jnp.where(usable, offsets + slopes * jnp.where(usable, best, 0), -jnp.inf)
    value, level = first_best(values)
    top = _top_node(given, cells, level)
    return ForestTree(_tree(given, cells, top, level, value > -jnp.inf, tokens), value)


@cache
def _oracle(tokens: int) -> Callable:
    return in_turn(partial(_best, tokens))


def best_forest_tree(
    forest: Forest, scores: ForestScores, tokens: int, counts: Array | None = None,
    offsets: Array | None = None, slopes: Array | None = None, valid: Array | None = None,
) -> ForestTree:  # fmt: skip
    """The tree of the level that maximises offsets[m] + slopes[m] F_m; see the module for F_m.

    Args:
      forest: of ONE sentence. scores: of its parts; no derivative is taken.
      tokens: T, static.
      counts: [N] int32 >= 0, what each node adds to the level; None for one level, the best tree.
      offsets, slopes, valid: [L] as in `tree_levels.best_of_tree_levels`; given with counts.

    Returns:
      ForestTree. Ties go to the lowest level, then to the lowest symbol of the top node, then, node
      by node in preorder, to the lowest rule, split, and level of the left part; within the last
      level, where it stands for several sums, to any of these.
    """
    dtype = scores.nodes.dtype
    if counts is None or offsets is None or slopes is None or valid is None:
        counts, offsets = jnp.zeros(forest.nodes.shape[0], jnp.int32), jnp.zeros(1, dtype)
        slopes, valid = jnp.ones(1, dtype), jnp.ones(1, bool)
    scores, offsets, slopes = jax.lax.stop_gradient((scores, offsets, slopes))
    nodes = Nodes(forest, size_of(forest))
    return _oracle(tokens)(
        nodes, scores, counts, offsets.astype(dtype), slopes.astype(dtype), valid
    )
