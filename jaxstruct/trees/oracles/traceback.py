"""From the top node of a tree down to its tokens, in preorder, one node of all trees at a time.

A parent knows the preorder numbers of its children. The left child has the next number. The right
child comes after the w - 1 inner nodes of a left child of w tokens. So no stack is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, BinaryTree
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
    search: Callable[[Node], Choice],
) -> BinaryTree:
    """The trees below top nodes.

    Args:
      tokens: T.
      length: [.., B] of the sentence.
      top: the node over the sentence. found: [.., B] False where there is no tree.
      children: [R] left and right symbols of the rules.
      search: finds what made a node of at least two tokens.

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
        choice = search(node)
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
