"""What a tree can be asked besides training: sums over trees, the k best, samples.

P(y | x) = exp(F(x, y)) / Z(x) over the trees of the grammar: a log-linear grammar. Sums go over the
forest of a sentence where it has one.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.contract import Inference, Marginals
from jaxstruct.core.derived_inference import positions
from jaxstruct.core.scores import inf_unless
from jaxstruct.core.types import AnyArray, Array, BinaryTree
from jaxstruct.trees.losses import Stratification
from jaxstruct.trees.oracles.inside_outside import sample_tree
from jaxstruct.trees.oracles.k_best_trees import k_best_trees
from jaxstruct.trees.parts import (
    GrammarTables,
    SentenceInput,
    TreeTheta,
    given_of,
    score_use,
    tree_use,
)
from jaxstruct.trees.potentials import GrammarRules, TreePotentials
from jaxstruct.trees.search import augmented_parts, forest_of, log_sum, on_charts, parts_of


class TreeProbabilities(NamedTuple):
    """Probabilities of the nodes of trees.

    Fields:
      symbols: [T, S] p(symbol right above a token).
      spans: [T, T, S] p(a node of that symbol over the tokens from the first to the last), of at
        least two tokens; else 0.
    """

    symbols: AnyArray
    spans: AnyArray


def _log_loss(tables: GrammarTables, theta: TreeTheta, y: BinaryTree) -> Array:
    """-log P(y | x) = log Z - F(y) of one tree; +inf where the sentence has none."""
    score = score_use(theta, tree_use(tables, theta.x, y))
    return inf_unless(y.symbols[0] >= 0, log_sum(tables, theta, parts_of(tables, theta)) - score)


def _marginals(tables: GrammarTables, theta: TreeTheta) -> Marginals:
    length = theta.x.length
    sizes = TreeProbabilities(positions(length), positions(length, length))
    T, S = theta.x.terminals.shape[0], tables.lexical.shape[1]
    parts, spans = parts_of(tables, theta), jnp.zeros((T, T, S), theta.rules.dtype)
    if isinstance(parts, TreePotentials) and parts.spans is None:
        parts = parts._replace(spans=spans)
    total, found = jax.value_and_grad(partial(log_sum, tables, theta))(parts)
    if isinstance(found, TreePotentials):
        return Marginals(TreeProbabilities(found.lexical, found.spans), total, sizes)
    nodes, tokens = forest_of(theta).nodes, jnp.arange(T)
    symbol, first, last, _, _ = jnp.where(nodes >= 0, nodes, T + S).T
    spans = spans.at[first, last, symbol].set(found.nodes, mode="drop")
    symbols, spans = spans[tokens, tokens], spans.at[tokens, tokens].set(0)
    return Marginals(TreeProbabilities(symbols, spans), total, sizes)


def _k_best(tables: GrammarTables, theta: TreeTheta, k: int) -> tuple[BinaryTree, Array]:
    found = k_best_trees(*given_of(tables, theta), k)
    return found.tree, found.score


def _sample(tables: GrammarTables, theta: TreeTheta, key: Array) -> BinaryTree:
    return sample_tree(*given_of(tables, theta), key)


def _softmax_margin(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree, mu: Array
) -> Array:
    strata.check_additive()
    one = jnp.ones((), theta.rules.dtype)
    parts = augmented_parts(tables, strata, theta, y_true, one)
    log_z = log_sum(tables, theta, jax.tree.map(lambda leaf: leaf / mu, parts))
    count = jnp.minimum(strata.nodes(y_true), 1)  # the shares of all true nodes, if any, are 1
    truth = score_use(theta, tree_use(tables, theta.x, y_true)) - count
    return inf_unless(y_true.symbols[0] >= 0, mu * log_z - truth)


def _augmented_k_best(
    tables: GrammarTables, strata: Stratification, theta: TreeTheta, y_true: BinaryTree, k: int
) -> tuple[BinaryTree, Array]:
    strata.check_additive()
    one = jnp.ones((), theta.rules.dtype)
    parts = augmented_parts(tables, strata, on_charts(theta), y_true, one)
    assert isinstance(parts, TreePotentials)
    found = k_best_trees(tables.rules, parts, theta.x.length, k)
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
