"""Trees whose scores are raised by an additive loss: F(y) + Delta(y_i, y), up to a constant.

The loss is paid by what misses a node of the true tree; so F' below has the share of each of these
nodes taken off where a tree has it, and F'(y) - F'(y_i) = Delta(y_i, y) + F(y) - F(y_i).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.oracles.inside_outside import log_partition
from jaxstruct.trees.oracles.k_best_trees import k_best_trees
from jaxstruct.trees.parts import TreeTheta
from jaxstruct.trees.potentials import GrammarRules, TreePotentials, score_tree
from jaxstruct.trees.structure import augmented_tree_potentials, grammar_potentials


def augmented_potentials(
    problem: Problem, theta: TreeTheta, y_true: BinaryTree
) -> tuple[GrammarRules, TreePotentials, Array]:
    """(rules, potentials, length) of F'.

    Args:
      problem: made by `weighted_grammar`, with an additive loss. theta: of one sentence. y_true:
        its tree.

    Raises:
      ValueError: the problem is no grammar, or its loss is not additive.
    """
    rules, _, length = grammar_potentials(problem, theta)
    decode = problem.oracles.loss_augmented_decode
    if decode is None:
        raise ValueError(
            'the loss of the trees does not add up over nodes: take loss="node_f1" or "all_node_f1"'
        )
    one = jnp.ones((), theta.rules.dtype)
    tables, strata = decode.args
    raised = augmented_tree_potentials(tables, strata, theta, y_true, one)
    return rules, raised, length


def softmax_margin(
    problem: Problem, theta: TreeTheta, y_true: BinaryTree, temperature: Array
) -> Array:
    """mu log sum_y exp((Delta(y_true, y) + F(y) - F(y_true)) / mu) of one sentence.

    Args:
      problem, theta, y_true: as `augmented_potentials`. temperature: mu > 0.
    """
    rules, potentials, length = augmented_potentials(problem, theta, y_true)
    potentials = jax.tree.map(lambda leaf: leaf / temperature, potentials)
    log_z = log_partition(rules, potentials, length)
    return temperature * (log_z - score_tree(rules, potentials, y_true, length))


def augmented_k_best(problem: Problem, theta: TreeTheta, y_true: BinaryTree, k: int) -> tuple:
    """(the k trees of the largest F + Delta, [k] whether there is one).

    Args:
      problem, theta, y_true: as `augmented_potentials`. k: static.
    """
    found = k_best_trees(*augmented_potentials(problem, theta, y_true), k)
    return found.tree, found.score > -jnp.inf
