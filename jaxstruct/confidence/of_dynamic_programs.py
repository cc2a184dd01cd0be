"""Confidence of structures whose outputs a dynamic program sums: chains, trees, alignments."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct import alignments, chains, trees
from jaxstruct.alignments import AlignmentTheta, HomologueTheta, is_local, pair_potentials
from jaxstruct.alignments.losses import AlignmentOutput
from jaxstruct.confidence.ways import (
    Marginals,
    TreeProbabilities,
    Ways,
    largest,
    of_likelihood,
    or_padding,
    positions,
)
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, BinaryTree, PyTree


def _best_labels(problem: Problem, theta: chains.ChainTheta, k: int) -> tuple[Array, Array]:
    return chains.k_best(*chains.chain_potentials(problem, theta), k)


def _label_shares(problem: Problem, theta: chains.ChainTheta) -> tuple[Marginals, Marginals]:
    found = chains.marginals(*chains.chain_potentials(problem, theta))
    sizes = Marginals(positions(theta.length), positions())
    return Marginals(found.labels, found.log_partition), sizes


def _draw_labels(problem: Problem, theta: chains.ChainTheta, key: Array) -> Array:
    return chains.sample(*chains.chain_potentials(problem, theta), key)


CHAINS = Ways(_best_labels, of_likelihood(chains.chain_likelihood), _label_shares, _draw_labels)


def _best_trees(problem: Problem, theta: trees.TreeTheta, k: int) -> tuple[BinaryTree, Array]:
    return trees.k_best_trees(*trees.grammar_potentials(problem, theta), k)


def _node_shares(problem: Problem, theta: trees.TreeTheta) -> tuple[Marginals, Marginals]:
    found = trees.rule_marginals(*trees.grammar_potentials(problem, theta))
    length = theta.x.length
    sizes = TreeProbabilities(positions(length), positions(length, length))
    shares = TreeProbabilities(found.lexical, found.spans)
    return Marginals(shares, found.log_partition), Marginals(sizes, positions())


def _draw_tree(problem: Problem, theta: trees.TreeTheta, key: Array) -> BinaryTree:
    return trees.sample_tree(*trees.grammar_potentials(problem, theta), key)


TREES = Ways(_best_trees, of_likelihood(trees.tree_likelihood), _node_shares, _draw_tree)


def _best_alignments(
    problem: Problem, theta: AlignmentTheta, k: int
) -> tuple[AlignmentOutput, Array]:
    ranked = alignments.k_best_local if is_local(problem) else alignments.k_best_global
    found = ranked(pair_potentials(theta), theta.x.lengths, k)
    return AlignmentOutput(found.operations, found.begin), found.score


def _pair_shares(problem: Problem, theta: AlignmentTheta) -> tuple[Marginals, Marginals]:
    lengths = theta.x.lengths
    found = alignments.marginals(pair_potentials(theta), lengths, local=is_local(problem))
    sizes = Marginals(positions(lengths[0], lengths[1]), positions())
    return Marginals(found.pairs, found.log_partition), sizes


def _draw_alignment(problem: Problem, theta: AlignmentTheta, key: Array) -> AlignmentOutput:
    local = is_local(problem)
    return AlignmentOutput(
        *alignments.sample(pair_potentials(theta), theta.x.lengths, key, local=local)
    )


ALIGNMENTS = Ways(
    _best_alignments, of_likelihood(alignments.alignment_likelihood), _pair_shares, _draw_alignment
)


def _best_homologues(problem: Problem, theta: HomologueTheta, k: int) -> tuple[PyTree, Array]:
    """The k best candidates, each with its best alignment."""
    scores, candidates = largest(alignments.candidate_scores(theta), k)
    most = theta.x.candidates.shape[0] - 1
    found = jax.vmap(alignments.aligned_candidate, (None, 0))(theta, jnp.minimum(candidates, most))
    return or_padding(found, scores), scores


HOMOLOGUES = Ways(
    _best_homologues,
    why="a search of homologues takes the best alignment of each candidate, it sums none: compare "
    "the margins of confidence.k_best, or train pairwise_alignment",
)


def ways_of_theta(theta: PyTree) -> Ways | None:
    """The ways of a theta of one of these structures."""
    kinds = {
        chains.ChainTheta: CHAINS, trees.TreeTheta: TREES, AlignmentTheta: ALIGNMENTS,
        HomologueTheta: HOMOLOGUES,
    }  # fmt: skip
    return kinds.get(type(theta))
