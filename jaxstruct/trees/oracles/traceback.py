"""From the top node of a tree down to its tokens, in preorder, one node of all trees at a time.

What made a node is one of the terms that were reduced to its value: its first one that has this
value, or of several trees the one whose turn it is, or a draw. So are found, one after the other,
the group of its rule, the rule, and the term: the split and the places of both parts.

A parent knows the preorder numbers of its children. The left child has the next number. The right
child comes after the w - 1 inner nodes of a left child of w tokens. So no stack is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.oracles.recursion import Best, Charts, Sentences, first_best, lift, row
from jaxstruct.trees.oracles.rule_runs import BLOCK, GROUP
from jaxstruct.trees.potentials import PADDING


class Node(NamedTuple):
    """One node of each tree, on axes [.., B].

    Fields:
      symbol, begin, end: int32; begin..end - 1 are its tokens.
      state: its place in the cell: a level, or a rank.
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


OF_GROUP = BLOCK * GROUP
"""Rules of a group."""


def most_groups(rules: int) -> int:
    """At least as many groups as any symbol has, of so many rules."""
    return -(-rules // OF_GROUP)


class _Made(NamedTuple):
    """One node of each tree, whose fields are [1, .., B], and what it may have been made of.

    Fields:
      goal: its value. own: what it adds to p and m.
      used: [rows, P, 1] beyond the last m with a tree, or None without levels.
    """

    rule: Best
    given: Sentences
    found: Charts
    node: Node
    goal: Array
    own: tuple[Array | int, Array | int]
    used: Array | None

    @property
    def where(self) -> tuple[Array, Array]:
        """First and last token."""
        return self.node.begin, self.node.end - 1

    def parts(self, split: Array, pair: Array) -> tuple[Array, Array, Array]:
        """(left place, first and end of the right ones) of a split and a pair of places."""
        width = self.node.end - self.node.begin
        left, first, end = self.rule.parts(pair, self.node.state, self.own)
        there = split < width
        if self.used is not None:
            split = jnp.minimum(split, width - 1)
            there = there & pick(self.found.reached[..., None], row(split, self.node.begin), left)
            p, other = first // self.rule.spread, row(width - split, self.node.begin + split)
            end = jnp.minimum(end, p * self.rule.spread + pick(self.used, other, p))
        return left, first, jnp.where(there, jnp.maximum(end, first), first)

    def terms(self) -> tuple[Array, Array]:
        """[X, 1, .., B] numbers of the terms that there may be, and how many, [1, .., B]."""
        pairs, shape = self.rule.pairs, self.goal.shape
        terms = jnp.arange((self.given.tokens - 1) * pairs, dtype=jnp.int32)
        terms = lift(terms, self.goal[0])
        _, first, end = self.parts(terms // pairs + 1, terms % pairs)
        there = jnp.broadcast_to(end > first, (len(terms), *shape[1:])).reshape(len(terms), -1)
        columns = jnp.arange(there.shape[1])[None]
        places = jnp.where(there, jnp.cumsum(there, axis=0, dtype=jnp.int32) - 1, len(terms))
        kept = jnp.zeros(there.shape, jnp.int32)
        kept = kept.at[places, columns].set(terms.reshape(-1, 1), mode="drop")
        count = jnp.sum(there, axis=0, dtype=jnp.int32)
        return kept.reshape(-1, *shape), count.reshape(shape)

    def weight(self, rule: Array, split: Array, left: Array, right: Array) -> Array:
        """How much the terms of some rules, splits and places of the parts count."""
        _, begin, end, _ = self.node
        given, cells = self.given, self.found.cells
        potentials, table, where = given.potentials, given.table.rules, self.where
        own = pick(potentials.rules, *(() if potentials.rules.ndim == 2 else where), rule)
        values = pick(cells, row(split, begin), left, table.lefts[rule])
        other = row(end - begin - split, begin + split)
        values = values + pick(cells, other, right, table.rights[rule]) + own
        if potentials.spans is not None:
            values = values + pick(potentials.spans, *where, self.node.symbol)
        return self.rule.weigh(values, self.goal)

    def weights(self, rules: Array, split: Array, pair: Array) -> Array:
        """How much rules, splits or pairs of places count, over all right places."""
        left, first, end = self.parts(split, pair)
        split = jnp.minimum(split, self.node.end - self.node.begin - 1)

        def more(n: Array | int, total: Array) -> Array:
            right = jnp.minimum(first + n, self.rule.places - 1)
            return total + jnp.where(first + n < end, self.weight(rules, split, left, right), 0)

        shape = jnp.broadcast_shapes(rules.shape, end.shape)
        nothing = jnp.zeros(shape, self.rule.weigh(self.goal, self.goal).dtype)
        if self.rule.spread == 1:
            return more(0, nothing)
        return jax.lax.fori_loop(0, jnp.max(end - first), more, nothing)

    def right_place(self, rule: Array, split: Array, pair: Array) -> Array:
        """The first of the right places that made it."""
        left, first, end = self.parts(split, pair)
        if self.rule.spread == 1:
            return first
        right = first + lift(jnp.arange(self.rule.spread, dtype=jnp.int32), split[0])
        weights = self.weight(rule, split, left, jnp.minimum(right, self.rule.places - 1))
        return first + first_best((weights > 0) & (right < end))[1][None]


def _turn(made: _Made, at: Array) -> Array:
    """How many lower ranks have the same value."""
    (symbol, _, _, state), ranks = made.node, made.rule.ranks
    if ranks == 1:
        return jnp.zeros_like(state[0])
    lower = lift(jnp.arange(ranks, dtype=jnp.int32), state[0])
    same = pick(made.found.cells, at, lower, symbol) == made.goal
    return jnp.sum(same & (lower < state), axis=0, dtype=jnp.int32)


def _groups(made: _Made, at: Array) -> Array:
    """[X, .., B] how much each group of the node's symbol counts."""
    groups, table, symbol = made.found.groups, made.given.table, made.node.symbol
    assert groups is not None, "a way back needs charts that keep the groups"
    count = most_groups(len(table.rules.parents))
    places = lift(jnp.arange(count, dtype=jnp.int32), symbol[0])
    real = places < table.groups.counts[symbol]
    place = jnp.where(real, table.groups.starts[symbol] + places, 0)
    ranks = made.node.state[None]
    if made.rule.ranks > 1:
        ranks = lift(jnp.arange(made.rule.ranks, dtype=jnp.int32), place)
    weights = made.rule.weigh(pick(groups, at[None], ranks, place[None]), made.goal[None])
    return jnp.sum(jnp.where(real[None], weights, 0), axis=0, dtype=weights.dtype)


def _search(rule: Best, given: Sentences, found: Charts, n: Array, node: Node) -> Choice:
    """(rule, split, states of both parts) of one node of each tree."""
    node = Node(*(leaf[None] for leaf in node))
    symbol, begin, end, state = node
    at, table, pairs = row(end - begin, begin), given.table, rule.pairs
    counts, used, p, m = given.counts, None, 0, 0
    if counts is not None:
        m = pick(counts.matched, begin, end - 1, symbol).astype(jnp.int32)
        p = 0 if counts.predicted is None else pick(counts.predicted, symbol)
    if found.reached is not None:
        reached = found.reached.reshape(-1, *rule.shape)
        used = jnp.max(jnp.where(reached, jnp.arange(1, rule.spread + 1), 0), 2, keepdims=True)
    made = _Made(rule, given, found, node, pick(found.cells, at, state, symbol), (p, m), used)
    group, turn = rule.pick(_groups(made, at), _turn(made, at), n, 0)
    most = min(OF_GROUP, len(table.rules.parents))
    place = lift(jnp.arange(most, dtype=jnp.int32), group)
    rules = table.blocks.begins[symbol] + OF_GROUP * group[None] + place
    real = rules < table.blocks.ends[symbol]
    rules = jnp.minimum(rules, table.rules.parents.shape[0] - 1)

    every, count = None, (jnp.max(end - begin) - 1) * pairs
    if made.used is not None:
        every, own = made.terms()
        count = jnp.max(own)

    def of_rules(n: Array, total: Array) -> Array:
        term = n if every is None else every[n]
        new = made.weights(rules, term // pairs + 1, term % pairs)
        return total + (new if every is None else jnp.where(n < own, new, 0))

    def of_splits(pair: Array | int, total: Array) -> Array:
        return total + made.weights(chosen, splits, pair)

    nothing = jnp.zeros(rules.shape, rule.weigh(made.goal, made.goal).dtype)
    total = jax.lax.fori_loop(0, count, of_rules, nothing)
    chosen, turn = rule.pick(jnp.where(real, total, 0), turn, n, 1)
    chosen = jnp.take_along_axis(rules, chosen[None], axis=0)
    splits = lift(jnp.arange(1, given.tokens, dtype=jnp.int32), group)
    nothing = jnp.zeros((len(splits), *group.shape), nothing.dtype)
    total = (
        of_splits(jnp.int32(0), nothing)
        if pairs == 1
        else jax.lax.fori_loop(0, pairs, of_splits, nothing)
    )
    split, turn = rule.pick(total, turn, n, 2)
    split = jnp.minimum(split[None] + 1, end - begin - 1)
    pair = jnp.zeros_like(split)
    if pairs > 1:
        every = lift(jnp.arange(pairs, dtype=jnp.int32), group)
        pair = rule.pick(made.weights(chosen, split, every), turn, n, 3)[0][None]
    left, right = made.parts(split, pair)[0], made.right_place(chosen, split, pair)
    return Choice(*(leaf[0] for leaf in jnp.broadcast_arrays(chosen, split, left, right)))


def trees_below(
    rule: Best, given: Sentences, found: Charts, symbol: Array, state: Array, there: Array
) -> BinaryTree:
    """The trees below top nodes [.., B] over whole sentences.

    Args:
      rule, given, found: charts of the batch, and what they are of.
      symbol, state: of the top nodes. there: [.., B] False where there is no tree.
    """
    length = jnp.broadcast_to(given.length, symbol.shape)
    top = Node(symbol, jnp.zeros_like(length), length, jnp.broadcast_to(state, symbol.shape))
    children = given.table.rules.lefts, given.table.rules.rights
    search = partial(_search, rule, given, found)
    return trace_back(given.tokens, top.end, top, there, children, search)
