"""Losses and layers of decision sets: each a function of predicted costs and of the oracle.

With s = -1 of "minimise" and 1 of "maximise", so that y*(c) = argmax_y s <c, y>, c^ predicted costs
and y_i a best decision of the true costs c_i:

    SPO+           max_y s <2 c^ - c_i, y> - s <2 c^ - c_i, y_i>
    Fenchel-Young  E_Z max_y <theta(Z), y> - <theta, y_i>,   theta = s c^

Z are independent standard normal numbers, theta(Z) = theta + sigma Z ("gaussian") or theta
exp(sigma Z - sigma^2 / 2) ("multiplicative"). All take ONE example; use `jax.vmap` over a batch,
which the oracle answers in one call.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxstruct.core.checks import check_choice, checked_number, checked_size
from jaxstruct.core.types import Array, PyTree
from jaxstruct.decisions.sets import Decisions, checked_set, checked_vector, inner

NOISES = ("gaussian", "multiplicative")


def _sloped(value: Array, slope: Array, at: Array) -> Array:
    """The value, whose gradient in `at` is the slope."""
    held = jax.lax.stop_gradient((value, slope, at))
    return held[0] + jnp.vdot(held[1], at - held[2])


def spo_plus(
    decisions: Decisions, predicted: Array, costs: Array, instance: PyTree = (), y: Any = None
) -> Array:
    """The SPO+ loss, a convex bound of the regret; see the module.

    Its gradient in c^ is 2 s (y* - y_i), y* = argmax_y s <2 c^ - c_i, y>: a subgradient. It is the
    slack of margin re-scaling with F = 2 s <c^, y> and Delta = s <c_i, y_i - y>, so `problem` and
    `jaxstruct.fit` train linear models with it, to a certified optimum.

    Args:
      decisions: the set. predicted: [d] c^, differentiable. costs: [d] c_i, finite.
      instance: of the example. y: [d] y_i where it is known; None to ask the oracle once more.

    Returns:
      A scalar, at least the regret of c^.

    Raises:
      ValueError: an argument does not fit.

    Source: A. Elmachtoub and P. Grigas, "Smart predict, then optimize", Management Science 2022.
    """
    s = checked_set(decisions).sign
    predicted = checked_vector("predicted", predicted, decisions)
    costs = checked_vector("costs", costs, decisions).astype(predicted.dtype)
    given, costs = jax.lax.stop_gradient((predicted, costs))
    y = decisions.best(s * costs, instance) if y is None else jnp.asarray(y)
    spoilt = s * (2 * given - costs)
    worst = decisions.best(spoilt, instance)
    slope = 2 * s * (worst - y).astype(given.dtype)
    return _sloped(inner(spoilt, worst) - inner(spoilt, y), slope, predicted)


def _checked_noise(samples: int, scale: Any, noise: str) -> Any:
    check_choice("noise", noise, NOISES)
    checked_size("samples", samples)
    return scale if isinstance(scale, jax.Array) else checked_number("scale", scale, strict=True)


def _draws(noise: str, samples: int, theta: Array, key: Array, scale: Any) -> tuple[Array, Array]:
    """(Z [M, d], d theta(Z) / d theta [M, d]); theta(Z) is theta + sigma Z, or theta times it."""
    Z = jax.random.normal(key, (samples, *theta.shape), theta.dtype)
    if noise == "gaussian":
        return Z, jnp.ones_like(Z)
    return Z, jnp.exp(scale * Z - scale**2 / 2).astype(theta.dtype)


def _perturbed(
    decisions: Decisions, noise: str, samples: int, theta: Array, key: Array, scale: Any, x: PyTree
) -> tuple[Array, Array, Array, Array]:
    """(Z, d theta(Z) / d theta, theta(Z), their best decisions), [M, d] each."""
    Z, slopes = _draws(noise, samples, theta, key, scale)
    moved = theta[None] + scale * Z if noise == "gaussian" else theta[None] * slopes
    moved = moved.astype(theta.dtype)
    return Z, slopes, moved, jax.vmap(decisions.best, (0, None))(moved, x)


def fenchel_young(
    decisions: Decisions,
    predicted: Array,
    y: Array,
    key: Array,
    instance: PyTree = (),
    *,
    samples: int = 8,
    scale: float | Array = 1.0,
    noise: str = "gaussian",
) -> Array:
    """The perturbed Fenchel-Young loss of decisions y_i that were made; no costs are needed.

    Value and gradient are means over M draws, both without bias: the gradient in c^ is s (E
    [d theta(Z) / d theta * y*(theta(Z))] - y_i). Up to a constant of y_i it is a Fenchel-Young loss
    of theta and y_i, convex and smooth. `jaxstruct.losses.perturbed` has Gumbel noise, of every
    structure.

    Args:
      predicted: [d] c^, differentiable. y: [d] y_i. key: of jax.random, another one for every
        example and step. samples: M, static. scale: sigma > 0. noise: see the module;
        "multiplicative" keeps the signs of costs.

    Returns:
      A scalar.

    Raises:
      ValueError: an argument does not fit.

    Source: Q. Berthet, M. Blondel, O. Teboul, M. Cuturi, J.-P. Vert and F. Bach, "Learning with
    differentiable perturbed optimizers", NeurIPS 2020; for multiplicative noise G. Dalle, L. Baty,
    L. Bouvier and A. Parmentier, "Learning with combinatorial optimization layers: a probabilistic
    approach", 2022.
    """
    scale, s = _checked_noise(samples, scale, noise), checked_set(decisions).sign
    predicted, y = checked_vector("predicted", predicted, decisions), jnp.asarray(y)
    theta = s * jax.lax.stop_gradient(predicted)
    given = decisions, noise, samples, theta, key, scale, instance
    _, slopes, moved, best = _perturbed(*given)
    value = jnp.mean(inner(moved, best)) - inner(theta, y)
    slope = jnp.mean(slopes * best, axis=0) - y
    return _sloped(value, (s * slope).astype(theta.dtype), predicted)


def perturbed_argmax(
    decisions: Decisions,
    predicted: Array,
    key: Array,
    instance: PyTree = (),
    *,
    samples: int = 8,
    scale: float = 1.0,
    noise: str = "gaussian",
) -> Array:
    """E_Z y*(theta(Z)), the mean of M perturbed decisions: a layer that is differentiable.

    The product of a vector g with its Jacobian is estimated from the same draws, without bias:
    s E [<g, y*(theta(Z))> Z] / sigma, divided by theta of "multiplicative" noise, theta not 0.

    Args:
      as in `fenchel_young`.

    Returns:
      [d] floats, of the dtype of `predicted`.

    Raises:
      ValueError: an argument does not fit.

    Source: as `fenchel_young`.
    """
    scale, s = _checked_noise(samples, scale, noise), checked_set(decisions).sign
    predicted = checked_vector("predicted", predicted, decisions)
    given = decisions, noise, samples, s * jax.lax.stop_gradient(predicted), key, scale, instance
    Z, _, _, best = _perturbed(*given)
    best = best.astype(predicted.dtype)
    base = jnp.ones_like(predicted) if noise == "gaussian" else jax.lax.stop_gradient(predicted)
    # s Z / (sigma theta) is Z / (sigma c^) of multiplicative noise, s Z / sigma of the other.
    factor = s if noise == "gaussian" else 1
    scores = (factor * Z / (scale * base[None])).astype(predicted.dtype)
    moved = scores @ (predicted - jax.lax.stop_gradient(predicted))  # [M], 0 in value
    return jnp.mean(best * (1 + moved[:, None]), axis=0)


@jax.custom_vjp
def _interpolated(decisions: Decisions, theta: Array, instance: PyTree, step: Any) -> Array:
    return decisions.best(theta, instance).astype(theta.dtype)


def _forward(decisions: Decisions, theta: Array, instance: PyTree, step: Any) -> tuple:
    y = _interpolated(decisions, theta, instance, step)
    return y, (decisions, theta, instance, step, y)


def _backward(kept: tuple, g: Array) -> tuple:
    decisions, theta, instance, step, y = kept
    moved = _interpolated(decisions, (theta - step * g).astype(theta.dtype), instance, step)
    return None, ((y - moved) / step).astype(theta.dtype), None, None


_interpolated.defvjp(_forward, _backward)


def blackbox(
    decisions: Decisions, predicted: Array, instance: PyTree = (), *, step: float = 10.0
) -> Array:
    """y*(c^) as a layer, whose gradient is that of an interpolation: one oracle call more.

    The product of a vector g with the Jacobian is taken as s (y* - y*(theta - lambda g)) / lambda,
    theta = s c^: what a step of size lambda against g changes.

    Args:
      predicted: [d] c^, differentiable. step: lambda > 0; small follows the steps of y*, large
        smooths them.

    Returns:
      [d] floats, of the dtype of `predicted`.

    Raises:
      ValueError: an argument does not fit.

    Source: M. Vlastelica Pogancic, A. Paulus, V. Musil, G. Martius and M. Rolinek,
    "Differentiation of blackbox combinatorial solvers", ICLR 2020.
    """
    s = checked_set(decisions).sign
    predicted = checked_vector("predicted", predicted, decisions)
    step = step if isinstance(step, jax.Array) else checked_number("step", step, strict=True)
    return _interpolated(decisions, s * predicted, jax.tree.map(jnp.copy, instance), step)
