"""What a structure can say of its own confidence: functions of ONE example's theta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Problem
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import AnyArray, Array, PyTree

Given: TypeAlias = Any
"""A function or None; `structures.ways_at_the_door` says which ones must be there."""


class Marginals(NamedTuple):
    """Probabilities of the parts of outputs under p(y | x) = exp(F(x, y) / T) / Z.

    Fields:
      probabilities: of a structure's own shape, see `confidence.marginals`.
      log_partition: log Z.
    """

    probabilities: PyTree
    log_partition: AnyArray


class TreeProbabilities(NamedTuple):
    """Probabilities of the nodes of trees.

    Fields:
      symbols: [T, S] p(symbol right above a token).
      spans: [T, T, S] p(a node of that symbol over the tokens from the first to the last), of at
        least two tokens; else 0.
    """

    symbols: AnyArray
    spans: AnyArray


class Ways(NamedTuple):
    """The functions of one structure; None is what it has not.

    Fields:
      k_best: (problem, theta, k) -> (outputs y[k], scores [k]); padding -1 and -inf.
      log_loss: (problem, theta, y, b) -> -log p(y | x) = log Z - b F(y) under b theta,
        differentiable in the number b.
      marginals: (problem, theta) -> (Marginals, the same pytree of how many positions, rows and
        columns each leaf has: int32 [0], [1] or [2]).
      sample: (problem, theta, key) -> y.
      most: how many k_best knows at most; None for any number.
      why: what to do about functions that are None.
    """

    k_best: Callable
    log_loss: Given = None
    marginals: Given = None
    sample: Given = None
    most: int | None = None
    why: str = ""


def positions(*lengths: Array) -> Array:
    """[number] int32 the real sizes of the leading axes of a leaf."""
    return jnp.asarray(lengths, jnp.int32).reshape(len(lengths))


def of_likelihood(likelihood: Callable) -> Callable:
    """A `Ways.log_loss` made of a likelihood (problem, theta, y) -> -log p(y | x)."""

    def log_loss(problem: Problem, theta: PyTree, y: PyTree, b: Array) -> Array:
        return likelihood(problem, scaled(theta, b), y)

    return log_loss


def listed_loss(scores: Array, own: Array, b: Array) -> Array:
    """-log p under scores [K] of all outputs, -inf of those that are none, and F(y)."""
    scores, own = jax.lax.stop_gradient((scores, own))
    real = scores > -jnp.inf
    return jax.nn.logsumexp(jnp.where(real, b * jnp.where(real, scores - own, 0), -jnp.inf))


def largest(scores: Array, k: int) -> tuple[Array, Array]:
    """(the k largest of scores [K], their places); lowest first of equal ones, -inf beyond."""
    short = max(k - scores.shape[0], 0)
    top, places = jax.lax.top_k(jnp.pad(scores, (0, short), constant_values=-jnp.inf), k)
    return top, places.astype(jnp.int32)


def or_padding(outputs: PyTree, scores: Array) -> PyTree:
    """Outputs y[k], -1 throughout where the score is -inf."""

    def of_leaf(leaf: Array) -> Array:
        real = (scores > -jnp.inf).reshape(-1, *(1,) * (leaf.ndim - 1))
        return jnp.where(real, leaf, -1).astype(jnp.int32)

    return jax.tree.map(of_leaf, outputs)
