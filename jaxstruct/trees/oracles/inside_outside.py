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
from jaxstruct.trees.oracles.best_charts import (
    Sentences,
    best_blocks,
    block_scores,
    block_values,
    row_of,
    scores_over,
    sentences,
    term_rows,
)
from jaxstruct.trees.oracles.charts import Layout, plain
from jaxstruct.trees.oracles.potential_checks import checked_sentence
from jaxstruct.trees.oracles.rule_runs import (
    BLOCK,
    GROUP,
    Runs,
    by_key,
    by_piece,
    larger,
    rows,
    runs,
)
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
      raw, cells: [rows, S, B] without and with the node's span scored.
      top: [S, B] of whole trees by symbol, brought to a largest of 0; shift: [B] what it was.
    """

    raw: Array
    cells: Array
    top: Array
    shift: Array


class _Order(NamedTuple):
    """Rules by one of their children.

    Fields:
      rules: [R] their numbers, sorted by the child.
      blocks, groups: runs of that list.
    """

    rules: Array
    blocks: Runs
    groups: Runs


def _add(a: Array, b: Array) -> Array:
    return a + b


def _total_by_key(blocks: Array, pieces: tuple[Runs, Runs]) -> Array:
    """[S, B] sums [N, B] over the blocks of each key."""
    return by_key(by_piece(blocks, pieces[1], _add, 0), pieces[1], _add, 0)


def _inside_of(layout: Layout, given: Sentences, scores: Array, cells: Array, span: tuple) -> Array:
    """[S, B] log sums over a span without its own score. The largest term is taken out first."""
    table, (width, begin) = given.table, span
    pieces = (table.blocks, table.groups)
    best = best_blocks(layout, given, scores, cells, span, 0)
    groups = by_piece(best, table.groups, larger, -jnp.inf)
    top = by_key(groups, table.groups, larger, -jnp.inf)
    shift = rows(finite_or_zero(top), jnp.minimum(table.blocks.keys, top.shape[0] - 1))
    first, last = (jnp.asarray(layout.first_terms)[width, j] for j in (0, 1))

    def body(term: Array, total: Array) -> Array:
        left, right = (row_of(cells, row) for row in term_rows(layout, width, begin, term))
        for values in block_values(given, scores, left, right):
            total = total + jnp.exp(values - shift)
        return total

    total = jax.lax.fori_loop(first, last, body, jnp.zeros(best.shape, best.dtype))
    return top + jnp.log(_total_by_key(total, pieces))


def _tokens(given: Sentences) -> Array:
    """[T, S, B] lexical potentials with 0 beyond the lengths."""
    lexical = given.potentials.lexical
    real = jnp.arange(lexical.shape[0])[:, None, None] < given.length[None, None]
    return jnp.broadcast_to(jnp.where(real, lexical, 0), (*lexical.shape[:2], given.batch))


def inside_sums(layout: Layout, given: Sentences) -> Inside:
    """Fill the chart of a batch upward."""
    tokens, constant = _tokens(given), block_scores(given)
    T, S, batch = tokens.shape
    empty = jnp.zeros((layout.size - T, S, batch), tokens.dtype)
    cells = jnp.concatenate([tokens, empty])
    spans = given.potentials.spans

    def fill(n: Array, filled: tuple[Array, Array]) -> tuple[Array, Array]:
        raw, cells = filled
        span = jnp.asarray(layout.widths)[n], jnp.asarray(layout.begins)[n]
        scores = scores_over(given, constant, span[1], span[0])
        new = _inside_of(layout, given, scores, cells, span)
        scored = new if spans is None else new + spans[span[1], span[1] + span[0] - 1]
        row = layout.row(*span)
        return raw.at[row].set(new), cells.at[row].set(scored)

    raw, cells = jax.lax.fori_loop(0, given.spans, fill, (cells, cells))
    place = given.length[None, None] - 1
    top = jnp.take_along_axis(cells[layout.whole], place, axis=0)[0] + given.potentials.root
    shift = jnp.max(top, axis=0)
    return Inside(raw, cells, top - finite_or_zero(shift)[None], shift)


def _log_partition(inside: Inside) -> Array:
    return inside.shift + jnp.log(jnp.sum(jnp.exp(inside.top), axis=0))


def _order(children: Array, symbols: int) -> _Order:
    rules = jnp.argsort(children)
    blocks = runs(children[rules], symbols, BLOCK)
    return _Order(rules, blocks, runs(blocks.keys, symbols, GROUP))


def _by_child(joint: Array, order: _Order) -> Array:
    """[S, B] sums of [R, B] over the rules that have a symbol as this child."""
    members, count = order.blocks.members, order.rules.shape[0]
    total = jnp.zeros((members.shape[1], joint.shape[1]), joint.dtype)
    for j in range(BLOCK):
        place = jnp.minimum(members[j], count - 1)
        new = rows(joint, order.rules[place])
        total = total + jnp.where((members[j] < count)[:, None], new, 0)
    return _total_by_key(total, (order.blocks, order.groups))


def _top_marginals(layout: Layout, inside: Inside, length: Array) -> tuple[Array, Array]:
    """([rows, S, B] with the probabilities of top nodes at their places, [S, B] these alone)."""
    weights = jnp.exp(inside.top)
    top = weights / positive_or_one(jnp.sum(weights, axis=0, keepdims=True))
    widths = jnp.arange(1, layout.tokens + 1)[:, None, None]
    placed = jnp.where(widths == length[None, None], top[None], 0)
    return jnp.zeros_like(inside.cells).at[layout.whole].set(placed), top


def _outside(layout: Layout, given: Sentences, inside: Inside) -> tuple[Array, Array, Array]:
    """([rows, S, B] p(node), expected counts of rules, [S, B] p(top node))."""
    S, R, T = inside.cells.shape[1], given.table.rules.parents.shape[0], layout.tokens
    parents, lefts, rights = given.table.rules
    by_left, by_right = (_order(children, S) for children in (lefts, rights))
    nodes, top = _top_marginals(layout, inside, given.length)
    table = given.potentials.rules
    constant = table.ndim == 2
    shape = (R, given.batch) if constant else (T, T, R, given.batch)

    def share(m: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        nodes, counts = carry
        n = given.spans - 1 - m
        width, begin = jnp.asarray(layout.widths)[n], jnp.asarray(layout.begins)[n]
        scores = table if constant else table[begin, begin + width - 1]
        row = layout.row(width, begin)
        below, node = row_of(inside.raw, row), row_of(nodes, row)
        weight = jnp.where(node > 0, jnp.log(node) - finite_or_zero(below), -jnp.inf)
        weight = rows(weight, parents)
        first, last = (jnp.asarray(layout.first_terms)[width, j] for j in (0, 1))

        def one_term(term: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            nodes, counts = carry
            places = term_rows(layout, width, begin, term)
            left, right = (row_of(inside.cells, place) for place in places)
            logs = rows(left, lefts) + rows(right, rights) + scores + weight
            joint = jnp.where(weight > -jnp.inf, jnp.exp(logs), 0)
            for place, order in zip(places, (by_left, by_right), strict=True):
                nodes = nodes.at[place].add(_by_child(joint, order))
            return nodes, counts + joint

        start = counts if constant else jnp.zeros((R, given.batch), counts.dtype)
        nodes, found = jax.lax.fori_loop(first, last, one_term, (nodes, start))
        return nodes, found if constant else counts.at[begin, begin + width - 1].set(found)

    start = (nodes, jnp.zeros(shape, inside.cells.dtype))
    nodes, counts = jax.lax.fori_loop(0, given.spans, share, start)
    return nodes, counts, top


def prepared(
    rules: GrammarRules, potentials: TreePotentials, length: Array
) -> tuple[Layout, Sentences]:
    """(layout, batch) of the arguments of a kernel."""
    return plain(potentials.lexical.shape[0]), sentences(rules, potentials, length)


def _value_kernel(rules: GrammarRules, potentials: TreePotentials, length: Array) -> Array:
    return _log_partition(inside_sums(*prepared(rules, potentials, length)))


def _marginals_kernel(
    rules: GrammarRules, potentials: TreePotentials, length: Array
) -> TreeMarginals:
    layout, given = prepared(rules, potentials, length)
    inside = inside_sums(layout, given)
    nodes, counts, top = _outside(layout, given, inside)
    T = layout.tokens
    places = (layout.begins, layout.begins + layout.widths - 1)
    spans = jnp.zeros((T, T, *nodes.shape[1:]), nodes.dtype)
    spans = spans.at[places].set(nodes[T : layout.rows])
    return TreeMarginals(nodes[:T], counts, top, spans, _log_partition(inside))


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
