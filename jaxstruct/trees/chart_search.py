"""The oracles of a weighted grammar over charts of all rules: for sentences without a forest."""

from __future__ import annotations

import jax.numpy as jnp

from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees import losses as tree_losses
from jaxstruct.trees.losses import Stratification
from jaxstruct.trees.oracles.cky import cky
from jaxstruct.trees.oracles.same_inner_nodes import same_inner_nodes
from jaxstruct.trees.oracles.tree_levels import best_of_tree_levels
from jaxstruct.trees.parts import GrammarTables, TreeTheta, tree_potentials
from jaxstruct.trees.potentials import GrammarRules, Parsed, TreePotentials


def seen_on_charts(
    tables: GrammarTables, theta: TreeTheta
) -> tuple[GrammarRules, TreePotentials, Array]:
    """(rules, potentials, length) of a sentence, as the oracles over charts take them."""
    return tables.rules, tree_potentials(tables, theta), theta.x.length


def decode_on_charts(tables: GrammarTables, theta: TreeTheta) -> BinaryTree:
    """The best tree."""
    return cky(*seen_on_charts(tables, theta)).tree


def augmented_tree_potentials(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree,
    scale: Array,
) -> TreePotentials:  # fmt: skip
    """Potentials whose score is F + scale Delta, up to a constant of the true tree.

    Missing a node of the true tree costs scale / number of nodes: 2 l - 1 or l - 1.

    Args:
      tables, strata: what `oracles.loss_augmented_decode` of a weighted grammar is bound to.
      theta, y_true: of one sentence. scale: a scalar.
    """
    potentials, T = tree_potentials(tables, theta), theta.x.terminals.shape[0]
    nodes = tree_losses.true_nodes(tables, y_true, theta.x.length, strata.counts_tokens)
    share = strata.share(y_true, scale)
    cost = (share * nodes).astype(theta.rules.dtype)
    tokens = jnp.arange(T)
    spans = -cost if potentials.spans is None else potentials.spans - cost
    return potentials._replace(lexical=potentials.lexical - cost[tokens, tokens], spans=spans)


def augmented_on_charts(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree,
    scale: Array,
) -> BinaryTree:  # fmt: skip
    """argmax F + scale Delta."""
    potentials = augmented_tree_potentials(tables, strata, theta, y_true, scale)
    return cky(tables.rules, potentials, theta.x.length).tree


def raised_on_charts(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree
) -> tuple[GrammarRules, TreePotentials, Array]:
    """What `seen_on_charts` says of F + Delta, up to a constant.

    Raises:
      ValueError: the loss does not add up over nodes.
    """
    strata.check_additive()
    one = jnp.ones((), theta.rules.dtype)
    raised = augmented_tree_potentials(tables, strata, theta, y_true, one)
    return tables.rules, raised, theta.x.length


def best_on_charts(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree,
    offsets: Array, slopes: Array, wrong: Array,
) -> tuple[BinaryTree, Array]:  # fmt: skip
    """(tree, value) of the best of the levels [M] or [P, M]."""
    counts = strata.counts(tables, y_true, theta.x.length)
    sizes = strata.sizes(y_true.symbols.shape[0])
    rules, potentials, length = seen_on_charts(tables, theta)
    found = best_of_tree_levels(rules, potentials, counts, length, sizes, offsets, slopes, wrong)
    return found.tree, found.value


def same_inner_on_charts(tables: GrammarTables, theta: TreeTheta, y_true: BinaryTree) -> Parsed:
    """The best other tree with the inner nodes of the true one."""
    rules, potentials, length = seen_on_charts(tables, theta)
    return same_inner_nodes(rules, potentials, y_true, length)
