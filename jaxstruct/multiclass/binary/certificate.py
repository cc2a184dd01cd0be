"""What proves a binary machine: its primal and its dual, and how far apart they are."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxstruct.core.compiling import program
from jaxstruct.core.types import Array
from jaxstruct.multiclass.binary.pairwise_ascent import Terms, gradients, range_of


class Proof(NamedTuple):
    """Of M machines, [M] each but for the slacks.

    Fields:
      primal: the objective (2.5), (2.6) or (2.7) at w and b. Of a hard margin it is that of
        (w, b) divided by the smallest margin, infinity where that is not positive.
      dual: sum alpha - 1/2 |w|^2 - 1/2 sum r alpha^2.
      rounding: what the dtype may hide of either.
      violation: of the conditions of optimality, in units of the margin.
      bias: b. slack: [M, s] xi_i = max(0, 1 - t_i (f_i + b)), 0 for padding.
      margin_bound: no hyperplane has a geometric margin above it; of the hard margin alone.
    """

    primal: Array
    dual: Array
    rounding: Array
    violation: Array
    bias: Array
    slack: Array
    margin_bound: Array


def _prove(terms: Terms, alpha: Array, scores: Array) -> Proof:
    """The proof of a feasible point, given its f."""
    signs, cap, ridge = terms
    beta, real = alpha * signs, signs != 0
    found = range_of(terms, alpha, gradients(terms, alpha, scores))
    bias = found.bias
    margins = signs * (scores + bias[:, None])
    slack = jnp.where(real, jnp.maximum(0, 1 - margins), 0)
    squared = jnp.sum(beta * scores, axis=1)
    total, turned = jnp.sum(alpha, axis=1), jnp.sum(ridge * alpha * alpha, axis=1)
    dual = total - squared / 2 - turned / 2
    linear = jnp.sum(jnp.where(jnp.isfinite(cap) & real, cap * slack, 0), axis=1)
    square = jnp.sum(jnp.where(ridge > 0, slack * slack / jnp.where(ridge > 0, ridge, 1), 0), 1)
    hard = jnp.all(~real | (jnp.isinf(cap) & (ridge == 0)), axis=1)
    least = jnp.min(jnp.where(real, margins, jnp.inf), axis=1)
    scaled = jnp.where(least > 0, squared / 2 / jnp.where(least > 0, least * least, 1), jnp.inf)
    primal = jnp.where(hard, scaled, squared / 2 + linear + square / 2)
    drift = jnp.abs(bias * jnp.sum(beta, axis=1))
    size = total + jnp.where(jnp.isfinite(primal), primal, 0)
    rounding = 8 * jnp.finfo(alpha.dtype).eps * size + drift
    bound = 1 / jnp.sqrt(2 * jnp.maximum(dual, jnp.finfo(alpha.dtype).tiny))
    return Proof(primal, dual, rounding, found.violation, bias, slack, bound)


prove = program(_prove)
