"""The perturbed loss: Fenchel-Young by perturb-and-MAP.

    l(theta) = 1/M sum_m max_y F(y; theta + sigma Z_m) - F(y_i; theta + sigma Z_m)

with Z_m of independent Gumbel numbers of mean 0, one for every entry of every table of potentials.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import checked_number, checked_size, text_of
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.transposition import is_linear
from jaxstruct.core.types import Array, PyTree
from jaxstruct.losses.one_call import of_evaluation, with_slope
from jaxstruct.losses.validation import checked_example


def _noisy(theta: PyTree, key: Array, scale: Array) -> PyTree:
    """theta + sigma Z; integers pass through."""
    leaves, structure = jax.tree.flatten(theta)
    keys = jax.random.split(key, len(leaves))

    def moved(leaf: Array, key: Array) -> Array:
        if not is_linear(leaf):
            return leaf
        noise = jax.random.gumbel(key, leaf.shape, leaf.dtype) - np.euler_gamma
        return leaf + (scale * noise).astype(leaf.dtype)

    moves = [moved(leaf, key) for leaf, key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(structure, moves)


def _evaluated(theta: PyTree, given: PyTree) -> tuple[Array, PyTree]:
    problem, y, keys, scale = given

    def of_sample(key: Array) -> tuple[Array, PyTree]:
        noisy = _noisy(theta, key, scale)
        best = problem.model.decode(noisy)
        return problem.model.score(noisy, best) - problem.model.score(noisy, y), best

    excess, best = jax.vmap(of_sample)(keys)
    shares = jnp.where(excess > 0, 1 / keys.shape[0], 0).astype(excess.dtype)
    planes = jax.tree.map(lambda a, b: jnp.append(a, b[None].astype(a.dtype), axis=0), best, y)
    shares_and_truth = jnp.append(shares, -jnp.sum(shares))
    slope = problem.space.combine(theta, planes, shares_and_truth)
    return jnp.mean(jnp.maximum(excess, 0)), slope


_PERTURBED = of_evaluation(_evaluated)


def _checked_key(key: Array) -> Array:
    """One key of jax.random.

    Raises:
      ValueError: it is none, or several.
    """
    wanted = "key must be ONE key of jax.random, as of jax.random.key(0)"
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not typed and (dtype != np.uint32 or shape is None or len(shape) != 1):
        raise ValueError(f"{wanted}, got {text_of(key)}: jax.random.split makes one an example")
    if typed and shape != ():
        raise ValueError(f"{wanted}, got keys of shape {shape}: use jax.vmap over examples")
    return key


def perturbed(
    problem: Problem, theta: PyTree, y: PyTree, key: Array, samples: int = 8, scale: float = 1.0
) -> Array:
    """The mean perceptron loss under noisy potentials: an estimate of a Fenchel-Young loss.

    What it estimates: E_Z [max_y F(y; theta + sigma Z)] - F(y_i; theta), without bias, since Z has
    mean 0 and enters both terms. That is the Fenchel-Young loss of theta and y_i up to a constant
    of y_i; it is convex and smooth in theta, and its gradient E [Psi-bar(y_hat(theta + sigma Z))] -
    Psi-bar(y_i) is estimated without bias, too. For a fixed key l is exactly the mean written in
    the module, and the gradient exactly its (sub)gradient.

    The model behind it is perturb-and-MAP, not P(y | x) = exp(F) / Z. Both are one for classes:
    with sigma = 1, E l is `log_loss`. For chains and graphs, where every label of every position or
    node has noise of its own, E l with sigma = 1 is at least `log_loss` (tables that positions
    share, such as transitions, are moved alike for all of them). For trees and alignments, whose
    tables are shared throughout, it is noise of the model's weights, and no such bound holds.

    All samples are decoded in one batched call. Where the decode is inexact, a sample whose output
    scores below y_i counts as y_i.

    Args:
      problem: the structure; Delta plays no part.
      theta: problem.model.potentials(w, x) of ONE example. y: its true output, padded.
      key: of jax.random, another one for every example and every step.
      samples: M >= 1, static; memory holds M noisy theta. scale: sigma > 0, static or traced.

    Returns:
      A scalar >= 0.

    Raises:
      ValueError: an argument does not fit.

    Source: Q. Berthet, M. Blondel, O. Teboul, M. Cuturi, J.-P. Vert and F. Bach, "Learning with
    differentiable perturbed optimizers", NeurIPS 2020; G. Papandreou and A. Yuille,
    "Perturb-and-MAP random fields", ICCV 2011; for the bound T. Hazan and T. Jaakkola, "On the
    partition function and random maximum a-posteriori perturbations", ICML 2012.
    """
    theta, y = checked_example(problem, theta, output_of(y))
    keys = jax.random.split(_checked_key(key), checked_size("samples", samples))
    if not isinstance(scale, jax.Array):
        scale = checked_number("scale", scale, strict=True)
    return with_slope(_PERTURBED, theta, (problem, y, keys, scale))
