"""From the charts back to what made a node: the group of its best rule, the rule, the term."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array
from jaxstruct.trees.oracles.best_charts import BestCharts, Sentences, term_rows
from jaxstruct.trees.oracles.chart_levels import NodeCounts, levels_below
from jaxstruct.trees.oracles.charts import Layout
from jaxstruct.trees.oracles.rule_runs import BLOCK, GROUP
from jaxstruct.trees.oracles.traceback import Choice, Node, first_best, pick


def group_rules(given: Sentences, symbol: Array, group: Array) -> tuple[Array, Array]:
    """[BLOCK GROUP, .., B] the rules of a symbol's group (0 is its first), and which are real."""
    blocks = given.table.blocks
    place = jnp.arange(BLOCK * GROUP, dtype=jnp.int32).reshape(-1, *(1,) * symbol.ndim)
    rules = blocks.begins[symbol][None] + group[None] * (BLOCK * GROUP) + place
    real = rules < blocks.ends[symbol][None]
    return jnp.minimum(rules, given.table.rules.parents.shape[0] - 1), real


def rule_scores(given: Sentences, node: Node, rules: Array, real: Array) -> Array:
    """Potentials of rules [X, .., B] over the spans of nodes, -inf where they are not real."""
    table = given.potentials.rules
    where = (rules,) if table.ndim == 2 else (node.begin[None], node.end[None] - 1, rules)
    return jnp.where(real, pick(table, *where), -jnp.inf)


def best_group(
    given: Sentences, charts: BestCharts, symbol: Array, rows: tuple[Array, Array]
) -> tuple[Array, Array]:
    """(row, group) of the best group of a symbol in rows first..last; ties to the first ones."""
    first, last = rows
    kept = charts.groups
    assert kept is not None, "a way back needs charts that keep the groups"
    groups = given.table.groups
    start, count = groups.starts[symbol], groups.counts[symbol]
    most = jnp.max(count)

    def body(j: Array, best: tuple) -> tuple:
        value, row, group = best
        this_row, this = first + j // most, j % most
        real = (this_row <= last) & (this < count)
        index = jnp.where(real, start + this, 0)
        new = pick(kept, jnp.where(real, this_row, 0), index)
        better = real & (new > value)
        pairs = ((new, value), (this_row, row), (this, group))
        return tuple(jnp.where(better, *pair) for pair in pairs)

    nothing = jnp.full(symbol.shape, -jnp.inf, kept.dtype)
    best = (nothing, first, jnp.zeros(symbol.shape, jnp.int32))
    return jax.lax.fori_loop(0, jnp.max(last - first + 1) * most, body, best)[1:]


def best_term(
    layout: Layout, given: Sentences, cells: Array, node: Node, level: Array, group: Array
) -> Choice:
    """The best rule of a group and its best term at a level; ties to the lowest rule, then term."""
    width = node.end - node.begin
    rules, real = group_rules(given, node.symbol, group)
    scores = rule_scores(given, node, rules, real)
    lefts, rights = given.table.rules.lefts[rules], given.table.rules.rights[rules]
    first, last = (jnp.asarray(layout.first_terms)[width, level + j] for j in (0, 1))

    def body(j: Array, best: tuple) -> tuple:
        value, place = best
        term = jnp.where(first + j < last, first + j, first)
        left, right = term_rows(layout, width, node.begin, term)
        parts = pick(cells, left[None], lefts) + pick(cells, right[None], rights)
        new = jnp.where((first + j < last)[None], parts + scores, -jnp.inf)
        better = new > value
        return jnp.where(better, new, value), jnp.where(better, term[None], place)

    nothing = jnp.full(scores.shape, -jnp.inf, cells.dtype)
    places = jnp.broadcast_to(first[None], scores.shape)
    value, places = jax.lax.fori_loop(0, jnp.max(last - first), body, (nothing, places))
    which = first_best(value)[1]
    rule, term = (jnp.take_along_axis(leaf, which[None], axis=0)[0] for leaf in (rules, places))
    return Choice(rule, *jnp.moveaxis(jnp.asarray(layout.terms)[term], -1, 0))


def _search(
    layout: Layout, given: Sentences, counts: NodeCounts | None, charts: BestCharts, node: Node
) -> Choice:
    width = node.end - node.begin
    levels = (node.state, node.state)
    if counts is not None:
        matched = pick(counts.matched, node.begin, node.end - 1, node.symbol)
        predicted = 0 if counts.predicted is None else counts.predicted[node.symbol]
        levels = levels_below(layout, width, node.state, matched.astype(jnp.int32), predicted)
    base = layout.row(width, node.begin)
    row, group = best_group(given, charts, node.symbol, (base + levels[0], base + levels[1]))
    return best_term(layout, given, charts.cells, node, row - base, group)


def best_search(
    layout: Layout, given: Sentences, charts: BestCharts, counts: NodeCounts | None = None
) -> partial:
    """The search of `traceback.trace_back` for best trees; the state of a node is its level."""
    return partial(_search, layout, given, counts, charts)
