"""What a tree can be asked besides training: sums over trees, the k best, samples.

P(y | x) = exp(F(x, y)) / Z(x) over the trees of the grammar: a log-linear grammar.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.contract import Inference, Marginals
from jaxstruct.core.derived_inference import positions
from jaxstruct.core.types import AnyArray, Array, BinaryTree
from jaxstruct.trees.oracles.inside_outside import log_partition, rule_marginals
from jaxstruct.trees.oracles.k_best_trees import k_best_trees
from jaxstruct.trees.oracles.sampling import sample_tree
from jaxstruct.trees.parts import SentenceInput, TreeTheta
from jaxstruct.trees.potentials import GrammarRules, score_tree


class TreeProbabilities(NamedTuple):
    """Probabilities of the nodes of trees.

    Fields:
      symbols: [T, S] p(symbol right above a token).
      spans: [T, T, S] p(a node of that symbol over the tokens from the first to the last), of at
        least two tokens; else 0.
    """

    symbols: AnyArray
    spans: AnyArray


def _log_loss(seen: Partial, theta: TreeTheta, y: BinaryTree) -> Array:
    """-log P(y | x) = log Z - F(y) of one tree."""
    rules, potentials, length = seen(theta)
    return log_partition(rules, potentials, length) - score_tree(rules, potentials, y, length)


def _marginals(seen: Partial, theta: TreeTheta) -> Marginals:
    found, length = rule_marginals(*seen(theta)), theta.x.length
    sizes = TreeProbabilities(positions(length), positions(length, length))
    return Marginals(TreeProbabilities(found.lexical, found.spans), found.log_partition, sizes)


def _k_best(seen: Partial, theta: TreeTheta, k: int) -> tuple[BinaryTree, Array]:
    rules, potentials, length = seen(theta)
    found = k_best_trees(rules, potentials, length, k)
    return found.tree, found.score


def _sample(seen: Partial, theta: TreeTheta, key: Array) -> BinaryTree:
    rules, potentials, length = seen(theta)
    return sample_tree(rules, potentials, length, key)


def _softmax_margin(raised: Partial, theta: TreeTheta, y_true: BinaryTree, mu: Array) -> Array:
    rules, potentials, length = raised(theta, y_true)
    potentials = jax.tree.map(lambda leaf: leaf / mu, potentials)
    log_z = log_partition(rules, potentials, length)
    return mu * (log_z - score_tree(rules, potentials, y_true, length))


def _augmented_k_best(
    raised: Partial, theta: TreeTheta, y_true: BinaryTree, k: int
) -> tuple[BinaryTree, Array]:
    rules, potentials, length = raised(theta, y_true)
    found = k_best_trees(rules, potentials, length, k)
    return found.tree, found.score > -jnp.inf


def _most_trees(rules: GrammarRules, inputs: SentenceInput) -> int:
    """The most trees over the tokens of a sentence, whatever these are, by the same recursion."""
    longest = int(np.max(inputs.length, initial=1))
    parents, lefts, rights = map(np.asarray, rules)
    S = 1 + max(int(np.max(one, initial=0)) for one in rules)
    count = np.ones((longest + 1, S))  # row w: by the symbol of a node over w tokens
    with np.errstate(over="ignore"):
        for w in range(2, longest + 1):
            pairs = sum(count[k][lefts] * count[w - k][rights] for k in range(1, w))
            count[w] = np.bincount(parents, pairs, S)
        return int(min(np.max(np.sum(count[1:], axis=1)), 2.0**62))


def tree_inference(seen: Partial, raised: Partial, rules: GrammarRules) -> Inference:
    """The inference of a weighted grammar.

    Args:
      seen: theta -> (rules, potentials, length), as the oracles take them.
      raised: (theta, y_true) -> the same of F' with F'(y) - F'(y_true) = Delta(y_true, y) + F(y) -
        F(y_true): the loss is paid by what misses a node of the true tree, so each of these nodes
        has its share taken off where a tree has it. It raises ValueError where the loss does not
        add up over nodes.
      rules: of the grammar.
    """
    return Inference(
        log_loss=Partial(_log_loss, seen),
        marginals=Partial(_marginals, seen),
        k_best=Partial(_k_best, seen),
        sample=Partial(_sample, seen),
        softmax_margin=Partial(_softmax_margin, raised),
        augmented_k_best=Partial(_augmented_k_best, raised),
        most_outputs=Partial(_most_trees, rules),
    )
