"""Inside and outside: the log-partition function of a sentence, and its gradient, the marginals.

    p(y) = exp(F(y) - log Z),    log Z = log sum_y exp F(y),

with F of `tree_potentials`. d log Z / d potential is the expected count of the potential under p.

Upwards (inside) it is CKY in logarithms, with log-sum-exp in place of the maximum. Downwards
(outside) the probability of each node is divided among its rules and splits,

    p(rule, split | node) = exp(inside(left) + inside(right) + rule + span - inside(node)),

so all numbers stay between 0 and 1.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.batch_last import of_one_example
from jaxstruct.core.finite import finite_or_zero, positive_or_one
from jaxstruct.core.types import Array
from jaxstruct.trees.oracles.charts import Layout, plain
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.oracles.recursion import (
    Charts,
    Sentences,
    Sums,
    charts,
    row_of,
    sentences,
    term_rows,
)
from jaxstruct.trees.oracles.rule_runs import rows
from jaxstruct.trees.potentials import GrammarRules, TreePotentials


class TreeMarginals(NamedTuple):
    """Expected counts under p(y) of ONE sentence.

    Fields:
      lexical: [T, S] p(symbol over a token), 0 beyond the length.
      rules: [R] expected count of each rule; [T, T, R] of a rule over a span where the potentials
        depend on it.
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


def inside(layout: Layout, given: Sentences, keep: bool = False) -> Inside:
    """The log sums of a batch; with those of groups of rules to draw from."""
    found = charts(Sums(), layout, given, keep=keep)
    whole = jnp.take_along_axis(found.cells[layout.whole], given.length[None, None] - 1, axis=0)
    top = whole[0] + given.potentials.root
    shift = jnp.max(top, axis=0)
    return Inside(found, top - finite_or_zero(shift)[None], shift)


def _log_partition(sums: Inside) -> Array:
    return sums.shift + jnp.log(jnp.sum(jnp.exp(sums.top), axis=0))


def _outside(layout: Layout, given: Sentences, sums: Inside) -> tuple[Array, Array, Array]:
    """([rows, S, B] p(node), expected counts of rules, [S, B] p(top node))."""
    cells, T = sums.charts.cells, layout.tokens
    parents, *children = given.table.rules
    weights = jnp.exp(sums.top)
    top = weights / positive_or_one(jnp.sum(weights, axis=0, keepdims=True))
    whole = jnp.arange(1, T + 1)[:, None, None] == given.length[None, None]
    nodes = jnp.zeros_like(cells).at[layout.whole].set(jnp.where(whole, top[None], 0))
    table, spans = given.potentials.rules, given.potentials.spans
    constant = table.ndim == 2
    shape = len(parents), given.batch

    def share(m: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        nodes, counts = carry
        n = given.spans - 1 - m
        width, begin = jnp.asarray(layout.widths)[n], jnp.asarray(layout.begins)[n]
        place = begin, begin + width - 1
        below, node = (row_of(each, layout.row(width, begin)) for each in (cells, nodes))
        weight = jnp.where(node > 0, jnp.log(node) - finite_or_zero(below), -jnp.inf)
        weight = weight if spans is None else weight + spans[place]
        weight = rows(weight, parents) + (table if constant else table[place])
        real = rows(node, parents) > 0

        def of_term(term: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            nodes, counts = carry
            parts = list(zip(term_rows(layout, width, begin, term), children, strict=True))
            left, right = (rows(row_of(cells, row), own) for row, own in parts)
            joint = jnp.where(real, jnp.exp(left + right + weight), 0)
            for row, own in parts:
                nodes = nodes.at[row, own].add(joint)
            return nodes, counts + joint

        start = nodes, counts if constant else jnp.zeros(shape, counts.dtype)
        nodes, found = jax.lax.fori_loop(*layout.terms_of(width, 0), of_term, start)
        return nodes, found if constant else counts.at[place].set(found)

    start = nodes, jnp.zeros(shape if constant else (T, T, *shape), cells.dtype)
    nodes, counts = jax.lax.fori_loop(0, given.spans, share, start)
    return nodes, counts, top


def prepared(
    rules: GrammarRules, potentials: TreePotentials, length: Array
) -> tuple[Layout, Sentences]:
    """(layout, batch) of the arguments of a kernel."""
    return plain(potentials.lexical.shape[0]), sentences(rules, potentials, length)


def _value_kernel(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Array:
    return _log_partition(inside(*prepared(rules, potentials, length)))


def _marginals_kernel(
    rules: GrammarRules, potentials: TreePotentials, length: Array
) -> TreeMarginals:
    layout, given = prepared(rules, potentials, length)
    sums = inside(layout, given)
    nodes, counts, top = _outside(layout, given, sums)
    T = layout.tokens
    places = (layout.begins, layout.begins + layout.widths - 1)
    spans = jnp.zeros((T, T, *nodes.shape[1:]), nodes.dtype)
    spans = spans.at[places].set(nodes[T : layout.rows])
    return TreeMarginals(nodes[:T], counts, top, spans, _log_partition(sums))


_value = of_one_example(_value_kernel)
_marginals = of_one_example(_marginals_kernel)


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
