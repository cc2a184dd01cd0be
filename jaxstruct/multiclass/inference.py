"""What a class can be asked besides training: multinomial logistic regression.

    P(y | x) = exp(F(x, y; w)) / sum_r exp(F(x, r; w))

with Psi(x, y) = Phi(x) (x) Lambda(y), as the slides have it ("Multi-class logistic regression").
theta is the scores [k] of the classes. The losses raised by Delta follow from the list of classes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.contract import Inference, Marginals
from jaxstruct.core.derived_inference import or_padding
from jaxstruct.core.draws import draw
from jaxstruct.core.largest import largest
from jaxstruct.core.types import Array


def _log_loss(theta: Array, y: Array) -> Array:
    """-log P(y | x) = log sum_r exp(F(x, r) - F(x, y)), >= 0 and convex in theta."""
    return jax.nn.logsumexp(theta - jnp.take(theta, y))


def _marginals(theta: Array) -> Marginals:
    """[k] the probability of each class."""
    return Marginals(jax.nn.softmax(theta), jax.nn.logsumexp(theta))


def _k_best(theta: Array, k: int) -> tuple[Array, Array]:
    scores, classes = largest(theta, k)
    return or_padding(classes, scores), scores


def _sample(theta: Array, key: Array) -> Array:
    return draw(key, theta)


CLASS_INFERENCE = Inference(_log_loss, _marginals, _k_best, _sample)
