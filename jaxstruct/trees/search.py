"""The oracles of a weighted grammar over one sentence: in its forest, or over charts of all rules.

Where the sentence has a forest it is searched, in a fraction of the time. Both answer alike, ties
included. `Parts` are the potentials that either reads.
"""

from __future__ import annotations

from typing import TypeAlias

import jax.numpy as jnp

from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.forests import Forest
from jaxstruct.trees.losses import Stratification, true_symbols
from jaxstruct.trees.oracles.cky import cky
from jaxstruct.trees.oracles.forest_sums import forest_log_partition
from jaxstruct.trees.oracles.forest_trees import ForestScores, best_forest_tree
from jaxstruct.trees.oracles.inside_outside import log_partition
from jaxstruct.trees.oracles.tree_levels import best_of_tree_levels
from jaxstruct.trees.parts import GrammarTables, TreeTheta, lexical_place, tree_potentials
from jaxstruct.trees.potentials import TreePotentials

Parts: TypeAlias = ForestScores | TreePotentials


def forest_of(theta: TreeTheta) -> Forest:
    """The forest of a sentence that has one."""
    return Forest(*map(jnp.asarray, theta.x.forest))


def parts_of(tables: GrammarTables, theta: TreeTheta) -> Parts:
    """The potentials of F."""
    if theta.x.forest is None:
        return tree_potentials(tables, theta)
    forest = forest_of(theta)
    symbol, first, last, _, _ = jnp.maximum(forest.nodes, 0).T
    lexical = theta.lexical.at[lexical_place(tables, theta.x.terminals[first], symbol)]
    nodes = lexical.get(mode="fill", fill_value=0)
    inner = 0 if theta.spans is None else theta.spans[first, last, symbol]
    nodes = jnp.where(first == last, nodes, inner)
    return ForestScores(nodes, theta.rules[forest.edges[:, 0]], theta.root[symbol])


def _less(potentials: TreePotentials, cost: Array) -> TreePotentials:
    """Potentials with a cost [T, T, S] of nodes taken off."""
    tokens = jnp.arange(cost.shape[0])
    spans = -cost if potentials.spans is None else potentials.spans - cost
    return potentials._replace(lexical=potentials.lexical - cost[tokens, tokens], spans=spans)


def augmented_potentials(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree,
    scale: Array,
) -> TreePotentials:  # fmt: skip
    """As `augmented_parts`, over charts."""
    cost = (strata.share(y_true, scale) * strata.counts(tables, y_true).matched).astype(
        theta.rules.dtype
    )
    return _less(tree_potentials(tables, theta), cost)


def augmented_parts(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree,
    scale: Array,
) -> Parts:  # fmt: skip
    """Potentials of F + scale Delta, up to a constant of the true tree.

    Missing a node of the true tree costs scale / number of nodes: 2 l - 1 or l - 1.

    Args:
      tables, strata: what `oracles.loss_augmented_decode` of a weighted grammar is bound to.
      theta, y_true: of one sentence. scale: a scalar.
    """
    if theta.x.forest is None:
        return augmented_potentials(tables, strata, theta, y_true, scale)
    parts = parts_of(tables, theta)
    assert isinstance(parts, ForestScores)
    matched = strata.counts_of_forest(tables, y_true, forest_of(theta).nodes)
    cost = (strata.share(y_true, scale) * matched).astype(theta.rules.dtype)
    return parts._replace(nodes=parts.nodes - cost)


def parts_of_same_inner(tables: GrammarTables, theta: TreeTheta, y_true: BinaryTree) -> Parts:
    """The potentials of F, which forbid inner nodes that the true tree lacks."""
    parts = parts_of(tables, theta)
    if isinstance(parts, TreePotentials):
        true = true_symbols(tables, y_true)[:, :, None]
        own = true == jnp.arange(tables.lexical.shape[1])[None, None]
        spans = jnp.zeros((), theta.rules.dtype) if parts.spans is None else parts.spans
        return parts._replace(spans=jnp.where(own, spans, -jnp.inf))
    symbol, first, last, _, _ = jnp.maximum(forest_of(theta).nodes, 0).T
    kept = (first == last) | (true_symbols(tables, y_true)[first, last] == symbol)
    return parts._replace(nodes=jnp.where(kept, parts.nodes, -jnp.inf))


def best_tree(tables: GrammarTables, theta: TreeTheta, parts: Parts) -> BinaryTree:
    """The best tree."""
    if isinstance(parts, TreePotentials):
        return cky(tables.rules, parts, theta.x.length).tree
    return best_forest_tree(forest_of(theta), parts, theta.x.terminals.shape[0]).tree


def best_of_levels(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree,
    parts: Parts, lines: tuple[Array, Array, Array],
) -> tuple[BinaryTree, Array]:  # fmt: skip
    """(tree, value) of the best level of [M] or [P, M]; lines: offsets, slopes, which count."""
    T = y_true.symbols.shape[0]
    if isinstance(parts, TreePotentials):
        length = theta.x.length
        counts = strata.counts(tables, y_true)
        found = best_of_tree_levels(tables.rules, parts, counts, length, strata.sizes(T), *lines)
    else:
        forest = forest_of(theta)
        counts = strata.counts_of_forest(tables, y_true, forest.nodes)
        found = best_forest_tree(forest, parts, T, counts, *(each.reshape(-1) for each in lines))
    return found.tree, found.value


def log_sum(tables: GrammarTables, theta: TreeTheta, parts: Parts) -> Array:
    """log sum exp over all trees."""
    if isinstance(parts, TreePotentials):
        return log_partition(tables.rules, parts, theta.x.length)
    return forest_log_partition(forest_of(theta), parts)
