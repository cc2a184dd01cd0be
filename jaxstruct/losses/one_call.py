"""A loss of potentials whose forward pass makes one oracle call and whose backward pass makes none.

The gradient of every loss here is a sum of Psi-bar(y) = d score(theta, y) / d theta over a few
outputs, or over marginals: known as soon as the oracle has answered. The forward pass keeps it,
shaped as theta; the backward pass multiplies it by the cotangent. No oracle is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax

from jaxstruct.core.transposition import is_linear
from jaxstruct.core.types import Array, PyTree


class Loss(NamedTuple):
    """What a loss computes, as functions of (theta, given).

    Fields:
      value: -> l, where no gradient is asked for.
      value_and_slope: -> (l, its slope in theta, shaped as theta; what stands at integers is not
        read).
    """

    value: Callable[[PyTree, PyTree], Array]
    value_and_slope: Callable[[PyTree, PyTree], tuple[Array, PyTree]]


def of_evaluation(evaluate: Callable[[PyTree, PyTree], tuple[Array, PyTree]]) -> Loss:
    """The loss whose value takes the same oracle call as its slope."""
    return Loss(lambda theta, given: evaluate(theta, given)[0], evaluate)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def with_slope(loss: Loss, theta: PyTree, given: PyTree) -> Array:
    """l(theta), whose gradient is the slope that the loss returns.

    Args:
      loss: static.
      theta: the potentials of ONE example; its floating-point leaves have gradients.
      given: what else the loss reads, such as the problem and the true output; it has none.

    Returns:
      A scalar with first derivatives in reverse mode only; JAX raises an error for any other.
    """
    return loss.value(theta, given)


def _forward(loss: Loss, theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    value, slope = loss.value_and_slope(theta, given)
    return value, jax.tree.map(lambda leaf, u: u if is_linear(leaf) else None, theta, slope)


def _backward(loss: Loss, slope: PyTree, cotangent: Array) -> tuple[PyTree, None]:
    del loss
    return jax.tree.map(lambda u: (cotangent * u).astype(u.dtype), slope), None


with_slope.defvjp(_forward, _backward)
