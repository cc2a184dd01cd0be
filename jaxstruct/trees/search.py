"""The oracles of a weighted grammar over one sentence: in its forest, or over charts of all rules.

Where the sentence has a forest it is searched: of 64 sentences of GUM the best tree takes 9 us a
sentence and the best of all numbers of matched nodes 23, over charts 114 and 2,054. Charts have
sums for samples and the k best, and serve potentials that no grammar file stands behind; for levels
all their nodes are searched as those of a forest. Both answer alike, ties included. `Parts` are the
potentials that either reads.
"""

from __future__ import annotations

from typing import TypeAlias

import jax.numpy as jnp

from jaxstruct.core.contract import Truth
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.forests import Forest
from jaxstruct.trees.losses import Stratification, true_symbols
from jaxstruct.trees.oracles.forest_trees import (
    ForestScores,
    ForestTree,
    best_forest_tree,
    chart_of,
    forest_log_partition,
    nodes_of,
    of_rows,
)
from jaxstruct.trees.oracles.inside_outside import log_partition
from jaxstruct.trees.oracles.k_best_trees import cky
from jaxstruct.trees.parts import GrammarTables, TreeTheta, lexical_place, tree_potentials
from jaxstruct.trees.potentials import TreePotentials

Parts: TypeAlias = ForestScores | TreePotentials


def forest_of(theta: TreeTheta) -> Forest:
    """The forest of a sentence that has one."""
    return Forest(*map(jnp.asarray, theta.x.forest))


def on_charts(theta: TreeTheta) -> TreeTheta:
    """theta of the same sentence without its forest."""
    return theta._replace(x=theta.x._replace(forest=None))


def node_places(tables: GrammarTables, theta: TreeTheta) -> tuple[Array, Array, Array]:
    """(first token, last token, symbol) of all nodes: [N] of the forest, [T, T, S] of charts."""
    if theta.x.forest is None:
        T, S = theta.x.terminals.shape[0], tables.lexical.shape[1]
        first, last, symbol = jnp.meshgrid(*map(jnp.arange, (T, T, S)), indexing="ij")
    else:
        symbol, first, last, _, _ = jnp.maximum(forest_of(theta).nodes, 0).T
    return first, last, symbol


def parts_of(tables: GrammarTables, theta: TreeTheta) -> Parts:
    """The potentials of F."""
    if theta.x.forest is None:
        return tree_potentials(tables, theta)
    first, last, symbol = node_places(tables, theta)
    lexical = theta.lexical.at[lexical_place(tables, theta.x.terminals[first], symbol)]
    nodes = lexical.get(mode="fill", fill_value=0)
    inner = 0 if theta.spans is None else theta.spans[first, last, symbol]
    nodes = jnp.where(first == last, nodes, inner)
    if theta.allowed is not None:
        nodes = jnp.where(theta.allowed[first, last, symbol], nodes, -jnp.inf)
    return ForestScores(nodes, theta.rules[forest_of(theta).edges[:, 0]], theta.root[symbol])


def _less(parts: Parts, cost: Array) -> Parts:
    """Potentials with a cost of all nodes of `node_places` taken off."""
    if isinstance(parts, ForestScores):
        return parts._replace(nodes=parts.nodes - cost)
    tokens = jnp.arange(cost.shape[0])
    spans = -cost if parts.spans is None else parts.spans - cost
    return parts._replace(lexical=parts.lexical - cost[tokens, tokens], spans=spans)


def augmented_parts(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree | Truth,
    scale: Array,
) -> Parts:  # fmt: skip
    """Potentials of F + scale Delta, up to a constant of the true tree.

    Missing a node of the true tree costs scale / number of nodes: 2 l - 1 or l - 1.

    Args:
      tables, strata: what `oracles.loss_augmented_decode` of a weighted grammar is bound to.
      theta, y_true: of one sentence. scale: a scalar.
    """
    matched = strata.matched(tables, y_true, *node_places(tables, theta))
    cost = (strata.share(y_true, scale) * matched).astype(theta.rules.dtype)
    return _less(parts_of(tables, theta), cost)


def parts_of_same_inner(tables: GrammarTables, theta: TreeTheta, y_true: BinaryTree) -> Parts:
    """The potentials of F, which forbid inner nodes that the true tree lacks."""
    first, last, symbol = node_places(tables, theta)
    kept = (first == last) | (true_symbols(tables, y_true)[first, last] == symbol)
    return _less(parts_of(tables, theta), jnp.where(kept, 0, jnp.inf).astype(theta.rules.dtype))


def best_tree(tables: GrammarTables, theta: TreeTheta, parts: Parts) -> BinaryTree:
    """The best tree."""
    if isinstance(parts, TreePotentials):
        return cky(tables.rules, parts, theta.x.length).tree
    return best_forest_tree(nodes_of(forest_of(theta)), parts, theta.x.terminals.shape[0]).tree


def best_of_levels(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree,
    parts: Parts, lines: tuple[Array, Array, Array],
) -> ForestTree:  # fmt: skip
    """(tree, value) of the best level of [L]; lines: offsets, slopes, which count, [L] each."""
    places, T = node_places(tables, theta), y_true.symbols.shape[0]
    counts = strata.counts(tables, y_true, *places)
    if isinstance(parts, TreePotentials):
        nodes, parts = chart_of(tables.rules, parts, theta.x.length)
        counts = of_rows(counts)
    else:
        nodes = nodes_of(forest_of(theta))
    return best_forest_tree(nodes, parts, T, counts, lines)


def log_sum(tables: GrammarTables, theta: TreeTheta, parts: Parts) -> Array:
    """log sum exp over all trees."""
    if isinstance(parts, TreePotentials):
        return log_partition(tables.rules, parts, theta.x.length)
    return forest_log_partition(forest_of(theta), parts)
