"""The dual of the pooled solver: its numbers, its sweeps, and the terms of its certificate."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import text_of
from jaxstruct.core.types import Array
from jaxstruct.kernels import check_positive_semidefinite
from jaxstruct.solvers.objective.block_dual import block_ascent
from jaxstruct.solvers.objective.certificate import ExampleTerms
from jaxstruct.solvers.objective.formulations import (
    Formulation,
    Penalty,
    penalty_numbers,
    power_of_loss,
)

_BLOCK_STEPS = 50


class Pool(NamedTuple):
    """gram: [n, k, n, k] <phi, phi>; scales, bounds: [n, k], 0 at y_i; wrong: [n, k] y != y_i."""

    gram: Array
    scales: Array
    bounds: Array
    wrong: Array
    terms: Penalty


@jax.jit
def pool_of(joint: Array, losses: Array, truths: Array, terms: Penalty) -> Pool:
    """The dual's numbers, in the dtype of the run; joint: [n, k, n, k] kernel values."""
    n, k = losses.shape
    wrong = jnp.arange(k)[None] != truths[:, None]
    scales = jnp.where(wrong, power_of_loss(losses, terms.scale_power), 0)
    bounds = jnp.where(wrong, power_of_loss(losses, terms.bound_power), 0)
    rows = jnp.arange(n)
    left = joint[rows, truths][:, None] - joint
    both = left[:, :, rows, truths][..., None] - left
    return Pool(scales[:, :, None, None] * both * scales[None, None], scales, bounds, wrong, terms)


@partial(jax.jit, static_argnames="rounds")
def pool_sweeps(pool: Pool, members: Array, beta: Array, order: Array, rounds: int) -> Array:
    """beta after `rounds` sweeps in the given order; the dual never falls.

    Args:
      members: [n, k] bool, S with the slack slots. order: [n] permutation of the examples.
    """

    def products_of(beta: Array) -> Array:
        return jnp.tensordot(pool.gram, beta, 2, precision=jax.lax.Precision.HIGHEST)

    def visit(state: tuple[Array, Array], i: Array) -> tuple[tuple[Array, Array], None]:
        beta, products = state
        wrong, ridge = pool.wrong[i], pool.terms.ridge[i]
        multiplier_sum = jnp.sum(beta[i])
        gradient = jnp.where(wrong, pool.bounds[i] - products[i] - ridge * multiplier_sum, 0)
        ridged = pool.gram[i, :, i] + ridge * (wrong[:, None] & wrong[None])
        start = jnp.where(wrong, beta[i], jnp.maximum(pool.terms.cap[i] - multiplier_sum, 0))
        solved = block_ascent(ridged, gradient, start, members[i], _BLOCK_STEPS)
        new = jnp.where(wrong, solved, 0)
        return (beta.at[i].set(new), products + pool.gram[:, :, i] @ (new - beta[i])), None

    def sweep(beta: Array, _: None) -> tuple[Array, None]:
        return jax.lax.scan(visit, (beta, products_of(beta)), order)[0][0], None

    return jax.lax.scan(sweep, beta, None, length=rounds)[0]


class Tables(NamedTuple):
    """What the certificate is made of, on the host: joint [n, k, n, k] as it was given.

    scales, bounds: [n, k] s and b, 0 at y_i. truths: [n]. terms: cap and ridge. All in float64.
    """

    joint: np.ndarray
    scales: np.ndarray
    bounds: np.ndarray
    truths: np.ndarray
    terms: Penalty


def tables_of(
    joint: np.ndarray, losses: np.ndarray, truths: np.ndarray, weights: np.ndarray,
    formulation: Formulation, C: float,
) -> Tables:  # fmt: skip
    """The numbers of the certificate, none of them rounded to the dtype of the run."""
    n, k = losses.shape
    wrong = np.arange(k)[None] != truths[:, None]
    scales, bounds = (
        np.where(wrong, losses**power, 0)
        for power in (formulation.scale_power, formulation.bound_power)
    )
    return Tables(joint, scales, bounds, truths, penalty_numbers(formulation, C, weights, n))


def coefficients_of(alpha: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """[n, k] [y = y_i] sum_y' alpha_iy' - alpha_iy."""
    coefficients = -alpha
    coefficients[np.arange(truths.size), truths] += np.sum(alpha, axis=1)
    return coefficients


def _products(tables: Tables, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([n, k] G beta, [n] size of its terms) in float64, from the joint Gram matrix as given.

    The size counts every kernel value, since each of them was rounded once to its dtype: by that
    much the matrix is not the one of any kernel.
    """
    rows = np.arange(tables.truths.size)
    coefficients = coefficients_of(tables.scales * beta, tables.truths)
    scores, sizes = np.empty(tables.scales.shape), np.empty(tables.scales.shape)
    for i, block in enumerate(tables.joint):
        block = block.astype(np.float64)
        scores[i] = np.tensordot(block, coefficients, 2)
        sizes[i] = np.tensordot(np.abs(block), np.abs(coefficients), 2)
    products = tables.scales * (scores[rows, tables.truths][:, None] - scores)
    return products, 2 * np.max(tables.scales, axis=1) * np.max(sizes, axis=1)


def example_terms(
    tables: Tables, wrong: np.ndarray, members: np.ndarray, beta: np.ndarray
) -> tuple[ExampleTerms, np.ndarray]:
    """The certificate's terms in float64, and H [n, k] (-inf at y_i)."""
    bounds, (products, size) = tables.bounds, _products(tables, beta)
    violations = np.where(wrong, bounds - products, -np.inf)
    worst = np.max(violations, axis=1)
    known = np.maximum(np.max(np.where(members, violations, -np.inf), axis=1), 0)
    terms = ExampleTerms(
        worst=worst,
        value=worst,
        slack=np.maximum(worst, 0),
        known=known,
        bound=np.sum(beta * bounds, axis=1),
        product=np.sum(beta * products, axis=1),
        multiplier_sum=np.sum(beta, axis=1),
        size=size + np.max(bounds, axis=1),
        reach=np.zeros(len(beta)),
    )
    return terms, violations


def checked_tables(
    gram: Array, losses: np.ndarray, truths: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(losses, truths, weights) in NumPy, or a ValueError that names what does not fit."""
    losses, truths = np.asarray(losses, np.float64), np.asarray(truths)
    if losses.ndim != 2 or losses.shape[0] < 1 or losses.shape[1] < 2:
        raise ValueError(f"losses must be [n, k] with k >= 2 outputs, got shape {losses.shape}")
    n, k = losses.shape
    if truths.shape != (n,) or truths.dtype.kind not in "iu":
        raise ValueError(f"truths must be [n = {n}] integers, got {truths.dtype} {truths.shape}")
    if truths.min() < 0 or truths.max() >= k:
        raise ValueError(
            f"truths must lie in 0..{k - 1}, got {truths.min()}..{truths.max()}: columns of losses"
        )
    if not np.isfinite(losses).all() or losses.min() < 0 or losses[np.arange(n), truths].any():
        raise ValueError("losses must be finite, >= 0, and 0 at the true outputs")
    if np.shape(gram) != (n, k, n, k):
        raise ValueError(
            f"gram must be [n, k, n, k] = {(n, k, n, k)}, got shape {np.shape(gram)}; joint_gram "
            "builds it from a kernel"
        )
    check_positive_semidefinite(np.reshape(gram, (n * k, n * k)), "gram")
    weights = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    if weights.shape != (n,) or not np.isfinite(weights).all() or weights.min() < 0:
        raise ValueError(
            f"example_weights must be [n = {n}], finite and >= 0, got {text_of(weights)}"
        )
    if not weights.any():
        raise ValueError("example_weights must not be all zero")
    return losses, truths.astype(np.int32), weights
