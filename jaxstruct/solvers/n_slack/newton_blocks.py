"""The blocks of the proximal Newton method: products with all planes, and proximal steps.

phi, h_i and psi_i as in `proximal_newton`. Every operation is one on all examples; where these lie
on the shards of a mesh, inside `shard_map`, sums over examples are sums over the shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, plane_coefficients


@jax.tree_util.register_static
@dataclass(frozen=True)
class Axes:
    """The axes of the mesh over whose shards blocks lie; none on one device."""

    names: tuple[str, ...] = ()


ALONE = Axes()


class Blocks(NamedTuple):
    """The data of some blocks; sigma: [N] the proximal step length of each.

    inputs and sets.outputs are tuples of buckets, the rest has all N rows.
    """

    inputs: tuple[PyTree, ...]
    sets: WorkingSets
    cap: Array
    ridge: Array
    sigma: Array
    axes: Axes = ALONE


class Iterate(NamedTuple):
    """w = Phi span; h at w; b = the proximal multipliers; value = phi(w)."""

    w: PyTree
    span: Array
    h: Array
    b: Array
    value: Array


class Residual(NamedTuple):
    """e_0 = Phi (b - span) = -grad phi(w): its multipliers and its image Phi' e_0, both [N, K]."""

    multipliers: Array
    image: Array


def summed(blocks: Blocks, own: Any) -> Any:
    """The sum over all shards of what each has."""
    return jax.lax.psum(own, blocks.axes.names) if blocks.axes.names else own


def squared(blocks: Blocks, residual: Residual) -> Array:
    """|e_0|^2."""
    return summed(blocks, jnp.sum(residual.multipliers * residual.image))


def images_of(problem: Problem, w: PyTree, blocks: Blocks) -> Array:
    """[N, K] <w, phi_i(y_k)>, zero in slot 0 and in empty slots."""
    parts = zip(blocks.inputs, blocks.sets.outputs, strict=True)
    values = jnp.concatenate([problem.space.plane_values(w, x, y) for x, y in parts])
    return blocks.sets.scales * (values[:, :1] - values)


def multiples(problem: Problem, blocks: Blocks, z: Array) -> PyTree:
    """sum z phi, in the space of the weights."""
    w = problem.initial_weights
    c = plane_coefficients(blocks.sets.scales * z)
    places = bucket_slices(blocks.sets.outputs)
    for x, y, own in zip(blocks.inputs, blocks.sets.outputs, places, strict=True):
        w = problem.space.add_planes(w, x, y, c[own])
    return summed(blocks, w)


def capped(blocks: Blocks) -> Array:
    """[N] whether the feasible set of a block is a scaled simplex (else the orthant)."""
    return jnp.isfinite(blocks.cap)


def stiffness_of(blocks: Blocks) -> Array:
    """[N] a with lambda = (sum_F v - c) / (|F| + a).

    0 for a cap, 1/(sigma r) for a ridge, huge for neither (a hard margin, lambda = 0).
    """
    ridged = blocks.ridge > 0
    soft = 1 / (blocks.sigma * jnp.where(ridged, blocks.ridge, 1))
    return jnp.where(capped(blocks), 0, jnp.where(ridged, soft, 1e30))


def allowed_slots(blocks: Blocks) -> Array:
    """[N, K] slots of the block's feasible set: the slack slot only where the cap is finite."""
    planes = jnp.arange(blocks.sets.losses.shape[1]) > 0
    return blocks.sets.occupied & (planes[None] | capped(blocks)[:, None])


def project(v: Array, allowed: Array, total: Array, stiffness: Array) -> Array:
    """[K] argmin_b |b - v|^2 / 2 + (1'b - total)-term: b = max(v - lambda, 0) on allowed slots.

    lambda solves sum_k max(v_k - lambda, 0) = total + stiffness lambda (a scaled simplex for
    stiffness 0). Michelot's shrinking of the support: lambda rises until no slot leaves. On a
    simplex v is first shifted by its maximum, which changes nothing but the rounding of a total
    far below |v|, and the result is scaled to its total.
    """
    simplex = stiffness == 0
    v = v - jnp.where(simplex, jnp.max(jnp.where(allowed, v, -jnp.inf)), 0)

    def update(support: Array) -> tuple[Array, Array]:
        count = jnp.sum(support) + stiffness
        level = (jnp.sum(jnp.where(support, v, 0)) - total) / jnp.maximum(count, 1e-30)
        return support & (v > level), level

    first, level = update(allowed)

    def body(state: tuple) -> tuple:
        _, support, _ = state
        smaller, level = update(support)
        return support, smaller, level

    _, _, level = jax.lax.while_loop(lambda s: jnp.any(s[0] != s[1]), body, (allowed, first, level))
    b = jnp.where(allowed, jnp.maximum(v - level, 0), 0)
    multiplier_sum = jnp.sum(b)
    return b * jnp.where(
        simplex & (multiplier_sum > 0), total / jnp.where(multiplier_sum > 0, multiplier_sum, 1), 1
    )


def proximal(blocks: Blocks, beta: Array, h: Array) -> Array:
    """[N, K] the maximiser b of the block envelopes, slot 0 included where the cap is finite."""
    v = beta + blocks.sigma[:, None] * h
    total = jnp.where(capped(blocks), blocks.cap, 0)
    return jax.vmap(project)(v, allowed_slots(blocks), total, stiffness_of(blocks))


def _envelope(blocks: Blocks, beta: Array, h: Array, b: Array) -> Array:
    planes = jnp.arange(b.shape[1]) > 0
    multiplier_sum = jnp.sum(jnp.where(planes, b, 0), axis=1)
    moved = jnp.sum((b - beta) ** 2, axis=1) / (2 * blocks.sigma)
    return jnp.sum(jnp.sum(b * h, axis=1) - blocks.ridge * multiplier_sum**2 / 2 - moved)


def evaluate(
    problem: Problem, blocks: Blocks, beta: Array, w: PyTree, span: Array, h: Array, images: Array
) -> Iterate:
    """The iterate at w: its proximal multipliers and phi."""
    b = proximal(blocks, beta, h)
    value = summed(blocks, jnp.sum(span * images) / 2 + _envelope(blocks, beta, h, b))
    return Iterate(w, span, h, b, value)


def residual_of(problem: Problem, blocks: Blocks, now: Iterate) -> Residual:
    """e_0 = Phi (b - span) and its image."""
    multipliers = (now.b - now.span).at[:, 0].set(0)
    e0 = multiples(problem, blocks, multipliers)
    return Residual(multipliers, images_of(problem, e0, blocks))
