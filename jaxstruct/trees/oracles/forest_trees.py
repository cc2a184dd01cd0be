"""The best tree of a forest at every level of its nodes' counts: CKY over the edges that there are.

    cells[node, m] = max over the edges of the node, and levels a of the left, b of the right part,
                     of cells[left, a] + cells[right, b] + edges[edge],    m = a + b + counts[node]

and the node's own score is added. A level stands for the sum of the counts of a tree's nodes; the
last one also for all larger sums. With one level this is CKY, with two and the nodes that the true
tree lacks the best wrong tree, with all the maximum over the values of a loss (thesis 4.5.2).

A forest has some dozens of edges, so all of it is one loop of single numbers.
"""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import column_by_column, of_one_example
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


def size_of(forest: Forest) -> Array:
    """How many nodes the forest of one sentence has."""
    return jnp.sum(forest.nodes[:, 0] >= 0, dtype=jnp.int32)


def is_whole(forest: Forest, node: Array, size: Array) -> Array:
    """Whether a node [5, ..] is over the whole sentence, as the last one is."""
    _, first, last, _, _ = node
    return (first == 0) & (last == forest.nodes[jnp.maximum(size - 1, 0), 2])


class _Given(NamedTuple):
    """What the search reads of one sentence."""

    forest: Forest
    scores: ForestScores
    counts: Array


class _Cells(NamedTuple):
    """The best scores below nodes.

    Fields:
      values: [N, L]. used: [N] beyond the largest level that has a tree.
    """

    values: Array
    used: Array


def put(table: Array, index: Array, value: Array) -> Array:
    """The table with one entry of axis 0 replaced: no scatter."""
    return jax.lax.dynamic_update_index_in_dim(table, value, index, 0)


def _row_of_edges(given: _Given, cells: _Cells, node: Array) -> tuple[Array, Array]:
    """([L] best scores of an inner node over its edges, beyond its largest level)."""
    levels, count = cells.values.shape[1], given.counts[node]

    def of_edge(edge: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        row, used = found
        _, left, right = given.forest.edges[edge]

        def of_left(a: Array, row: Array) -> Array:
            value = cells.values[left, a]

            def of_right(b: Array, row: Array) -> Array:
                level = jnp.minimum(a + b + count, levels - 1)
                new = value + cells.values[right, b] + given.scores.edges[edge]
                return put(row, level, jnp.maximum(row[level], new))

            end = jnp.where(value > -jnp.inf, cells.used[right], 0)
            return jax.lax.fori_loop(0, end, of_right, row)

        row = jax.lax.fori_loop(0, cells.used[left], of_left, row)
        return row, jnp.maximum(used, cells.used[left] + cells.used[right] - 1 + count)

    _, _, _, begin, end = given.forest.nodes[node]
    nothing = jnp.full(levels, -jnp.inf, cells.values.dtype)
    row, used = jax.lax.fori_loop(begin, end, of_edge, (nothing, jnp.int32(0)))
    return row, jnp.minimum(used, levels)


def _filled(given: _Given, levels: int) -> _Cells:
    def of_node(node: Array, cells: _Cells) -> _Cells:
        _, _, _, begin, end = given.forest.nodes[node]
        row, used = _row_of_edges(given, cells, node)
        level = jnp.minimum(given.counts[node], levels - 1)
        token = jnp.where(jnp.arange(levels) == level, 0, -jnp.inf).astype(row.dtype)
        row = jnp.where(end > begin, row, token) + given.scores.nodes[node]
        used = jnp.where(end > begin, used, level + 1)
        return _Cells(put(cells.values, node, row), put(cells.used, node, used))

    N, dtype = given.forest.nodes.shape[0], given.scores.nodes.dtype
    empty = _Cells(jnp.full((N, levels), -jnp.inf, dtype), jnp.zeros(N, jnp.int32))
    return jax.lax.fori_loop(0, size_of(given.forest), of_node, empty)


def _best_of_levels(given: _Given, cells: _Cells) -> Array:
    """[L] the best score of whole trees."""
    size = size_of(given.forest)

    def of_node(node: Array, best: Array) -> Array:
        scores = cells.values[node] + given.scores.tops[node]
        return jnp.where(is_whole(given.forest, given.forest.nodes[node], size), jnp.maximum(best, scores), best)

    nothing = jnp.full(cells.values.shape[1], -jnp.inf, cells.values.dtype)
    return jax.lax.fori_loop(0, size, of_node, nothing)


def _top_node(given: _Given, cells: _Cells, level: Array) -> Array:
    """The best node over the whole sentence at a level, the lowest symbol of equal ones."""
    size = size_of(given.forest)

    def of_node(node: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        score = cells.values[node, level] + given.scores.tops[node]
        better = is_whole(given.forest, given.forest.nodes[node], size) & (score > best[0])
        return jnp.where(better, score, best[0]), jnp.where(better, node, best[1])

    nothing = jnp.asarray(-jnp.inf, cells.values.dtype), jnp.int32(0)
    return jax.lax.fori_loop(0, size, of_node, nothing)[1]


class _Way(NamedTuple):
    """What made a node at a level: the edge, and the levels of its parts."""

    value: Array
    edge: Array
    left: Array
    right: Array


def _best_way(given: _Given, cells: _Cells, node: Array, level: Array) -> _Way:
    """The first of equal ones by edge, then by the level of the left part."""
    below, last = level - given.counts[node], level == cells.values.shape[1] - 1

    def of_edge(edge: Array, best: _Way) -> _Way:
        _, left, right = given.forest.edges[edge]

        def of_left(a: Array, best: _Way) -> _Way:
            def of_right(b: Array, best: _Way) -> _Way:
                value = cells.values[left, a] + cells.values[right, b] + given.scores.edges[edge]
                new = _Way(value, edge, a, b)
                return jax.tree.map(lambda x, y: jnp.where(value > best.value, x, y), new, best)

            first, most = jnp.maximum(below - a, 0), cells.used[right]
            end = jnp.where(a <= below, jnp.minimum(first + 1, most), 0)
            return jax.lax.fori_loop(first, jnp.where(last, most, end), of_right, best)

        return jax.lax.fori_loop(0, cells.used[left], of_left, best)

    _, _, _, begin, end = given.forest.nodes[node]
    zero = jnp.int32(0)
    nothing = _Way(jnp.asarray(-jnp.inf, cells.values.dtype), zero, zero, zero)
    return jax.lax.fori_loop(begin, end, of_edge, nothing)


class _Walk(NamedTuple):
    """A tree on the way down: what stands at each place of the preorder, one place too many."""

    nodes: Array
    levels: Array
    tree: BinaryTree


def _placed(given: _Given, walk: _Walk, place: Array, node: Array, level: Array) -> _Walk:
    """A node among those to come, or its symbol above its token."""
    symbol, first, last, _, _ = given.forest.nodes[node]
    token = jnp.where(first == last, first, walk.tree.symbols.shape[0] - 1)
    place = jnp.where(first == last, walk.nodes.shape[0] - 1, place)
    symbols = put(walk.tree.symbols, token, symbol)
    return _Walk(
        put(walk.nodes, place, node), put(walk.levels, place, level),
        walk.tree._replace(symbols=symbols),
    )  # fmt: skip


def _tree(
    given: _Given, cells: _Cells, top: Array, level: Array, found: Array, tokens: int
) -> BinaryTree:
    """The tree below a top node at a level."""

    def step(n: Array, walk: _Walk) -> _Walk:
        node, level = walk.nodes[n], walk.levels[n]
        way = _best_way(given, cells, node, level)
        rule, left, right = given.forest.edges[way.edge]
        _, first, last, _, _ = given.forest.nodes[node]
        split = given.forest.nodes[left, 2] + 1
        inner = [put(old, n, new) for old, new in
                 zip(walk.tree[1:], (rule, first, split, last + 1), strict=True)]  # fmt: skip
        walk = walk._replace(tree=BinaryTree(walk.tree.symbols, *inner))
        walk = _placed(given, walk, n + 1, left, way.left)
        return _placed(given, walk, n + split - first, right, way.right)

    blank = jnp.full(tokens, PADDING, jnp.int32)
    zeros = jnp.zeros(tokens, jnp.int32)
    symbols = jnp.full(tokens + 1, PADDING, jnp.int32)
    walk = _Walk(zeros, zeros, BinaryTree(symbols, blank, blank, blank, blank))
    walk = _placed(given, walk, jnp.int32(0), top, level)
    turns = jnp.where(found, given.forest.nodes[top, 2], 0)
    tree = jax.lax.fori_loop(0, turns, step, walk).tree
    symbols = jnp.where(found, tree.symbols, PADDING)
    return BinaryTree(symbols[:-1], *(leaf[:-1] for leaf in tree[1:]))


def _best(
    tokens: int, forest: Forest, scores: ForestScores, counts: Array, offsets: Array,
    slopes: Array, valid: Array,
) -> ForestTree:  # fmt: skip
    given = _Given(forest, scores, counts)
    cells = _filled(given, offsets.shape[0])
    best = _best_of_levels(given, cells)
    usable = valid & (best > -jnp.inf)
    values = jnp.where(usable, offsets + slopes * jnp.where(usable, best, 0), -jnp.inf)
    value, level = first_best(values)
    top = _top_node(given, cells, level)
    return ForestTree(_tree(given, cells, top, level, value > -jnp.inf, tokens), value)


@cache
def _oracle(tokens: int):
    return of_one_example(column_by_column(partial(_best, tokens)))


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
    scores = jax.lax.stop_gradient(scores)
    dtype = scores.nodes.dtype
    if counts is None:
        counts, offsets = jnp.zeros(forest.nodes.shape[0], jnp.int32), jnp.zeros(1, dtype)
        slopes = jnp.ones(1, dtype)
    valid = jnp.ones(offsets.shape, bool) if valid is None else valid
    lines = jax.lax.stop_gradient((offsets.astype(dtype), slopes.astype(dtype)))
    return _oracle(tokens)(forest, scores, counts.astype(jnp.int32), *lines, valid)
