"""From the top node of a tree down to its tokens, in preorder, one node of all trees at a time.

What made a node is one of the terms that were reduced to its value: its first one that has this
value, or of several trees the one whose turn it is, or a draw. So are found, one after the other,
the group of its rule, the rule, and the term.

A parent knows the preorder numbers of its children. The left child has the next number. The right
child comes after the w - 1 inner nodes of a left child of w tokens. So no stack is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxstruct.core.draws import drawn
from jaxstruct.core.finite import finite_or_zero
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.oracles.chart_levels import NodeCounts, levels_below
from jaxstruct.trees.oracles.charts import Layout
from jaxstruct.trees.oracles.recursion import Charts, Sentences, term_rows
from jaxstruct.trees.oracles.rule_runs import BLOCK, GROUP
from jaxstruct.trees.potentials import PADDING


class Node(NamedTuple):
    """One node of each tree, on axes [.., B].

    Fields:
      symbol, begin, end: int32; begin..end - 1 are its tokens.
      state: what else the search must know of it, one integer: its level, or its rank.
    """

    symbol: Array
    begin: Array
    end: Array
    state: Array


class Choice(NamedTuple):
    """What a search found for a node: rule, tokens in the left part, states of the children."""

    rule: Array
    split: Array
    left: Array
    right: Array


class _Trees(NamedTuple):
    """The nodes in preorder [T - 1, .., B], and the tree so far. Nodes not yet met are 0."""

    nodes: Node
    tree: BinaryTree


def _at(place: Array, value: Array, old: Array) -> Array:
    """`old` [n, .., B] with values [.., B] written at places [.., B] of axis 0.

    A place beyond the axis writes nothing.
    """
    index = jnp.arange(old.shape[0], dtype=jnp.int32).reshape(-1, *(1,) * place.ndim)
    return jnp.where(index == place[None], value[None], old)


def _place(trees: _Trees, place: Array, child: Node, wanted: Array) -> _Trees:
    """A child among the nodes, or its symbol above its token."""
    inner = wanted & (child.end - child.begin > 1)
    place = jnp.where(inner, place, trees.nodes.begin.shape[0])
    nodes = jax.tree.map(lambda value, old: _at(place, value, old), child, trees.nodes)
    token = jnp.where(wanted & ~inner, child.begin, trees.tree.symbols.shape[0])
    symbols = _at(token, child.symbol, trees.tree.symbols)
    return _Trees(nodes, trees.tree._replace(symbols=symbols))


def trace_back(
    tokens: int,
    length: Array,
    top: Node,
    found: Array,
    children: tuple[Array, Array],
    search: Callable[[Array, Node], Choice],
) -> BinaryTree:
    """The trees below top nodes.

    Args:
      tokens: T.
      length: [.., B] of the sentence.
      top: the node over the sentence. found: [.., B] False where there is no tree.
      children: [R] left and right symbols of the rules.
      search: of the number of nodes in preorder and the nodes, of at least two tokens: what made
        them.

    Returns:
      BinaryTree with axes [T, .., B] and [T - 1, .., B].
    """
    shape = top.symbol.shape
    nothing = jnp.full((tokens - 1, *shape), PADDING, jnp.int32)
    symbols = jnp.full((tokens, *shape), PADDING, jnp.int32)
    zeros = jnp.zeros((tokens - 1, *shape), jnp.int32)
    blank = Node(zeros, zeros, zeros + 2, zeros)
    trees = _Trees(blank, BinaryTree(symbols, nothing, nothing, nothing, nothing))
    trees = _place(trees, jnp.zeros(shape, jnp.int32), top, found)

    def step(n: Array, trees: _Trees) -> _Trees:
        node = jax.tree.map(lambda leaf: leaf[n], trees.nodes)
        choice = search(n, node)
        wanted = found & (n < length - 1)
        split = node.begin + choice.split
        values = (choice.rule, node.begin, split, node.end)
        inner = [jnp.where(wanted, value, PADDING).astype(jnp.int32) for value in values]
        inner = [old.at[n].set(value) for old, value in zip(trees.tree[1:], inner, strict=True)]
        left, right = (symbol[choice.rule] for symbol in children)
        trees = _Trees(trees.nodes, BinaryTree(trees.tree.symbols, *inner))
        trees = _place(trees, n + 1, Node(left, node.begin, split, choice.left), wanted)
        after_left = n + choice.split
        return _place(trees, after_left, Node(right, split, node.end, choice.right), wanted)

    return jax.lax.fori_loop(0, tokens - 1, step, trees).tree


def first_best(values: Array) -> tuple[Array, Array]:
    """(max, lowest index of it) along axis 0."""
    top = jnp.max(values, axis=0)
    count = values.shape[0]
    index = jnp.arange(count, dtype=jnp.int32).reshape(-1, *(1,) * (values.ndim - 1))
    where = jnp.min(jnp.where(values == top[None], index, count - 1), axis=0)
    return top, where


def pick(table: Array, *index: Array) -> Array:
    """table[index.., b] of a table [.., B] or [.., 1], with an index [.., B] for each other axis.

    Column b is read by sentence b; in bounds by promise.
    """
    shape = jnp.broadcast_shapes(*(part.shape for part in index))
    flat = jnp.zeros(shape, jnp.int32)
    for size, part in zip(table.shape[:-1], index, strict=True):
        flat = flat * size + jnp.broadcast_to(part, shape)
    if table.shape[-1] > 1:
        column = jnp.arange(table.shape[-1], dtype=jnp.int32).reshape(*(1,) * (len(shape) - 1), -1)
        flat = flat * table.shape[-1] + column
    return table.reshape(-1).at[flat].get(mode="promise_in_bounds")


def lift(index: Array, like: Array) -> Array:
    """[X] as [X, 1, .., 1] beside an array [.., B]."""
    return index.reshape(-1, *(1,) * like.ndim)


class Finder(Protocol):
    """Which of the terms, or groups, or rules, of a node made it.

    Fields:
      ranks: how many levels of a span hold what is reduced together.
    """

    ranks: int

    def weigh(self, values: Array, goal: Array) -> Array:
        """How much each of some values counts for the node's own one."""
        ...

    def choose(self, weights: Array, turn: Array, n: Array, stage: int) -> tuple[Array, Array]:
        """(place [.., B] among weights [X, .., B], the turn within it) of node n in preorder.

        Args:
          turn: how many of what counts come before. stage: 0 of groups, 1 of rules, 2 of terms.
        """
        ...


class OfValue:
    """What has the node's value; of several the one whose turn it is, the first of one rank."""

    def __init__(self, ranks: int = 1) -> None:
        """Of a rule that keeps so many ranks."""
        self.ranks = ranks

    def weigh(self, values: Array, goal: Array) -> Array:
        """As in `Finder`."""
        return (values == goal).astype(jnp.int32)

    def choose(self, weights: Array, turn: Array, n: Array, stage: int) -> tuple[Array, Array]:
        """As in `Finder`."""
        del n, stage
        if self.ranks == 1:
            return first_best(weights > 0)[1], turn
        total = jnp.cumsum(weights, axis=0, dtype=jnp.int32)
        at = jnp.minimum(jnp.sum(total <= turn[None], axis=0, dtype=jnp.int32), len(weights) - 1)
        return at, turn - jnp.take_along_axis(total - weights, at[None], axis=0)[0]


class Drawn:
    """A draw with the probabilities of the sums."""

    ranks = 1

    def __init__(self, noise: tuple[Array, ...]) -> None:
        """Noise [T - 1, X, B] of each stage, X at least as many as there are to choose from."""
        self.noise = noise

    def weigh(self, values: Array, goal: Array) -> Array:
        """As in `Finder`; shares of the node: their exp cannot overflow."""
        return jnp.exp(values - finite_or_zero(goal))

    def choose(self, weights: Array, turn: Array, n: Array, stage: int) -> tuple[Array, Array]:
        """As in `Finder`."""
        return drawn(jnp.log(weights), self.noise[stage][n, : len(weights)]), turn


OF_GROUP = BLOCK * GROUP
"""Rules of a group."""


def most_groups(rules: int) -> int:
    """At least as many groups as any symbol has, of so many rules."""
    return -(-rules // OF_GROUP)


def _group(
    given: Sentences, found: Charts, finder: Finder, symbol: Array, rows: tuple[Array, Array],
    goal: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """([X, .., B] how much each group counts, its row [1, .., B]), in the first row where any does.

    Args:
      symbol, rows, goal: [1, .., B].
    """
    groups, table, (first, last) = found.groups, given.table.groups, rows
    assert groups is not None, "a way back needs charts that keep the groups"
    places = lift(
        jnp.arange(most_groups(len(given.table.rules.parents)), dtype=jnp.int32), symbol[0]
    )
    real = places < table.counts[symbol]
    place = jnp.where(real, table.starts[symbol] + places, 0)
    ranks = lift(jnp.arange(finder.ranks, dtype=jnp.int32), place)

    def of_row(j: Array | int, best: tuple[Array, Array]) -> tuple[Array, Array]:
        row = jnp.maximum(last - j, first)
        weights = finder.weigh(pick(groups, row[None] + ranks, place[None]), goal[None])
        new = jnp.sum(jnp.where(real[None], weights, 0), axis=0, dtype=weights.dtype)
        hit = jnp.any(new > 0, axis=0, keepdims=True)
        return jnp.where(hit, new, best[0]), jnp.where(hit, row, best[1])

    nothing = jnp.zeros(real.shape, finder.weigh(goal, goal).dtype), first
    return jax.lax.fori_loop(0, jnp.max(last - first) + 1, of_row, nothing)


def _search(
    layout: Layout, given: Sentences, found: Charts, finder: Finder, counts: NodeCounts | None,
    n: Array, node: Node,
) -> Choice:  # fmt: skip
    """(rule, split, states of both parts) of one node of each tree."""
    symbol, begin, end, state = (leaf[None] for leaf in node)
    width, where, potentials, table = end - begin, (begin, end - 1), given.potentials, given.table
    base = layout.row(width, begin)
    goal = pick(found.cells, base + state, symbol)
    turn, levels = jnp.zeros_like(node.state), (base, base)
    if finder.ranks > 1:
        lower = lift(jnp.arange(finder.ranks, dtype=jnp.int32), node.state)
        same = pick(found.cells, base + lower, symbol) == goal
        turn = jnp.sum(same & (lower < state), axis=0, dtype=jnp.int32)
    if counts is not None:
        matched = pick(counts.matched, *where, symbol).astype(jnp.int32)
        predicted = 0 if counts.predicted is None else counts.predicted[symbol]
        below = levels_below(layout, width, state, matched, predicted)
        levels = base + below[0], base + below[1]
    total, row = _group(given, found, finder, symbol, levels, goal)
    group, turn = finder.choose(total, turn, n, 0)
    place = lift(jnp.arange(OF_GROUP, dtype=jnp.int32), group)
    rules = table.blocks.begins[symbol] + OF_GROUP * group[None] + place
    real = rules < table.blocks.ends[symbol]
    rules = jnp.minimum(rules, table.rules.parents.shape[0] - 1)
    first, stop = layout.terms_of(width, row - base)

    def weights(rule: Array, term: Array) -> Array:
        """Of rules with one term, or of terms with one rule."""
        own = pick(potentials.rules, *(() if potentials.rules.ndim == 2 else where), rule)
        there = term < stop
        left, right = term_rows(layout, width, begin, jnp.where(there, term, first))
        values = pick(found.cells, left, table.rules.lefts[rule])
        values = values + pick(found.cells, right, table.rules.rights[rule]) + own
        if potentials.spans is not None:
            values = values + pick(potentials.spans, *where, symbol)
        return jnp.where(there, finder.weigh(values, goal), 0)

    def more(j: Array, total: Array) -> Array:
        return total + weights(rules, first + j)

    nothing = jnp.zeros(rules.shape, finder.weigh(goal, goal).dtype)
    total = jax.lax.fori_loop(0, jnp.max(stop - first), more, nothing)
    at, turn = finder.choose(jnp.where(real, total, 0), turn, n, 1)
    rule = jnp.take_along_axis(rules, at[None], axis=0)
    terms = first + lift(jnp.arange(layout.most_terms, dtype=jnp.int32), at)
    at, _ = finder.choose(weights(rule, terms), turn, n, 2)
    term = jnp.minimum(first[0] + at, stop[0] - 1)
    return Choice(rule[0], *jnp.moveaxis(jnp.asarray(layout.terms)[term], -1, 0))


def trees_below(
    layout: Layout, given: Sentences, found: Charts, top: Node, there: Array,
    finder: Finder | None = None, counts: NodeCounts | None = None,
) -> BinaryTree:  # fmt: skip
    """The trees below top nodes [.., B].

    Args:
      layout, given, found: charts of the batch, and what they are of.
      top: of `top_node`. there: [.., B] False where there is no tree.
      finder: of the terms; None for the first ones that have the value. counts: as in `charts`.
    """
    children = given.table.rules.lefts, given.table.rules.rights
    search = partial(_search, layout, given, found, finder or OfValue(), counts)
    return trace_back(layout.tokens, top.end, top, there, children, search)


def top_node(given: Sentences, symbol: Array, state: Array) -> Node:
    """The node over the whole sentence, of symbols and states [.., B]."""
    length = jnp.broadcast_to(given.length, symbol.shape)
    return Node(symbol, jnp.zeros_like(length), length, jnp.broadcast_to(state, symbol.shape))
