"""Full optimisation over all working sets at once (variant a of algorithms 2 and 3).

The dual over S is maximised by proximal steps, each solved by a semismooth Newton method on its
smooth primal. With psi_i the Moreau envelope of the block's support function,

    phi(w) = 1/2 |w|^2 + sum_i max_b { <b, h_i(w)> - r_i/2 (1'b)^2 - |b - beta_i|^2 / (2 sigma_i) },

over b in the block's feasible set, h_i(w) = bounds - scales <w, delta Psi_i>; its minimiser makes
b the next beta. Every operation is one on all examples, so it suits wide machines, and the tail of
large C, where block ascent crawls, is superlinear. Norms of w are never taken in the weights'
own coordinates, so kernels need nothing special.

The Newton system is solved on the free variables of the active blocks by conjugate gradients:
(diag(1/sigma) + r 11' + P G P) z = P Phi'(Phi b - w), with P the projection on the face, and the
direction is Phi (b - beta~ - z), where w = Phi beta~ throughout. On the shards of a mesh, inside
`shard_map`, sums over examples are sums over the shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, plane_coefficients

NEWTON_STEPS, TOLERANCE = 4, 0.5
"""Newton steps a proximal step at most. Newton ends when
|grad phi|^2 <= TOLERANCE sum_i |b_i - beta_i|^2 / sigma_i."""

CG_STEPS, CG_TOLERANCE = 30, 0.3
"""Iterations of conjugate gradients a Newton step, at most and down to this part of |e_0|."""

LINE_TRIALS = 12
"""Halvings of a Newton step at most."""


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


def of_planes(z: Array) -> Array:
    """[N, K] without slot 0, by a choice, which is no kernel of its own as writing a column is."""
    return jnp.where(jnp.arange(z.shape[1]) > 0, z, 0)


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


def evaluate(
    problem: Problem, blocks: Blocks, beta: Array, w: PyTree, span: Array, h: Array, images: Array
) -> Iterate:
    """The iterate at w: its proximal multipliers and phi."""
    b = proximal(blocks, beta, h)
    multiplier_sum = jnp.sum(of_planes(b), axis=1)
    moved = jnp.sum((b - beta) ** 2, axis=1) / (2 * blocks.sigma)
    envelope = jnp.sum(jnp.sum(b * h, axis=1) - blocks.ridge * multiplier_sum**2 / 2 - moved)
    return Iterate(w, span, h, b, summed(blocks, jnp.sum(span * images) / 2 + envelope))


def residual_of(problem: Problem, blocks: Blocks, now: Iterate) -> Residual:
    """e_0 = Phi (b - span) and its image."""
    multipliers = of_planes(now.b - now.span)
    e0 = multiples(problem, blocks, multipliers)
    return Residual(multipliers, images_of(problem, e0, blocks))


FEW_BLOCKS = 24
"""Up to so many blocks are never gathered: it would save nothing, and is a loop more to compile. Of
1,000 digits at C/n = 1 gathered ones take .27 s, all .51; with all outputs at hand .24 and .48."""


def _face_derivative(blocks: Blocks, free: Array, v: Array) -> Array:
    """The derivative of the projection: v - (sum_F v) / (|F| + a) on the free slots F, else 0."""
    v = jnp.where(free, v, 0)
    count = jnp.sum(free, axis=1) + stiffness_of(blocks)
    return jnp.where(free, v - (jnp.sum(v, axis=1) / jnp.maximum(count, 1))[:, None], 0)


class _Vector(NamedTuple):
    """v = along e_0 + Phi z in the space of the weights, and its image Phi'v on the active blocks.

    All vectors of the Newton system live in this form, so that only active blocks are touched and
    inner products need no metric of the weights: <u, v> = u.along <e_0, v> + u.z . v.image.
    """

    along: Array
    z: Array
    image: Array


def _inner(blocks: Blocks, u: _Vector, v: _Vector, e0_squared: Array, e0_image: Array) -> Array:
    with_e0, with_v = summed(blocks, (jnp.sum(v.z * e0_image), jnp.sum(u.z * v.image)))
    return u.along * (v.along * e0_squared + with_e0) + with_v


def _move(u: _Vector, t: Array, v: _Vector) -> _Vector:
    return jax.tree.map(lambda a, b: a + t * b, u, v)


def _conjugate_gradients(
    problem: Problem, blocks: Blocks, free: Array, e0_squared: Array, e0_image: Array
) -> _Vector:
    """d of (I + Phi D Phi') d = e_0, to `CG_TOLERANCE` of |e_0|; D = sigma P on the face."""
    inner = partial(_inner, blocks, e0_squared=e0_squared, e0_image=e0_image)

    def body(state: tuple) -> tuple:
        count, d, r, p, rho = state
        q = blocks.sigma[:, None] * _face_derivative(blocks, free, p.image)
        gram_q = images_of(problem, multiples(problem, blocks, q), blocks)
        product = _Vector(p.along, p.z + q, p.image + gram_q)
        curvature = inner(p, p) + summed(blocks, jnp.sum(p.image * q))
        step = rho / jnp.maximum(curvature, jnp.finfo(q.dtype).tiny)
        d, r = _move(d, step, p), _move(r, -step, product)
        new = inner(r, r)
        return count + 1, d, r, _move(r, new / rho, p), new

    def goes_on(state: tuple) -> Array:
        count, _, _, _, rho = state
        return (count < CG_STEPS) & (rho > goal)

    nothing = jnp.zeros_like(e0_image)
    r = _Vector(jnp.ones_like(e0_squared), nothing, e0_image)
    d = _Vector(jnp.zeros_like(e0_squared), nothing, nothing)
    goal = CG_TOLERANCE**2 * e0_squared
    _, d, *_ = jax.lax.while_loop(goes_on, body, (0, d, r, r, e0_squared))
    return d


def _newton_direction(problem: Problem, blocks: Blocks, free: Array, e0: Residual) -> Array:
    """[N, K] the direction's multipliers; CG runs on a third of a large single bucket if it can.

    Shards of a mesh, which have to take the same way, never do.
    """
    n = free.shape[0]
    active = jnp.sum(free, axis=1) > jnp.where(capped(blocks), 1, 0)
    count = jnp.sum(active)
    residual, image = e0
    length = squared(blocks, e0)

    def gathered() -> Array:
        capacity = max(n // 3, 1)
        index = jnp.nonzero(active, size=capacity, fill_value=0)[0]
        real = jnp.arange(capacity) < count
        part = jax.tree.map(lambda leaf: leaf[index], blocks)
        face = free[index] & real[:, None]
        d = _conjugate_gradients(problem, part, face, length, image[index])
        return (d.along * residual).at[jnp.where(real, index, n)].add(d.z, mode="drop")

    def whole() -> Array:
        face = free & active[:, None]
        d = _conjugate_gradients(problem, blocks, face, length, image)
        return d.along * residual + d.z

    if len(blocks.inputs) > 1 or n <= FEW_BLOCKS or blocks.axes.names:
        return whole()
    return jax.lax.cond(count <= max(n // 3, 1), gathered, whole)


def _newton_step(
    problem: Problem, blocks: Blocks, beta: Array, now: Iterate, e0: Residual
) -> Iterate:
    """One Newton step with backtracking on phi; the line costs no further potentials."""
    free = (now.b > 0) & allowed_slots(blocks)
    change = of_planes(_newton_direction(problem, blocks, free, e0))
    direction = multiples(problem, blocks, change)
    slope_image = images_of(problem, direction, blocks)
    slope = -summed(blocks, jnp.sum(e0.multipliers * slope_image))
    images = blocks.sets.bounds - now.h

    def trial(t: Array) -> Iterate:
        span, h = now.span + t * change, now.h - t * slope_image
        return evaluate(problem, blocks, beta, now.w, span, h, images + t * slope_image)

    def shorter(state: tuple) -> tuple:
        count, t, _ = state
        return count + 1, t / 2, trial(t / 2)

    def poor(state: tuple) -> Array:
        count, t, new = state
        return (count <= LINE_TRIALS) & ~(new.value <= now.value + 1e-4 * t * slope)

    # The first trial is of t = 1, and inside the loop: compiled once.
    two = jnp.full((), 2, beta.dtype)
    untried = now._replace(value=jnp.full_like(now.value, jnp.inf))
    _, t, new = jax.lax.while_loop(poor, shorter, (0, two, untried))
    w = jax.tree.map(lambda a, d: a + t * d, now.w, direction)
    return new._replace(w=w)


class NewtonResult(NamedTuple):
    """What one proximal step leaves.

    Fields:
      weights: the minimiser w of phi, which certifies the primal; span: [N, K] with w = Phi span.
      sets: with the new multipliers beta.
      primal_products, dual_products: [N] terms of |w|^2 and of |Phi beta|^2.
      length: t in beta + t (b - beta), below 1 where Newton stopped early and b overshot.
      newton_steps: how many were taken.
    """

    weights: PyTree
    span: Array
    sets: WorkingSets
    primal_products: Array
    dual_products: Array
    length: Array
    newton_steps: AnyArray


def _blocks_of(task: Task, sets: WorkingSets, sigma: Array, axes: Axes) -> tuple[Blocks, Array]:
    """(blocks with step lengths in units of their curvature, beta with the slack slot filled)."""
    terms = task.terms
    curvature = jnp.max(sets.norms, axis=1)
    used = (terms.cap > 0) & (curvature > 0)
    length = jnp.where(used, sigma / jnp.where(used, curvature, 1), 1e-30)
    multiplier_sum = jnp.sum(sets.multipliers, axis=1)
    finite = jnp.isfinite(terms.cap)
    slack = jnp.where(finite, jnp.maximum(jnp.where(finite, terms.cap, 0) - multiplier_sum, 0), 0)
    beta = sets.multipliers.at[:, 0].set(slack)
    return Blocks(task.inputs, sets, terms.cap, terms.ridge, length, axes), beta


def _ascend(problem: Problem, blocks: Blocks, beta: Array, b: Array) -> tuple[Array, Array, Array]:
    """Exact line search on the dual from beta towards b: (beta, terms of |Phi beta|^2, t).

    D never falls, however early Newton stopped.
    """
    change, old = of_planes(b - beta), of_planes(beta)
    image, moved = jax.lax.map(  # of both by one loop: compiled once
        lambda z: images_of(problem, multiples(problem, blocks, z), blocks),
        jnp.stack([old, change]),
    )
    multiplier_sum, shift = jnp.sum(old, axis=1), jnp.sum(change, axis=1)
    slope = jnp.sum(change * (blocks.sets.bounds - image)) - jnp.sum(
        blocks.ridge * multiplier_sum * shift
    )
    curvature = jnp.sum(change * moved) + jnp.sum(blocks.ridge * shift**2)
    slope, curvature = summed(blocks, (slope, curvature))
    tiny = jnp.finfo(b.dtype).tiny
    t = jnp.where(slope > 0, jnp.clip(slope / jnp.maximum(curvature, tiny), 0, 1), 0)
    new = jnp.where(t == 1, of_planes(b), old + t * change)
    return new, jnp.sum(new * (image + t * moved), axis=1), t


def proximal_newton_pass(
    problem: Problem,
    task: Task,
    w: PyTree,
    span: Array,
    sets: WorkingSets,
    sigma: Array,
    clock: Array,
    axes: Axes = ALONE,
) -> NewtonResult:
    """One proximal step on the dual over all working sets.

    Args:
      w, span: where Newton starts, w = Phi span; w None to be made of the span.
      sets: with the dual variables beta, the centre of the proximal term.
      sigma: its length, in units of each block's own curvature.
      clock: the number of this pass.
      axes: of the mesh over whose shards the task lies, inside `shard_map`.
    """
    blocks, beta = _blocks_of(task, sets, sigma, axes)
    w = multiples(problem, blocks, span) if w is None else w
    used = blocks.sigma[:, None] > 1e-20
    nothing = jnp.zeros_like(span)
    h = sets.bounds - images_of(problem, w, blocks)
    start = Iterate(w, span, h, nothing, jnp.full((), jnp.finfo(span.dtype).max))

    def unfinished(state: tuple) -> Array:
        count, now, e0 = state
        moves = jnp.where(used, (now.b - beta) ** 2 / blocks.sigma[:, None], 0)
        moved = summed(blocks, jnp.sum(moves))
        goes_on = (count < NEWTON_STEPS) & (squared(blocks, e0) > TOLERANCE * moved)
        return (count < 0) | goes_on

    def body(state: tuple) -> tuple:
        count, now, e0 = state
        new = _newton_step(problem, blocks, beta, now, e0)
        return count + 1, new, residual_of(problem, blocks, new)

    # The first turn, from e_0 = 0, goes nowhere: it evaluates the start, by what is compiled once.
    first = -1, start, Residual(nothing, nothing)
    count, last, _ = jax.lax.while_loop(unfinished, body, first)
    multipliers, dual_products, length = _ascend(problem, blocks, beta, last.b)
    multipliers = jnp.where((task.terms.cap > 0)[:, None], multipliers, 0)
    last_used = jnp.where(multipliers > 0, clock, sets.last_used)
    return NewtonResult(
        last.w,
        last.span,
        sets._replace(multipliers=multipliers, last_used=last_used),
        jnp.sum(last.span * (sets.bounds - last.h), axis=1),
        dual_products,
        length,
        count,
    )


newton_program = program(proximal_newton_pass)
