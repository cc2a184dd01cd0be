"""What a tree can be asked besides training: sums over trees, the k best, samples.

P(y | x) = exp(F(x, y)) / Z(x) over the trees of the grammar: a log-linear grammar. Sums go over the
forest of a sentence where it has one.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.contract import Inference, Marginals
from jaxstruct.core.derived_inference import positions
from jaxstruct.core.finite import finite_or_zero, inf_unless
from jaxstruct.core.types import AnyArray, Array, BinaryTree, PyTree
from jaxstruct.trees.chart_search import raised_on_charts, seen_on_charts
from jaxstruct.trees.forest_search import forest_of, forest_scores, raised_in_forest
from jaxstruct.trees.losses import Stratification
from jaxstruct.trees.oracles.forest_sums import forest_log_partition, forest_marginals
from jaxstruct.trees.oracles.inside_outside import log_partition, rule_marginals
from jaxstruct.trees.oracles.k_best_trees import k_best_trees
from jaxstruct.trees.oracles.sampling import sample_tree
from jaxstruct.trees.parts import GrammarTables, SentenceInput, TreeTheta, score_use, tree_use
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


def _log_partition(tables: GrammarTables, theta: TreeTheta) -> Array:
    if theta.x.forest is None:
        return log_partition(*seen_on_charts(tables, theta))
    return forest_log_partition(forest_of(theta), forest_scores(tables, theta))


def _log_loss(tables: GrammarTables, theta: TreeTheta, y: BinaryTree) -> Array:
    """-log P(y | x) = log Z - F(y) of one tree; +inf where the sentence has none."""
    score = score_use(theta, tree_use(tables, theta.x, y))
    return inf_unless(y.symbols[0] >= 0, _log_partition(tables, theta) - score)


def _marginals(tables: GrammarTables, theta: TreeTheta) -> Marginals:
    length = theta.x.length
    sizes = TreeProbabilities(positions(length), positions(length, length))
    if theta.x.forest is None:
        found = rule_marginals(*seen_on_charts(tables, theta))
        return Marginals(TreeProbabilities(found.lexical, found.spans), found.log_partition, sizes)
    forest = forest_of(theta)
    found = forest_marginals(forest, forest_scores(tables, theta))
    T, S = theta.x.terminals.shape[0], tables.lexical.shape[1]
    symbol, first, last, _, _ = jnp.where(forest.nodes >= 0, forest.nodes, T + S).T
    nodes = jnp.zeros((T, T, S), found.scores.nodes.dtype)
    nodes = nodes.at[first, last, symbol].set(found.scores.nodes, mode="drop")
    tokens = jnp.arange(T)
    symbols, spans = nodes[tokens, tokens], nodes.at[tokens, tokens].set(0)
    return Marginals(TreeProbabilities(symbols, spans), found.log_partition, sizes)


def _k_best(tables: GrammarTables, theta: TreeTheta, k: int) -> tuple[BinaryTree, Array]:
    found = k_best_trees(*seen_on_charts(tables, theta), k)
    return found.tree, found.score


def _sample(tables: GrammarTables, theta: TreeTheta, key: Array) -> BinaryTree:
    return sample_tree(*seen_on_charts(tables, theta), key)


def _softmax_margin(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree, mu: Array
) -> Array:
    if theta.x.forest is None:
        rules, potentials, length = raised_on_charts(tables, strata, theta, y_true)
        log_z = log_partition(rules, _divided(potentials, mu), length)
        score = score_tree(rules, _divided(potentials, mu), y_true, length)
        return mu * inf_unless(score != -jnp.inf, log_z - finite_or_zero(score))
    scores, truth = raised_in_forest(tables, strata, theta, y_true)
    log_z = forest_log_partition(forest_of(theta), _divided(scores, mu))
    return inf_unless(y_true.symbols[0] >= 0, mu * log_z - truth)


def _divided(tree: PyTree, mu: Array) -> PyTree:
    return jax.tree.map(lambda leaf: leaf / mu, tree)


def _augmented_k_best(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree, k: int
) -> tuple[BinaryTree, Array]:
    found = k_best_trees(*raised_on_charts(tables, strata, theta, y_true), k)
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


def tree_inference(tables: GrammarTables, strata: Stratification) -> Inference:
    """The inference of a weighted grammar; what its loss takes part in needs one of single nodes.

    Args:
      tables: of the grammar. strata: the loss.
    """
    return Inference(
        log_loss=Partial(_log_loss, tables),
        marginals=Partial(_marginals, tables),
        k_best=Partial(_k_best, tables),
        sample=Partial(_sample, tables),
        softmax_margin=Partial(_softmax_margin, tables, strata),
        augmented_k_best=Partial(_augmented_k_best, tables, strata),
        most_outputs=Partial(_most_trees, tables.rules),
    )
