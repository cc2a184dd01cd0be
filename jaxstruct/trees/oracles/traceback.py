"""From the top node of a tree down to its tokens, in preorder, one node of all trees at a time.

What made a node is one of the terms that were reduced to its value: its first one that has this
value, or of several trees the one whose turn it is, or a draw. So are found, one after the other,
the group of its rule, the rule, and the term: a split, and of the k best the ranks of both parts.

A parent knows the preorder numbers of its children. The left child has the next number. The right
child comes after the w - 1 inner nodes of a left child of w tokens. So no stack is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.scores import drawn, finite_or_zero
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.oracles.recursion import Charts, Sentences, part_rows, rank_pairs, row
from jaxstruct.trees.oracles.rule_runs import BLOCK, GROUP
from jaxstruct.trees.potentials import PADDING


class Node(NamedTuple):
    """One node of each tree, on axes [.., B].

    Fields:
      symbol, begin, end: int32; begin..end - 1 are its tokens.
      rank: int32, which of the best trees below it is wanted.
    """

    symbol: Array
    begin: Array
    end: Array
    rank: Array


class Choice(NamedTuple):
    """What a search found for a node: rule, tokens in the left part, ranks of the children."""

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
    index = lift(jnp.arange(old.shape[0], dtype=jnp.int32), place)
    return jnp.where(index == place[None], value[None], old)


def _place(trees: _Trees, place: Array, child: Node, wanted: Array) -> _Trees:
    """A child among the nodes, or its symbol above its token."""
    inner = wanted & (child.end - child.begin > 1)
    place = jnp.where(inner, place, trees.nodes.begin.shape[0])
    nodes = jax.tree.map(lambda value, old: _at(place, value, old), child, trees.nodes)
    token = jnp.where(wanted & ~inner, child.begin, trees.tree.symbols.shape[0])
    symbols = _at(token, child.symbol, trees.tree.symbols)
    return _Trees(nodes, trees.tree._replace(symbols=symbols))


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


def _numbers(count: int, like: Array) -> Array:
    """0..count - 1 beside an array."""
    return lift(jnp.arange(count, dtype=jnp.int32), like)


class OfValue:
    """What has the value of a node; of several groups, rules and terms the one whose turn it is."""

    def weigh(self, values: Array, goal: Array) -> Array:
        """How much each of some values counts for the node's own one."""
        return (values == goal).astype(jnp.int32)

    def choose(self, weights: Array, turn: Array, n: Array, stage: int) -> tuple[Array, Array]:
        """(place [.., B] among weights [X, .., B], the turn within it) of node n in preorder.

        Args:
          turn: how many of what counts come before. stage: 0 of groups, 1 of rules, 2 of terms.
        """
        del n, stage
        total = jnp.cumsum(weights, axis=0, dtype=jnp.int32)
        at = jnp.minimum(jnp.sum(total <= turn[None], axis=0, dtype=jnp.int32), len(weights) - 1)
        return at, turn - jnp.take_along_axis(total - weights, at[None], axis=0)[0]


class Drawn(OfValue):
    """A draw with the probabilities of the sums."""

    def __init__(self, noise: tuple[Array, ...]) -> None:
        """Noise [T - 1, X, B] of each stage, X at least as many as there are to choose from."""
        self.noise = noise

    def weigh(self, values: Array, goal: Array) -> Array:
        """As in `OfValue`; shares of the node: their exp cannot overflow."""
        return jnp.exp(values - finite_or_zero(goal))

    def choose(self, weights: Array, turn: Array, n: Array, stage: int) -> tuple[Array, Array]:
        """As in `OfValue`."""
        return drawn(jnp.log(weights), self.noise[stage][n, : len(weights)]), turn


OF_GROUP = BLOCK * GROUP
"""Rules of a group."""


def most_groups(rules: int) -> int:
    """At least as many groups as any symbol has, of so many rules."""
    return -(-rules // OF_GROUP)


def _search(given: Sentences, found: Charts, finder: OfValue, n: Array, node: Node) -> Choice:
    """(rule, split, ranks of both parts) of one node of each tree."""
    symbol, begin, end, rank = (leaf[None] for leaf in node)
    (cells, of_groups), potentials, table = found, given.potentials, given.table
    assert of_groups is not None, "a way back needs charts that keep the groups"
    width, where, at, k = end - begin, (begin, end - 1), row(end - begin, begin), cells.shape[1]
    goal, ranks = pick(cells, at, rank, symbol), _numbers(k, node.rank)
    same = (pick(cells, at, ranks, symbol) == goal) & (ranks < rank)
    turn = jnp.sum(same, axis=0, dtype=jnp.int32)

    place = _numbers(most_groups(len(table.rules.parents)), node.symbol)
    real = place < table.groups.counts[symbol]
    places = jnp.where(real, table.groups.starts[symbol] + place, 0)
    total = finder.weigh(pick(of_groups, at[None], ranks[:, None], places[None]), goal[None])
    total = jnp.sum(jnp.where(real[None], total, 0), axis=0, dtype=total.dtype)
    group, turn = finder.choose(total, turn, n, 0)

    rules = table.blocks.begins[symbol] + OF_GROUP * group[None] + _numbers(OF_GROUP, group)
    real = rules < table.blocks.ends[symbol]
    rules = jnp.minimum(rules, len(table.rules.parents) - 1)
    pairs = jnp.array(rank_pairs(k), jnp.int32)
    terms = len(pairs) * (width - 1)

    def parts(term: Array) -> tuple[Array, tuple[Array, Array]]:
        split, pair = jnp.divmod(jnp.minimum(term, terms - 1), len(pairs))
        return 1 + split, (pairs[pair, 0], pairs[pair, 1])

    def weights(rule: Array, term: Array) -> Array:
        """Of rules with one term, or of terms with one rule."""
        split, (left, right) = parts(term)
        rows = part_rows(width, begin, split)
        values = pick(cells, rows[0], left, table.rules.lefts[rule])
        values = values + pick(cells, rows[1], right, table.rules.rights[rule])
        values = values + pick(potentials.rules, rule)
        if potentials.spans is not None:
            values = values + pick(potentials.spans, *where, symbol)
        return jnp.where(term < terms, finder.weigh(values, goal), 0)

    def more(term: Array, total: Array) -> Array:
        return total + weights(rules, term)

    nothing = jnp.zeros(rules.shape, total.dtype)
    total = jax.lax.fori_loop(0, jnp.max(terms), more, nothing)
    at, turn = finder.choose(jnp.where(real, total, 0), turn, n, 1)
    rule = jnp.take_along_axis(rules, at[None], axis=0)
    most = len(pairs) * (potentials.lexical.shape[0] - 1)
    at, _ = finder.choose(weights(rule, _numbers(most, at)), turn, n, 2)
    split, ranks = parts(at[None])
    return Choice(rule[0], split[0], *(rank[0] for rank in ranks))


def trees_below(
    given: Sentences, found: Charts, symbol: Array, rank: Array, there: Array, finder: OfValue
) -> BinaryTree:
    """The trees below the nodes over whole sentences.

    Args:
      given, found: the batch and its charts.
      symbol, rank: [.., B] of the top nodes. there: [.., B] False where there is no tree.
      finder: of the terms.

    Returns:
      BinaryTree with axes [T, .., B] and [T - 1, .., B].
    """
    T, shape = given.potentials.lexical.shape[0], symbol.shape
    length, zeros = jnp.broadcast_to(given.length, shape), jnp.zeros((T - 1, *shape), jnp.int32)
    nothing, symbols = zeros + PADDING, jnp.full((T, *shape), PADDING, jnp.int32)
    blank = BinaryTree(symbols, nothing, nothing, nothing, nothing)
    top = Node(symbol, zeros[0], length, jnp.broadcast_to(rank, shape))
    trees = _Trees(Node(zeros, zeros, zeros + 2, zeros), blank)
    trees = _place(trees, zeros[0], top, there)

    def step(n: Array, trees: _Trees) -> _Trees:
        node = jax.tree.map(lambda leaf: leaf[n], trees.nodes)
        choice = _search(given, found, finder, n, node)
        wanted = there & (n < length - 1)
        split = node.begin + choice.split
        values = (choice.rule, node.begin, split, node.end)
        inner = [jnp.where(wanted, value, PADDING).astype(jnp.int32) for value in values]
        inner = [old.at[n].set(value) for old, value in zip(trees.tree[1:], inner, strict=True)]
        rules = given.table.rules
        left = Node(rules.lefts[choice.rule], node.begin, split, choice.left)
        right = Node(rules.rights[choice.rule], split, node.end, choice.right)
        trees = _Trees(trees.nodes, BinaryTree(trees.tree.symbols, *inner))
        trees = _place(trees, n + 1, left, wanted)
        return _place(trees, n + choice.split, right, wanted)

    return jax.lax.fori_loop(0, T - 1, step, trees).tree
