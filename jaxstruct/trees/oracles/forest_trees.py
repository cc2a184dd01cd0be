"""The best tree of a forest at every level of its nodes' counts: CKY over the edges that there are.

    cells[node, m] = max over the edges of the node, and levels a of the left, b of the right part,
                     of cells[left, a] + cells[right, b] + edges[edge],    m = a + b + counts[node]

and the node's own score is added. A level stands for the sum of the counts of a tree's nodes; the
last one also for all larger sums. With one level this is CKY, with two and the nodes that the true
tree lacks the best wrong tree, with all the maximum over the values of a loss (thesis 4.5.2).

A forest has some dozens of edges, so all of it is one loop over single numbers (`core.in_turn`).
Where a sentence has no forest the same search goes over all nodes of its chart (`Chart`).

Inside and outside over a forest: upwards the log sums of nodes are taken over their edges,
downwards the probability of a node is divided among them, as `inside_outside` does on charts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from jaxstruct.core.in_turn import entry, in_turn, put
from jaxstruct.core.scores import finite_or_zero
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.forests import Forest
from jaxstruct.trees.oracles.recursion import every_span, part_rows, row
from jaxstruct.trees.potentials import PADDING, GrammarRules, TreePotentials


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


class Edge(NamedTuple):
    """A rule that makes a node of two nodes, and its score."""

    rule: Array
    left: Array
    right: Array
    score: Array


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

    def span(self, node: Array) -> tuple[Array, Array]:
        """Its first and last token."""
        return entry(self.forest.nodes, node, 1), entry(self.forest.nodes, node, 2)

    def edges(self, node: Array) -> tuple[Array, Array]:
        """(first, end) of its edges, none of a token."""
        return entry(self.forest.nodes, node, 3), entry(self.forest.nodes, node, 4)

    def edge(self, scores: ForestScores, node: Array, edge: Array) -> Edge:
        """One edge of a node."""
        del node
        rule, left, right = (entry(self.forest.edges, edge, column) for column in range(3))
        return Edge(rule, left, right, entry(scores.edges, edge))


class Chart(NamedTuple):
    """All nodes that a sentence may have, those of each span by symbol, with all edges, as `Nodes`.

    An edge is a place among the rules of its node times the splits of its span.

    Fields:
      rules: [R]. starts: [S + 1] the first rule of each symbol, and R.
      spans: [rows, 2] first and last token of each row of charts. size: as in `Nodes`.
    """

    rules: GrammarRules
    starts: Array
    spans: Array
    size: Array

    def symbol(self, node: Array) -> Array:
        """As in `Nodes`."""
        return jax.lax.rem(node, self._symbols)

    def span(self, node: Array) -> tuple[Array, Array]:
        """As in `Nodes`."""
        at = jax.lax.div(node, self._symbols)
        return entry(self.spans, at, 0), entry(self.spans, at, 1)

    def edges(self, node: Array) -> tuple[Array, Array]:
        """As in `Nodes`."""
        (first, last), symbol = self.span(node), self.symbol(node)
        splits = last - first
        return splits * entry(self.starts, symbol), splits * entry(self.starts, symbol + 1)

    def edge(self, scores: ForestScores, node: Array, edge: Array) -> Edge:
        """As in `Nodes`."""
        first, last = self.span(node)
        rule = jax.lax.div(edge, last - first)
        split = 1 + edge - rule * (last - first)
        left, right = part_rows(last - first + 1, first, split)
        left = left * self._symbols + entry(self.rules.lefts, rule)
        right = right * self._symbols + entry(self.rules.rights, rule)
        return Edge(rule, left, right, entry(scores.edges, rule))

    @property
    def _symbols(self) -> Array:
        return jnp.int32(self.starts.shape[0] - 1)


Searched: TypeAlias = Nodes | Chart


def is_token(nodes: Searched, node: Array) -> Array:
    """Whether a node is over one token."""
    first, last = nodes.span(node)
    return first == last


def is_whole(nodes: Searched, node: Array) -> Array:
    """Whether a node is over the whole sentence, as the last one is."""
    last = nodes.span(jnp.maximum(nodes.size - 1, 0))[1]
    return (nodes.span(node)[0] == 0) & (nodes.span(node)[1] == last)


def nodes_of(forest: Forest) -> Nodes:
    """The nodes of the forest of one sentence, as oracles take them."""
    return Nodes(forest, jnp.sum(forest.nodes[:, 0] >= 0, dtype=jnp.int32))


def of_rows(table: Array) -> Array:
    """[rows S] of a table [T, T, S] of symbols over spans, in the order of the nodes of `Chart`."""
    return table[every_span(len(table))].reshape(-1)


def chart_of(
    rules: GrammarRules, potentials: TreePotentials, length: Array
) -> tuple[Chart, ForestScores]:
    """All nodes of a sentence, and the potentials of its parts."""
    T, S = potentials.lexical.shape
    begins, lasts = every_span(T)
    spans = 0 if potentials.spans is None else potentials.spans[begins, lasts]
    nodes = jnp.where((begins == lasts)[:, None], potentials.lexical[begins], spans)
    starts = jnp.searchsorted(rules.parents, jnp.arange(S + 1)).astype(jnp.int32)
    size = row(length, 0) * S + S
    chart = Chart(rules, starts, jnp.stack([begins, lasts], 1).astype(jnp.int32), size)
    tops = jnp.tile(potentials.root, len(begins))
    return chart, ForestScores(nodes.reshape(-1), potentials.rules, tops)


class _Given(NamedTuple):
    """What the search reads of one sentence."""

    nodes: Searched
    scores: ForestScores
    counts: Array


class _Cells(NamedTuple):
    """The best scores below nodes.

    Fields:
      values: [N, L]. used: [N] beyond the largest level that has a tree, 0 where none has.
    """

    values: Array
    used: Array


def _row_of_edges(given: _Given, cells: _Cells, node: Array) -> tuple[Array, Array]:
    """([L] best scores of an inner node over its edges, beyond its largest level)."""
    levels, count = cells.values.shape[1], entry(given.counts, node)

    def of_edge(edge: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        _, left, right, score = given.nodes.edge(given.scores, node, edge)
        most = entry(cells.used, left), entry(cells.used, right)

        def of_left(a: Array, row: Array) -> Array:
            value = entry(cells.values, left, a)

            def of_right(b: Array, row: Array) -> Array:
                level = jnp.minimum(a + b + count, levels - 1)
                new = value + entry(cells.values, right, b) + score
                return put(row, jnp.maximum(entry(row, level), new), level)

            return jax.lax.fori_loop(0, jnp.where(value > -jnp.inf, most[1], 0), of_right, row)

        row = jax.lax.fori_loop(0, most[0], of_left, found[0])
        used = jnp.where(jnp.minimum(*most) > 0, most[0] + most[1] - 1 + count, 0)
        return row, jnp.maximum(found[1], used)

    nothing = jnp.full(levels, -jnp.inf, cells.values.dtype), jnp.int32(0)
    row, used = jax.lax.fori_loop(*given.nodes.edges(node), of_edge, nothing)
    return row, jnp.minimum(used, levels)


def _filled(given: _Given, levels: int) -> _Cells:
    def of_node(node: Array, cells: _Cells) -> _Cells:
        row, used = _row_of_edges(given, cells, node)
        level = jnp.minimum(entry(given.counts, node), levels - 1)
        alone = jnp.where(jnp.arange(levels) == level, 0, -jnp.inf).astype(row.dtype)
        token, score = is_token(given.nodes, node), entry(given.scores.nodes, node)
        row = jnp.where(token, alone, row) + score
        used = jnp.where(score > -jnp.inf, jnp.where(token, level + 1, used), 0)
        return _Cells(put(cells.values, row, node), put(cells.used, used, node))

    (N,), dtype = given.counts.shape, entry(given.scores.nodes, 0).dtype
    empty = _Cells(jnp.full((N, levels), -jnp.inf, dtype), jnp.zeros(N, jnp.int32))
    return jax.lax.fori_loop(0, given.nodes.size, of_node, empty)


def _tops(given: _Given, cells: _Cells) -> tuple[Array, Array]:
    """([L] best scores of whole trees, [L] their top nodes, the lowest symbol of equal ones)."""

    def of_node(node: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        scores = entry(cells.values, node) + entry(given.scores.tops, node)
        better = is_whole(given.nodes, node) & (scores > best[0])
        return jnp.where(better, scores, best[0]), jnp.where(better, node, best[1])

    levels, dtype = cells.values.shape[1], cells.values.dtype
    nothing = jnp.full(levels, -jnp.inf, dtype), jnp.zeros(levels, jnp.int32)
    return jax.lax.fori_loop(0, given.nodes.size, of_node, nothing)


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
        _, left, right, score = given.nodes.edge(given.scores, node, edge)
        most = entry(cells.used, right)

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


def _placed(nodes: Searched, walk: _Walk, place: Array, node: Array, level: Array) -> _Walk:
    """A node among those to come, or its symbol above its token."""
    token, first = is_token(nodes, node), nodes.span(node)[0]
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
        rule, left, right, _ = nodes.edge(given.scores, node, way.edge)
        (first, last), split = nodes.span(node), nodes.span(left)[1] + 1
        values = rule, first, split, last + 1
        inner = [put(old, new, n) for old, new in zip(walk.tree[1:], values, strict=True)]
        walk = walk._replace(tree=BinaryTree(walk.tree.symbols, *inner))
        walk = _placed(nodes, walk, n + 1, left, way.left)
        return _placed(nodes, walk, n + split - first, right, way.right)

    blank = jnp.full(tokens, PADDING, jnp.int32)
    zeros, symbols = jnp.zeros(tokens, jnp.int32), jnp.full(tokens + 1, PADDING, jnp.int32)
    walk = _Walk(zeros, zeros, BinaryTree(symbols, blank, blank, blank, blank))
    walk = _placed(nodes, walk, jnp.int32(0), top, level)
    turns = jnp.where(found, nodes.span(top)[1], 0)
    tree = jax.lax.fori_loop(0, turns, step, walk).tree
    symbols = jnp.where(found, tree.symbols, PADDING)
    return BinaryTree(symbols[:-1], *(leaf[:-1] for leaf in tree[1:]))


def _searched(
    levels: int, nodes: Searched, scores: ForestScores, counts: Array
) -> tuple[_Given, _Cells, Array, Array]:
    """What is read, all cells, and of each level the best score and the top node."""
    given = _Given(nodes._replace(size=entry(nodes.size)), scores, counts)
    cells = _filled(given, levels)
    return given, cells, *_tops(given, cells)


def _best(
    tokens: int, nodes: Searched, scores: ForestScores, counts: Array, *lines: Array
) -> ForestTree:
    offsets, slopes, valid = map(entry, lines)
    given, cells, best, tops = _searched(offsets.shape[0], nodes, scores, counts)
    usable = valid & (best > -jnp.inf)
    values = jnp.where(usable, offsets + slopes * jnp.where(usable, best, 0), -jnp.inf)
    level = jnp.argmax(values).astype(jnp.int32)
    value = values[level]
    return ForestTree(_tree(given, cells, tops[level], level, value > -jnp.inf, tokens), value)


def _every(
    tokens: int, levels: int, nodes: Searched, scores: ForestScores, counts: Array
) -> BinaryTree:
    given, cells, best, tops = _searched(levels, nodes, scores, counts)

    def of_level(level: Array) -> BinaryTree:
        return _tree(given, cells, tops[level], level, best[level] > -jnp.inf, tokens)

    return jax.lax.map(of_level, jnp.arange(levels, dtype=jnp.int32))


@cache
def _oracle(tokens: int, levels: int | None = None) -> Callable:
    return in_turn(partial(_best, tokens) if levels is None else partial(_every, tokens, levels))


def best_forest_tree(
    nodes: Searched, scores: ForestScores, tokens: int, counts: Array | None = None,
    lines: tuple[Array, Array, Array] | None = None,
) -> ForestTree:  # fmt: skip
    """The tree of the level that maximises offsets[m] + slopes[m] F_m; see the module for F_m.

    Args:
      nodes: of ONE sentence. scores: of its parts; no derivative is taken.
      tokens: T, static.
      counts: [N] int32 >= 0, what each node adds to the level; None for one level, the best tree.
      lines: offsets, slopes >= 0 and whether a level counts, [L] each; given with counts.

    Returns:
      ForestTree. Ties go to the lowest level, then to the lowest symbol of the top node, then, node
      by node in preorder, to the lowest rule, split, and level of the left part; within the last
      level, where it stands for several sums, to any of these.
    """
    dtype = scores.nodes.dtype
    if counts is None or lines is None:
        counts = jnp.zeros(scores.nodes.shape[0], jnp.int32)
        lines = jnp.zeros(1), jnp.ones(1), jnp.ones(1, bool)
    offsets, slopes, valid = lines
    lines = offsets.astype(dtype), slopes.astype(dtype), valid
    return _oracle(tokens)(nodes, *jax.lax.stop_gradient((scores, counts, *lines)))


def forest_level_trees(
    nodes: Searched, scores: ForestScores, tokens: int, counts: Array, levels: int
) -> BinaryTree:
    """[L] the best tree of each level, PADDING where there is none; as `best_forest_tree`."""
    return _oracle(tokens, levels)(nodes, *jax.lax.stop_gradient((scores, counts)))


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


def _top_sums(nodes: Nodes, scores: ForestScores, inside: _Inside) -> Array:
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
    return _log_partition(_top_sums(nodes, scores, _inside(nodes, scores)))


def _marginals(nodes: Nodes, scores: ForestScores) -> tuple[Array, ForestScores]:
    """(log Z, probabilities of nodes, of edges, and of nodes as top nodes)."""
    nodes = nodes._replace(size=entry(nodes.size))
    inside = _inside(nodes, scores)
    tops = _top_sums(nodes, scores, inside)
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
