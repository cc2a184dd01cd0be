"""A temperature for machines of margins, fitted on held-out examples.

    min_T  mean_i -log p_T(y_i | x_i),    p_T(y | x) = exp(F(x, y; w) / T) / Z_T(x)

(Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017). One number
is fitted and no prediction changes. With b = 1 / T the objective log Z(b F) - b F(y) is convex; its
slope is E_b[F] - F(y). The zero of the slope is bracketed by steps of factor 4 from b = 1, then
found by secants that keep the bracket (the Illinois rule): Newton's steps with the slope of the
slope taken from two values of it, since oracles have first derivatives only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.confidence.batches import (
    bare,
    log_loss_at,
    rows_within,
)
from jaxstruct.core.buckets import rows_of
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.task import pad_examples
from jaxstruct.solvers.predict import weights_of
from jaxstruct.solvers.validation.checks import check_batch, check_weights, checked_buckets

FACTOR, LARGEST = 4.0, 1e6
"""Of a step while there is no bracket; b stays within 1 / LARGEST .. LARGEST."""
EVALUATIONS = 60
"""At most; 8 to 14 are usual."""


class Temperature(NamedTuple):
    """The result of `fit_temperature`.

    Fields:
      value: T. log_loss_before, log_loss: the mean of -log p(y_i | x_i) over the held-out examples
        at temperature 1 and at T. slope: of the latter in 1 / T, 0 at the optimum.
      evaluations: of the objective with its slope, over all examples.
    """

    value: float
    log_loss_before: float
    log_loss: float
    slope: float
    evaluations: int


class _Search(NamedTuple):
    """Where the search for the zero of the slope stands; lists are [2], below and above the zero.

    Fields:
      b: to look at next. ends, slopes: of the bracket. known: [2] whether an end is known.
      side: which end moved last, -1 at first. seen: (b, value, slope) looked at last.
      before: the value at b = 1. moved: |b - the b before|, relative. evaluations: so far.
    """

    b: Array
    ends: Array
    slopes: Array
    known: Array
    side: Array
    seen: Array
    before: Array
    moved: Array
    evaluations: Array


@jax.jit
def _sums_of_block(problem: Problem, weights: PyTree, block: tuple, b: Array) -> Array:
    """[2] value and slope summed over the real examples of a block."""
    x, y, real = block

    def total(b: Array) -> Array:
        losses = jax.vmap(lambda x, y: log_loss_at(problem, weights, x, y, b))(x, y)
        return jnp.sum(jnp.where(real, losses, 0))

    return jnp.stack(jax.value_and_grad(total)(b))


def _value_and_slope(
    problem: Problem, weights: PyTree, blocks: tuple, b: Array
) -> tuple[Array, Array]:
    """Sums over the real examples of all blocks."""

    def of_block(block: tuple) -> Array:
        return _sums_of_block(problem, weights, block, b)

    sums = jnp.stack([jnp.sum(jax.lax.map(of_block, bucket), axis=0) for bucket in blocks])
    value, slope = jnp.sum(sums, axis=0)
    return value, slope


def _next(search: _Search, tolerance: float) -> _Search:
    """The search with the next b to look at."""
    (low, high), (below, above) = search.ends, search.slopes
    b = search.seen[0]
    secant = (low * above - high * below) / (above - below)
    inside = jnp.clip(secant, low + 0.01 * (high - low), high - 0.01 * (high - low))
    outside = jnp.where(search.known[0], b * FACTOR, b / FACTOR)
    new = jnp.where(jnp.all(search.known), inside, outside)
    moved = jnp.where(jnp.all(search.known), jnp.abs(new - b) / b, jnp.inf)
    narrow = (high - low) <= tolerance * high
    moved = jnp.where(jnp.all(search.known) & narrow, 0, moved)
    return search._replace(b=new, moved=moved.astype(b.dtype))


def _searched(
    problem: Problem, weights: PyTree, blocks: tuple, n: Array, tolerance: float
) -> _Search:
    dtype = jnp.result_type(*jax.tree.leaves(weights))

    def turn(search: _Search) -> _Search:
        value, slope = (s / n for s in _value_and_slope(problem, weights, blocks, search.b))
        side = (slope > 0).astype(jnp.int32)
        here = jnp.arange(2) == side
        halved = jnp.where(search.side == side, 0.5, 1.0).astype(dtype)  # the other end stays
        slopes = jnp.where(here, slope, search.slopes * halved)
        search = search._replace(
            ends=jnp.where(here, search.b, search.ends),
            slopes=slopes,
            known=search.known | here,
            side=side,
            seen=jnp.stack([search.b, value, slope]),
            before=jnp.where(search.evaluations == 0, value, search.before),
            evaluations=search.evaluations + 1,
        )
        return _next(search, tolerance)

    def goes_on(search: _Search) -> Array:
        inside = (search.b <= LARGEST) & (search.b >= 1 / LARGEST)
        flat = (search.seen[2] == 0) & (search.evaluations > 0)
        far = (search.moved > tolerance) & (search.evaluations < EVALUATIONS)
        return inside & far & ~flat & jnp.all(jnp.isfinite(search.seen))

    zero, one = jnp.zeros((), dtype), jnp.ones((), dtype)
    start = _Search(
        one, jnp.zeros(2, dtype), jnp.array([-1, 1], dtype), jnp.zeros(2, bool), jnp.int32(-1),
        jnp.zeros(3, dtype), zero, jnp.asarray(jnp.inf, dtype), jnp.int32(0),
    )  # fmt: skip
    return jax.lax.while_loop(goes_on, turn, start)


_search = program(_searched)


def _in_blocks(x: PyTree, y: PyTree, batch: int) -> tuple:
    """(x, y, real) with leading axes [blocks, rows], of at most `batch` rows."""
    n = rows_of(y)
    rows = min(batch, 1 << max(n - 1, 0).bit_length())
    total = -(-n // rows) * rows
    padded = (*pad_examples((x, y), total), jnp.arange(total) < n)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, rows, *leaf.shape[1:]), padded)


def fit_temperature(
    problem: Problem,
    weights: PyTree | Any,
    inputs: PyTree,
    outputs: PyTree,
    *,
    tolerance: float = 1e-4,
    batch: int = 64,
) -> Temperature:
    """The temperature T that minimises the held-out log loss of p(y | x) = exp(F / T) / Z.

    Args:
      problem: of a structure with a log-linear model (see `marginals`).
      weights: w, or the solution that holds it, of any training. It does not change.
      inputs, outputs: examples as `fit` takes them, not those of the training: there a machine of
        margins is surer than it is right.
      tolerance: relative, of T. float32 carries about 1e-4.
      batch: examples at a time, at most.

    Returns:
      A Temperature, which `marginals`, `sample` and `log_losses` take as it is.

    Raises:
      ValueError: an argument does not fit; no temperature is best, because the outputs score no
        better than the mean of all outputs, or because all of them are the best by a margin.
    """
    xs, ys = checked_buckets(problem, inputs, outputs, None, dual=False)
    check_batch(batch)
    weights = weights_of(problem, weights)
    check_weights(problem, weights)
    checked_inference(problem, "log_loss")
    dtype = jnp.result_type(*jax.tree.leaves(weights))
    rest = jnp.asarray(sum(map(len, xs.index)), dtype), jnp.asarray(tolerance, dtype)

    def given(batch: int) -> tuple:
        parts = zip(xs.parts, ys.parts, strict=True)
        return bare(problem), weights, tuple(_in_blocks(x, y, batch) for x, y in parts), *rest

    batch, _ = rows_within(
        "fit_temperature", lambda batch: _search.peak_bytes(*given(batch)) or 0, batch
    )
    found = _search(*given(batch))
    b, value, slope = (float(number) for number in found.seen)
    if not np.isfinite([value, slope]).all():
        raise ValueError(
            f"outputs: their mean log loss is {value} at temperature {1 / b:g}: an output is "
            "impossible under the model, or the scores are not finite"
        )
    if not found.known.all() and (slope != 0 or value == 0):
        reason = (
            "they score no better than the mean of all outputs: the weights say nothing of them"
        )
        if slope <= 0:
            reason = "every held-out output is the best by a margin: give more of them"
        raise ValueError(
            f"outputs: the log loss still falls at temperature {1 / b:g}, because {reason}"
        )
    return Temperature(1 / b, float(found.before), value, slope, int(found.evaluations))
