"""Structures whose outputs can be listed: classes, candidate sets, small spaces of one's own.

Their log-partition functions and their k best outputs are those of a list of scores.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct import strings
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree


class Listed(NamedTuple):
    """All outputs of one example.

    Fields:
      outputs: y[K]. real: [K] bool, False where the true output stands in for padding.
    """

    outputs: PyTree
    real: Array


def is_listed(problem: Problem, theta: PyTree) -> bool:
    """Whether the outputs can be listed."""
    return isinstance(theta, strings.CandidateScores) or problem.oracles.all_outputs is not None


def listed(problem: Problem, theta: PyTree, y: PyTree) -> Listed:
    """All outputs of one example; y is the true one."""
    if isinstance(theta, strings.CandidateScores):
        real = theta.numbers >= 0
        return Listed(jnp.where(real, theta.numbers, y), real)
    outputs = problem.oracles.all_outputs(y)
    return Listed(outputs, jnp.ones(jax.tree.leaves(outputs)[0].shape[0], bool))


def advantages(problem: Problem, theta: PyTree, y: PyTree, outputs: PyTree) -> Array:
    """[K] F(y_k; theta) - F(y; theta)."""
    return problem.space.plane_scores(theta, outputs) - problem.model.score(theta, y)


def augmented_advantages(problem: Problem, theta: PyTree, y: PyTree, outputs: PyTree) -> Array:
    """[K] Delta(y, y_k) + F(y_k; theta) - F(y; theta)."""
    losses = jax.vmap(problem.model.loss, (None, 0))(y, outputs)
    return losses + advantages(problem, theta, y, outputs)


def listed_likelihood(problem: Problem, theta: PyTree, y: PyTree) -> Array:
    """-log P(y | x) = log sum_k exp(F(y_k) - F(y)) over all outputs of one example."""
    outputs, real = listed(problem, theta, y)
    return _log_sum(advantages(problem, theta, y, outputs), real)


def listed_softmax_margin(problem: Problem, theta: PyTree, y: PyTree, temperature: Array) -> Array:
    """mu log sum_k exp((Delta(y, y_k) + F(y_k) - F(y)) / mu) over all outputs of one example."""
    outputs, real = listed(problem, theta, y)
    values = augmented_advantages(problem, theta, y, outputs)
    return temperature * _log_sum(values / temperature, real)


def listed_augmented_k_best(problem: Problem, theta: PyTree, y: PyTree, k: int) -> Listed:
    """The k outputs of the largest Delta + F, the best first; fewer are real if there are fewer."""
    outputs, real = listed(problem, theta, y)
    values = augmented_advantages(problem, theta, y, outputs)
    best, at = jax.lax.top_k(jnp.where(real, values, -jnp.inf), min(k, len(real)))
    return Listed(jax.tree.map(lambda leaf: leaf[at], outputs), best > -jnp.inf)


def _log_sum(values: Array, real: Array) -> Array:
    return jax.nn.logsumexp(jnp.where(real, values, -jnp.inf))
