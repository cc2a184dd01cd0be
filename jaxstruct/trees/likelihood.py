"""The conditional likelihood of one tree, for `baselines.fit_random_field`."""

from __future__ import annotations

from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, BinaryTree, PyTree
from jaxstruct.trees.oracles import inside_outside
from jaxstruct.trees.potentials import score_tree
from jaxstruct.trees.structure import grammar_potentials


def tree_likelihood(problem: Problem, theta: PyTree, y: BinaryTree) -> Array:
    """-log P(y | x) = log Z - F(y) of one tree under a weighted grammar: a log-linear grammar."""
    rules, potentials, length = grammar_potentials(problem, theta)
    log_z = inside_outside.log_partition(rules, potentials, length)
    return log_z - score_tree(rules, potentials, y, length)
