"""Dual variables of a random field and the steps that move them; see `dual_random_field`.

mu_i is the distribution P(y) = exp(<theta_i, parts of y>) / Z of an example's own potentials.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxstruct.baselines.conditional_log_likelihood import values_and_slopes
from jaxstruct.core.buckets import rows_at
from jaxstruct.core.contract import Problem
from jaxstruct.core.transposition import linear_leaves, with_linear_leaves
from jaxstruct.core.types import Array, PyTree

_HALVINGS = 12
"""Of a step along a line, at most; one visit of a thousand needs the first."""


class Multipliers(NamedTuple):
    """The dual variables of the examples of one bucket.

    Fields:
      theta: the potentials [N, ...] of mu_i, the floating-point leaves alone.
      slope: as theta, the gradient of -log P(y_i) at theta_i: parts under mu_i less those of y_i.
      conjugate: [N] <theta_i, slope_i> + log P(y_i) at theta_i = -H(mu_i).
    """

    theta: list[Array]
    slope: list[Array]
    conjugate: Array


class FieldExamples(NamedTuple):
    """What a run does not change: the problem, C/n, inputs and outputs of one bucket."""

    problem: Problem
    scale: Array
    inputs: PyTree
    outputs: PyTree


def _inner(u: list[Array], v: list[Array]) -> Array:
    """[B] inner products of the examples of two lists of leaves [B, ...]."""
    products = [jnp.sum((a * b).reshape(a.shape[0], -1), axis=1) for a, b in zip(u, v, strict=True)]
    return jnp.sum(jnp.stack(products), axis=0)


def _masked(real: Array, leaves: list[Array]) -> list[Array]:
    def of_leaf(leaf: Array) -> Array:
        return jnp.where(real.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0)

    return [of_leaf(leaf) for leaf in leaves]


def _examples(fixed: FieldExamples, rows: Array) -> tuple[PyTree, PyTree, Array]:
    """(inputs, outputs, which are real) of some rows, of which -1 is padding."""
    return *rows_at((fixed.inputs, fixed.outputs), jnp.maximum(rows, 0)), rows >= 0


def _distribution(problem: Problem, theta: PyTree, y: PyTree) -> tuple[Array, Multipliers]:
    """([B] -log P, the multipliers) at the potentials theta of a batch."""
    values, slope = values_and_slopes(problem, theta, y)
    at, toward = linear_leaves(theta), linear_leaves(slope)
    return values, Multipliers(at, toward, _inner(at, toward) - values)


def _added(fixed: FieldExamples, w: PyTree, x: PyTree, theta: PyTree, slope: list[Array]) -> PyTree:
    """w - C/n sum_i A_i' slope_i."""
    u = with_linear_leaves(theta, [-fixed.scale * leaf for leaf in slope])
    return fixed.problem.space.add(w, x, u)


class _Trial(NamedTuple):
    """A step of one group: its length, where it leads, how w changes and what D gains."""

    gamma: Array
    ends: Multipliers
    change: PyTree
    gain: Array
    count: Array


def _step_length(scale: Array, delta: list[Array], turn: list[Array], move: PyTree) -> Array:
    """The peak of gamma s - gamma^2/2 (s + |move|^2), s = C/n sum_i <delta_i, turn_i>.

    s is the slope of D toward the marginals of w, sum_i C/n (KL + KL), and about what the entropies
    bend by; -1/2 |w|^2 bends by |move|^2.
    """
    slope = scale * jnp.sum(_inner(delta, turn))
    bend = slope + optax.tree.norm(move, squared=True)
    return jnp.where(bend > 0, jnp.clip(slope / jnp.where(bend > 0, bend, 1), 0, 1), 0)


def _visit(
    fixed: FieldExamples, carry: tuple[PyTree, Multipliers], rows: Array
) -> tuple[tuple[PyTree, Multipliers], Array]:
    """One step on a group of examples; also [3] its gap, gain and calls of the oracle."""
    w, all_of = carry
    problem, scale = fixed.problem, fixed.scale
    x, y, real = _examples(fixed, rows)
    old = rows_at(all_of, jnp.maximum(rows, 0))
    seen = jax.vmap(problem.model.potentials, (None, 0))(w, x)
    values, found = _distribution(problem, seen, y)
    gaps = jnp.where(real, values - _inner(found.theta, old.slope) + old.conjugate, 0)
    delta = _masked(real, [a - b for a, b in zip(found.theta, old.theta, strict=True)])
    turn = _masked(real, [a - b for a, b in zip(found.slope, old.slope, strict=True)])
    zero = jax.tree.map(jnp.zeros_like, w)
    move = _added(fixed, zero, x, seen, turn)
    sizes = jnp.where(real, jnp.abs(old.conjugate) + jnp.abs(values), 0)
    noise = 8 * jnp.finfo(values.dtype).eps * scale * jnp.sum(sizes)

    def attempt(last: _Trial) -> _Trial:
        gamma = last.gamma / 2
        there = [a + gamma * b for a, b in zip(old.theta, delta, strict=True)]
        _, ends = _distribution(problem, with_linear_leaves(seen, there), y)
        turned = _masked(real, [a - b for a, b in zip(ends.slope, old.slope, strict=True)])
        change = _added(fixed, zero, x, seen, turned)
        entropies = jnp.sum(jnp.where(real, old.conjugate - ends.conjugate, 0))
        gain = scale * (entropies + jnp.sum(_inner(found.theta, turned)))
        gain = gain - optax.tree.norm(change, squared=True) / 2
        return _Trial(gamma, ends, change, gain, last.count + 1)

    def fails(last: _Trial) -> Array:
        return ~(last.gain >= -noise) & (last.count < _HALVINGS)

    first = 2 * _step_length(scale, delta, turn, move)
    start = _Trial(first, old, zero, jnp.full_like(first, -jnp.inf), jnp.int32(0))
    end = jax.lax.while_loop(fails, attempt, start)
    good = end.gain >= -noise
    w = jax.tree.map(lambda a, b: a + jnp.where(good, b, 0), w, end.change)
    at = jnp.where(real & good, rows, all_of.conjugate.shape[0])
    all_of = jax.tree.map(lambda leaf, new: leaf.at[at].set(new, mode="drop"), all_of, end.ends)
    calls = jnp.sum(real) * (1 + end.count)
    gain = jnp.where(good, end.gain, 0)
    return (w, all_of), jnp.stack([scale * jnp.sum(gaps), gain, calls.astype(gain.dtype)])


@partial(jax.jit, donate_argnames=("w", "multipliers"))
def visit_groups(
    fixed: FieldExamples, w: PyTree, multipliers: Multipliers, groups: Array
) -> tuple[PyTree, Multipliers, Array]:
    """Steps on groups [q, group] of rows, one after the other."""
    body = partial(_visit, fixed)
    (w, multipliers), sums = jax.lax.scan(body, (w, multipliers), groups)
    return w, multipliers, jnp.sum(sums, axis=0)


@jax.jit
def first_multipliers(
    fixed: FieldExamples, w: PyTree, certainty: Array, rows: Array
) -> Multipliers:
    """Multipliers of some rows: theta_i = A_i w, and `certainty` more at the parts of y_i."""
    x, y, _ = _examples(fixed, rows)
    theta = jax.vmap(fixed.problem.model.potentials, (None, 0))(w, x)
    one = jnp.ones((rows.shape[0], 1), jnp.result_type(*linear_leaves(theta)))
    outputs = jax.tree.map(lambda leaf: leaf[:, None], y)
    parts = jax.vmap(fixed.problem.space.combine)(theta, outputs, one)
    raised = [
        a + certainty * jnp.clip(b, 0, 1)
        for a, b in zip(linear_leaves(theta), linear_leaves(parts), strict=True)
    ]
    return _distribution(fixed.problem, with_linear_leaves(theta, raised), y)[1]


@partial(jax.jit, donate_argnames="w")
def collect(fixed: FieldExamples, multipliers: Multipliers, w: PyTree, rows: Array) -> PyTree:
    """w with the part of w(mu) that some rows have."""
    x, _, real = _examples(fixed, rows)
    zero = jax.tree.map(jnp.zeros_like, w)
    theta = jax.vmap(fixed.problem.model.potentials, (None, 0))(zero, x)
    slope = rows_at(multipliers.slope, jnp.maximum(rows, 0))
    return _added(fixed, w, x, theta, _masked(real, slope))


@jax.jit
def log_losses(fixed: FieldExamples, w: PyTree, rows: Array) -> Array:
    """[rows] -log P(y_i | x_i; w), 0 on padding."""
    x, y, real = _examples(fixed, rows)
    theta = jax.vmap(fixed.problem.model.potentials, (None, 0))(w, x)
    values = jax.vmap(fixed.problem.inference.log_loss)(theta, y)
    return jnp.where(real, values, 0)
