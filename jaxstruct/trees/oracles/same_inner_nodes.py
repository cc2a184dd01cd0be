"""The best other tree with the same inner nodes: only symbols right above the tokens differ.

An inner node is a symbol over two tokens or more. Where all of them are given, the rule of each
node is free only in its children that are tokens, and every token is the child of one node. So the
nodes choose their rules one by one. (It is the level of loss 0 of the F1 of inner nodes.)
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.potentials import PADDING, GrammarRules, Parsed, TreePotentials, score_tree


class _Choice(NamedTuple):
    """The best other rule of an inner node, and what it adds to F; -inf where there is none."""

    rule: Array
    gain: Array


def _other_rule(
    rules: GrammarRules, potentials: TreePotentials, node: tuple[Array, Array, Array, Array]
) -> _Choice:
    rule, begin, split, end = node
    own = jnp.maximum(rule, 0)
    left, right = split - begin == 1, end - split == 1
    fits = rules.parents == rules.parents[own]
    fits &= left | (rules.lefts == rules.lefts[own])
    fits &= right | (rules.rights == rules.rights[own])
    scores = potentials.rules if potentials.rules.ndim == 1 else potentials.rules[begin, end - 1]
    scores += jnp.where(left, potentials.lexical[begin][rules.lefts], 0)
    scores += jnp.where(right, potentials.lexical[split][rules.rights], 0)
    others = jnp.where(fits, scores, -jnp.inf).at[own].set(-jnp.inf)
    best = jnp.argmax(others).astype(jnp.int32)
    found = (rule != PADDING) & (others[best] > -jnp.inf)
    return _Choice(best, jnp.where(found, others[best] - scores[own], -jnp.inf))


def _other_rules(
    rules: GrammarRules, potentials: TreePotentials, tree: BinaryTree, length: Array
) -> _Choice:
    """Of all inner nodes [T - 1]: the loop ends with those of the longest sentence of a batch."""
    nodes = tree[1:]

    def choose(n: Array, choices: _Choice) -> _Choice:
        node = tuple(leaf[n] for leaf in nodes)
        found = _other_rule(rules, potentials, node)
        return jax.tree.map(lambda to, new: to.at[n].set(new), choices, found)

    blank = _Choice(
        jnp.zeros(tree.rules.shape, jnp.int32),
        jnp.full(tree.rules.shape, -jnp.inf, potentials.lexical.dtype),
    )
    return jax.lax.fori_loop(0, length - 1, choose, blank)


def _of_one_token(potentials: TreePotentials, tree: BinaryTree) -> tuple[BinaryTree, Array]:
    """(tree, there): the best other symbol over a sentence of one token, if there is one."""
    tops = potentials.lexical[0] + potentials.root
    tops = tops.at[tree.symbols[0]].set(-jnp.inf)
    symbol = jnp.argmax(tops).astype(jnp.int32)
    return tree._replace(symbols=tree.symbols.at[0].set(symbol)), tops[symbol] > -jnp.inf


def _of_more_tokens(
    rules: GrammarRules, potentials: TreePotentials, tree: BinaryTree, length: Array
) -> tuple[BinaryTree, Array]:
    """Every rule that gains is taken; if none does, the one that costs least."""
    choice = _other_rules(rules, potentials, tree, length)
    taken = choice.gain > 0
    first = jnp.argmax(choice.gain)
    taken = taken.at[first].set(taken[first] | ~jnp.any(taken))
    number = jnp.where(taken, choice.rule, tree.rules)
    T, own, inner = tree.symbols.shape[0], jnp.maximum(number, 0), tree.rules != PADDING
    left = jnp.where(inner & (tree.splits - tree.begins == 1), tree.begins, T)
    right = jnp.where(inner & (tree.ends - tree.splits == 1), tree.splits, T)
    symbols = tree.symbols.at[left].set(rules.lefts[own], mode="drop")
    symbols = symbols.at[right].set(rules.rights[own], mode="drop")
    return tree._replace(symbols=symbols, rules=number), choice.gain[first] > -jnp.inf


def same_inner_nodes(
    rules: GrammarRules, potentials: TreePotentials, tree: BinaryTree, length: Array
) -> Parsed:
    """argmax F(y) over the trees y != `tree` that have the inner nodes of `tree`.

    Args:
      rules, potentials, length: as in `cky`.
      tree: BinaryTree of one sentence, int32, of finite score.

    Returns:
      Parsed; PADDING and -inf where there is no such tree. Ties go to `tree`'s own rule, then to
      the lowest rule, node by node; if all other rules cost the same, the first node takes one.

    Raises:
      ValueError: as `cky`.
    """
    rules, potentials, length = checked_sentence(rules, potentials, length)
    tree = BinaryTree(*(jnp.asarray(leaf, jnp.int32) for leaf in tree))
    several, found = _of_more_tokens(rules, potentials, tree, length)
    single, of_one = _of_one_token(potentials, tree)
    best = jax.tree.map(partial(jnp.where, length > 1), several, single)
    found = jnp.where(length > 1, found, of_one)
    best = jax.tree.map(lambda leaf: jnp.where(found, leaf, PADDING), best)
    return Parsed(best, score_tree(rules, potentials, best, length))
