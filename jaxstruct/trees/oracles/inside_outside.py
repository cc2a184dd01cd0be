"""Inside and outside: log sums over the trees of a sentence, their gradient, and exact samples.

    p(y) = exp(F(y) - log Z),    log Z = log sum_y exp F(y),

with F of `tree_potentials`. d log Z / d potential is the expected count of the potential under p.

Upwards (inside) it is CKY in logarithms, with log-sum-exp in place of the maximum. Downwards
(outside) the probability of each node is divided among its rules and splits,

    p(rule, split | node) = exp(inside(left) + inside(right) + rule + span - inside(node)),

so all numbers stay between 0 and 1. Samples are drawn downwards with these shares: the top symbol
from its probability, then at every node, in preorder, the group of its rule, the rule and the
split, each from the probabilities of all that there are (Johnson, Griffiths and Goldwater,
"Bayesian inference for PCFGs via Markov chain Monte Carlo", 2007, section 3).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.scores import drawn, finite_or_zero, noise, positive_or_one
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.oracles.recursion import (
    Charts,
    Sentences,
    Sums,
    charts,
    every_span,
    part_rows,
    row,
    row_of,
    sentences,
)
from jaxstruct.trees.oracles.rule_runs import rows
from jaxstruct.trees.oracles.traceback import OF_GROUP, Drawn, most_groups, trees_below
from jaxstruct.trees.potentials import GrammarRules, TreePotentials, checked_sentence


class TreeMarginals(NamedTuple):
    """Expected counts under p(y) of ONE sentence.

    Fields:
      lexical: [T, S] p(symbol over a token), 0 beyond the length.
      rules: [R] expected count of each rule.
      root: [S] p(symbol of the top node).
      spans: [T, T, S] p(a symbol over the tokens from the first to the last) of at least two
        tokens; else 0.
      log_partition: scalar log Z.
    """

    lexical: Array
    rules: Array
    root: Array
    spans: Array
    log_partition: Array


class Inside(NamedTuple):
    """Log sums over the trees below nodes, batch last.

    Fields:
      charts: of the nodes.
      top: [S, B] of whole trees by symbol, brought to a largest of 0; shift: [B] what it was.
    """

    charts: Charts
    top: Array
    shift: Array


def _inside(given: Sentences, keep: bool = False) -> Inside:
    """The log sums of a batch; with those of groups of rules to draw from."""
    found = charts(Sums(), given, keep)
    whole = jnp.take_along_axis(found.cells[:, 0], row(given.length, 0)[None, None], axis=0)
    top = whole[0] + given.potentials.root
    shift = jnp.max(top, axis=0)
    return Inside(found, top - finite_or_zero(shift)[None], shift)


def _log_partition(sums: Inside) -> Array:
    return sums.shift + jnp.log(jnp.sum(jnp.exp(sums.top), axis=0))


def _outside(given: Sentences, sums: Inside) -> tuple[Array, Array, Array]:
    """([rows, S, B] p(node), expected counts of rules, [S, B] p(top node))."""
    cells, longest = sums.charts.cells[:, 0], jnp.max(given.length)
    parents, *children = given.table.rules
    weights = jnp.exp(sums.top)
    top = weights / positive_or_one(jnp.sum(weights, axis=0, keepdims=True))
    whole = jnp.arange(len(cells))[:, None, None] == row(given.length, 0)[None, None]
    nodes = jnp.where(whole, top[None], 0)
    table, spans = given.potentials.rules, given.potentials.spans

    def of_end(n: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        end = longest - n
        return jax.lax.fori_loop(0, end - 1, partial(share, end), carry)

    def share(end: Array, m: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        nodes = carry[0]
        width, begin = end - m, m
        below, node = (row_of(each, row(width, begin)) for each in (cells, nodes))
        weight = jnp.where(node > 0, jnp.log(node) - finite_or_zero(below), -jnp.inf)
        weight = weight if spans is None else weight + spans[m, end - 1]
        weight = rows(weight, parents) + table
        real = rows(node, parents) > 0

        def of_split(split: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            nodes, counts = carry
            parts = list(zip(part_rows(width, begin, split), children, strict=True))
            left, right = (rows(row_of(cells, at), own) for at, own in parts)
            joint = jnp.where(real, jnp.exp(left + right + weight), 0)
            for at, own in parts:
                nodes = nodes.at[at, own].add(joint)
            return nodes, counts + joint

        return jax.lax.fori_loop(1, width, of_split, carry)

    start = nodes, jnp.zeros((len(parents), given.batch), cells.dtype)
    nodes, counts = jax.lax.fori_loop(0, longest - 1, of_end, start)
    return nodes, counts, top


def _value_kernel(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Array:
    return _log_partition(_inside(sentences(rules, potentials, length)))


def _marginals_kernel(
    rules: GrammarRules, potentials: TreePotentials, length: Array
) -> TreeMarginals:
    given = sentences(rules, potentials, length)
    sums = _inside(given)
    nodes, counts, top = _outside(given, sums)
    T = potentials.lexical.shape[0]
    begins, lasts = every_span(T)
    inner = begins < lasts
    spans = jnp.zeros((T, T, *nodes.shape[1:]), nodes.dtype)
    spans = spans.at[begins[inner], lasts[inner]].set(nodes[inner])
    return TreeMarginals(nodes[~inner], counts, top, spans, _log_partition(sums))


def _sample_kernel(
    rules: GrammarRules, potentials: TreePotentials, length: Array, top_noise: Array, *own: Array
) -> BinaryTree:
    given = sentences(rules, potentials, length)
    sums = _inside(given, keep=True)
    symbol = drawn(sums.top, top_noise)
    there = jnp.broadcast_to(sums.shift > -jnp.inf, symbol.shape)
    return trees_below(given, sums.charts, symbol, jnp.int32(0), there, Drawn(own))


_value = of_one_example(_value_kernel)
_marginals = of_one_example(_marginals_kernel)
_sample = of_one_example(_sample_kernel)


@jax.custom_vjp
def _differentiable(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Array:
    return _value(rules, potentials, length)


def _forward(
    rules: GrammarRules, potentials: TreePotentials, length: Array
) -> tuple[Array, TreePotentials]:
    found = _marginals(rules, potentials, length)
    spans = None if potentials.spans is None else found.spans
    return found.log_partition, TreePotentials(found.lexical, found.rules, found.root, spans)


def _backward(gradient: TreePotentials, cotangent: Array) -> tuple[None, TreePotentials, None]:
    return None, jax.tree.map(lambda count: cotangent * count, gradient), None


_differentiable.defvjp(_forward, _backward)


def log_partition(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Array:
    """log Z = log sum_y exp F(y) over all trees of one sentence.

    The gradient in a potential is its expected count under p(y) = exp(F(y) - log Z), as
    `rule_marginals` gives it. It is 0 in a forbidden potential (-inf). Only first derivatives in
    reverse mode exist. JAX raises an error for any other.

    Args:
      rules, potentials, length: as in `cky`.

    Returns:
      A scalar. Where there is no parse it is -inf, and the gradient is 0.

    Raises:
      ValueError: as `cky`.

    Source: Baker 1979; Lari and Young 1990.
    """
    return _differentiable(*checked_sentence(rules, potentials, length))


def rule_marginals(rules: GrammarRules, potentials: TreePotentials, length: Array) -> TreeMarginals:
    """Expected counts of rules, symbols over tokens and over spans, under p(y) = exp(F(y) - log Z).

    Args:
      rules, potentials, length: as in `cky`.

    Returns:
      TreeMarginals. Symbols over a token sum to 1, rules to l - 1. Where there is no parse
      log_partition is -inf and all else is 0.

    Raises:
      ValueError: as `cky`.
    """
    return _marginals(*checked_sentence(rules, potentials, length))


def sample_tree(
    rules: GrammarRules, potentials: TreePotentials, length: Array, key: Array
) -> BinaryTree:
    """One tree drawn from p(y) = exp(F(y) - log Z).

    Args:
      rules, potentials, length: as in `cky`.
      key: a random key of its own for every tree; `vmap` over keys alone draws many trees of one
        sentence and fills its chart once.

    Returns:
      A BinaryTree with PADDING beyond the length, and throughout where there is no parse. A
      forbidden tree is never drawn. Probabilities are exact up to the rounding of sums.

    Raises:
      ValueError: as `cky`.
    """
    checked = checked_sentence(rules, potentials, length)
    lexical = checked[1].lexical
    T, S = lexical.shape
    stages = most_groups(len(checked[0].parents)), OF_GROUP, T - 1
    shapes = (S,), *((T - 1, size) for size in stages)
    keys = jax.random.split(key, len(shapes))
    own = (noise(key, shape, lexical.dtype) for key, shape in zip(keys, shapes, strict=True))
    return _sample(*checked, *own)
