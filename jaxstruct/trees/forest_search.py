"""The oracles of a weighted grammar over the forest of a sentence, in place of charts.

They answer as those over charts do (`chart_search`), ties included.
"""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.forests import Forest
from jaxstruct.trees.losses import Stratification
from jaxstruct.trees.oracles.forest_same_inner import best_with_same_inner
from jaxstruct.trees.oracles.forest_trees import ForestScores, best_forest_tree
from jaxstruct.trees.parts import GrammarTables, TreeTheta, lexical_place, score_use, tree_use
from jaxstruct.trees.potentials import Parsed


def forest_of(theta: TreeTheta) -> Forest:
    """The forest of a sentence that has one."""
    return Forest(*map(jnp.asarray, theta.x.forest))


def forest_scores(tables: GrammarTables, theta: TreeTheta) -> ForestScores:
    """The potentials of the parts of a sentence's forest."""
    forest = forest_of(theta)
    symbol, first, last, _, _ = jnp.maximum(forest.nodes, 0).T
    lexical = theta.lexical.at[lexical_place(tables, theta.x.terminals[first], symbol)]
    nodes = lexical.get(mode="fill", fill_value=0)
    inner = 0 if theta.spans is None else theta.spans[first, last, symbol]
    nodes = jnp.where(first == last, nodes, inner)
    return ForestScores(nodes, theta.rules[forest.edges[:, 0]], theta.root[symbol])


def decode_in_forest(tables: GrammarTables, theta: TreeTheta) -> BinaryTree:
    """The best tree."""
    scores = forest_scores(tables, theta)
    return best_forest_tree(forest_of(theta), scores, theta.x.terminals.shape[0]).tree


def _augmented(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree,
    scale: Array,
) -> ForestScores:  # fmt: skip
    """Scores of F + scale Delta, up to a constant: a true node has its share taken off."""
    scores = forest_scores(tables, theta)
    matched = strata.counts_of_forest(tables, y_true, forest_of(theta).nodes)
    cost = (strata.share(y_true, scale) * matched).astype(scores.nodes.dtype)
    return scores._replace(nodes=scores.nodes - cost)


def augmented_in_forest(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree,
    scale: Array,
) -> BinaryTree:  # fmt: skip
    """argmax F + scale Delta."""
    scores = _augmented(tables, strata, theta, y_true, scale)
    return best_forest_tree(forest_of(theta), scores, theta.x.terminals.shape[0]).tree


def raised_in_forest(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree
) -> tuple[ForestScores, Array]:
    """(scores of F + Delta up to a constant, the sum of those of the true tree).

    Raises:
      ValueError: the loss does not add up over nodes.
    """
    strata.check_additive()
    one = jnp.ones((), theta.rules.dtype)
    scores = _augmented(tables, strata, theta, y_true, one)
    count = jnp.minimum(strata.nodes(y_true), 1)  # the shares of all true nodes, if any, are 1
    return scores, score_use(theta, tree_use(tables, theta.x, y_true)) - count


def best_in_forest(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree,
    offsets: Array, slopes: Array, wrong: Array,
) -> tuple[BinaryTree, Array]:  # fmt: skip
    """(tree, value) of the best of the levels [M] or [P, M]."""
    forest = forest_of(theta)
    counts = strata.counts_of_forest(tables, y_true, forest.nodes)
    lines = (leaf.reshape(-1) for leaf in (offsets, slopes, wrong))
    scores = forest_scores(tables, theta)
    found = best_forest_tree(forest, scores, theta.x.terminals.shape[0], counts, *lines)
    return found.tree, found.value


def same_inner_in_forest(tables: GrammarTables, theta: TreeTheta, y_true: BinaryTree) -> Parsed:
    """The best other tree with the inner nodes of the true one."""
    tree = best_with_same_inner(forest_of(theta), forest_scores(tables, theta), y_true)
    score = score_use(theta, tree_use(tables, theta.x, tree))
    return Parsed(tree, jnp.where(tree.symbols[0] >= 0, score, -jnp.inf))
