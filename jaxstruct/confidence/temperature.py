"""A temperature for machines of margins, fitted on held-out examples.

    min_T  mean_i -log p_T(y_i | x_i),    p_T(y | x) = exp(F(x, y; w) / T) / Z_T(x)

(Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017). One number
is fitted and no prediction changes. With b = 1 / T the objective log Z(b F) - b F(y) is convex; its
slope is E_b[F] - F(y). The zero of the slope is bracketed by steps of factor 4 from b = 1, then
found by secants that keep the bracket (the Illinois rule): Newton's steps with the slope of the
slope taken from two values of it, since oracles have first derivatives only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.confidence.batches import bare, log_loss_at, rows_within
from jaxstruct.core.buckets import rows_of
from jaxstruct.core.checks import checked_number
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.device import on_device
from jaxstruct.core.sizes import batch_rows
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.task import padded_rows
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


@jax.jit
def _sums_of_block(problem: Problem, weights: PyTree, block: tuple, b: Array) -> Array:
    """[2] value and slope summed over the real examples of a block."""
    x, y, real = block

    def total(b: Array) -> Array:
        losses = jax.vmap(lambda x, y: log_loss_at(problem, weights, x, y, b))(x, y)
        return jnp.sum(jnp.where(real, losses, 0))

    return jnp.stack(jax.value_and_grad(total)(b))


def _mean_and_slope(problem: Problem, weights: PyTree, blocks: tuple, n: Array, b: Array) -> Array:
    """[2] the objective and its slope, of all blocks."""

    def of_block(block: tuple) -> Array:
        return _sums_of_block(problem, weights, block, b)

    return sum(jnp.sum(jax.lax.map(of_block, bucket), axis=0) for bucket in blocks) / n


_evaluated = program(_mean_and_slope)


class _Found(NamedTuple):
    """Where the search ended. seen: (value, slope) at b. bracketed: whether by two ends."""

    b: float
    seen: tuple[float, float]
    before: float
    bracketed: bool
    evaluations: int


def _search(evaluate: Callable[[float], tuple[float, float]], tolerance: float) -> _Found:
    """The zero of the slope; see the module. evaluate: b -> (value, slope)."""
    b, side, before, evaluations = 1.0, None, np.nan, 0
    ends, slopes = [np.nan, np.nan], [np.nan, np.nan]  # below and above the zero
    while True:
        value, slope = evaluate(b)
        evaluations += 1
        before = value if evaluations == 1 else before
        here = int(slope > 0)
        if side == here:
            slopes[1 - here] *= 0.5  # the other end stays
        ends[here], slopes[here], side = b, slope, here
        (low, high), (below, above) = ends, slopes
        bracketed = not np.isnan(low + high)
        if bracketed:
            margin = 0.01 * (high - low)
            secant = (low * above - high * below) / (above - below)
            new = min(max(secant, low + margin), high - margin)
            near = min(abs(new - b) / b, (high - low) / high) <= tolerance
        else:
            new = b / FACTOR if here else b * FACTOR
            near = not 1 / LARGEST <= new <= LARGEST
        flat = slope == 0 or not np.isfinite(value + slope)
        if near or flat or evaluations == EVALUATIONS:
            return _Found(b, (value, slope), before, bracketed, evaluations)
        b = new


def _in_blocks(x: PyTree, y: PyTree, batch: int) -> tuple:
    """(x, y, real) with leading axes [blocks, rows], of at most `batch` rows."""
    n = rows_of(y)
    rows = batch_rows(n, batch)
    total = -(-n // rows) * rows
    padded = (*padded_rows((x, y), total), np.arange(total) < n)
    return jax.tree.map(lambda leaf: on_device(leaf.reshape(-1, rows, *leaf.shape[1:])), padded)


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
    tolerance = checked_number("tolerance", tolerance)
    n = on_device(sum(map(len, xs.index)), dtype)

    def given(batch: int) -> tuple:
        parts = zip(xs.parts, ys.parts, strict=True)
        return bare(problem), weights, tuple(_in_blocks(x, y, batch) for x, y in parts), n

    one = on_device(1, dtype)
    batch = rows_within(
        "fit_temperature", lambda batch: _evaluated.peak_bytes(*given(batch), one) or 0, batch
    )
    whole = given(batch)

    def evaluate(b: float) -> tuple[float, float]:
        value, slope = np.asarray(_evaluated(*whole, on_device(b, dtype))).tolist()
        return value, slope

    found = _search(evaluate, tolerance)
    b, (value, slope) = found.b, found.seen
    if not np.isfinite([value, slope]).all():
        raise ValueError(
            f"outputs: their mean log loss is {value} at temperature {1 / b:g}: an output is "
            "impossible under the model, or the scores are not finite"
        )
    if not found.bracketed and (slope != 0 or value == 0):
        reason = (
            "they score no better than the mean of all outputs: the weights say nothing of them"
        )
        if slope <= 0:
            reason = "every held-out output is the best by a margin: give more of them"
        raise ValueError(
            f"outputs: the log loss still falls at temperature {1 / b:g}, because {reason}"
        )
    return Temperature(1 / b, found.before, value, slope, found.evaluations)
