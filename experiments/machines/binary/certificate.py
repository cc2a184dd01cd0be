"""What proves a binary machine: the primal of its weights and bias, and its dual, in float64.

Both are made anew on the host from the inputs as given, the primal at the very weights and bias
that are returned, the dual at multipliers that meet their bounds and their equation. Rounding is
counted by the bound of every inner product: k EPS sum |a_i b_i| for k terms, in any order (Higham
2002, "Accuracy and stability of numerical algorithms", section 3.1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from experiments.machines.binary.centred_rows import EPS, CentredRows, expanded, scores
from experiments.machines.binary.examples import KernelRows, number_of
from experiments.machines.binary.pairwise_ascent import Terms

Array = np.ndarray
EPS_ABOVE_ONE = (4, 16, 64, 256, 1024, 4096)
"""By so many eps more than to 1 a hard margin is scaled, in turn, until that of the rounded (w, b)
is at least 1."""


class Proof(NamedTuple):
    """Of M machines, [M] each but for arrays of all their examples; float64 but for (w, b).

    Fields:
      primal: the objective (2.5), (2.6) or (2.7) at (w, b). Of a hard margin it is that of (w, b)
        divided by the least margin where that is below 1, infinity where it is not positive.
      dual: sum alpha - 1/2 |w|^2 - 1/2 sum r alpha^2.
      rounding: what float64 may hide of both; dual_rounding: of the dual.
      violation: of the conditions of optimality, in units of the margin.
      weights: [M, d] w in the dtype of the run; of a kernel [M, n] coefficients. bias: b.
      alpha: [M, s]. slack: [M, s] xi_i = max(0, 1 - t_i (f_i + b)), 0 for padding.
      gradients: [M, s] v_i - b, see `pairwise_ascent`, of the multipliers.
    """

    primal: Array
    dual: Array
    rounding: Array
    dual_rounding: Array
    violation: Array
    weights: Array
    bias: Array
    alpha: Array
    slack: Array
    gradients: Array

    @property
    def gap(self) -> Array:
        """|primal - dual| with the rounding of both; infinity where there is none."""
        gap = np.abs(self.primal - self.dual) + self.rounding
        return np.where(np.isfinite(gap), gap, np.inf)

    @property
    def margin_bound(self) -> Array:
        """No hyperplane has a geometric margin above it; of the hard margin alone."""
        least = np.maximum(self.dual - self.dual_rounding, np.finfo(np.float64).tiny)
        return 1 / np.sqrt(2 * least)


class _Scored(NamedTuple):
    """Scores, squared length and how far rounding may move them.

    Fields:
      scores, error: [M, s] <w, x_i - c>. squared, squared_error: [M] |w|^2.
    """

    scores: Array
    error: Array
    squared: Array
    squared_error: Array


class _Returned(NamedTuple):
    """(w, b) in the dtype of the run, its values [M, s], primal and the rounding of that."""

    weights: Array
    bias: Array
    values: Array
    primal: Array
    rounding: Array


def prove(data: CentredRows, members: Array, terms: Terms, alpha: Array, dtype: str) -> Proof:
    """The proof of multipliers [M, s] within their bounds, with (w, b) in `dtype`."""
    signs, _, cap, ridge = terms
    real, below, above = signs != 0, alpha < cap, alpha > 0
    up, down = np.where(signs > 0, below, above) & real, np.where(signs > 0, above, below) & real
    alpha = balanced(terms, alpha)
    beta = alpha * signs
    w = expanded(data, members, beta)
    found = _scored(data, members, w)
    v = np.where(real, signs - found.scores - ridge * beta, 0)
    top = np.max(np.where(up, v, -np.inf), axis=1)
    bottom = np.min(np.where(down, v, np.inf), axis=1)
    middle = (top + bottom) / 2
    dual, dual_rounding = _dual(data, members, terms, alpha, found, v)
    point = _nearest(data, members, terms, w, middle, found, dtype)
    slack = np.where(real, np.maximum(0, 1 - signs * point.values), 0)
    return Proof(
        point.primal, dual, point.rounding + dual_rounding, dual_rounding, top - bottom,
        point.weights, point.bias, alpha, slack, np.where(real, v - middle[:, None], 0),
    )  # fmt: skip


def _nearest(
    data: CentredRows, members: Array, terms: Terms, w: Array, middle: Array, found: _Scored,
    dtype: str,
) -> _Returned:  # fmt: skip
    """What is returned of w and the values `middle` at the centre: scaled where that is better."""
    signs, exact = terms.signs, found.scores + middle[:, None]
    point = _returned(data, members, terms, w, middle, dtype)
    if is_hard(terms):  # to a least margin of 1, of which rounding (w, b) may take a little
        scale, least = np.ones(len(w)), _least(signs, exact)
        for eps in EPS_ABOVE_ONE:
            short = (least > 0) & ((least < 1) | (scale == 1))
            if not short.any():
                break
            more = 1 + eps * np.finfo(dtype).eps
            scale *= np.where(short, more / np.where(short, least, 1), 1)
            point = _returned(data, members, terms, w * scale[:, None], middle * scale, dtype)
            least = _least(signs, point.values)
        return point
    lost = point.primal - _primal(terms, exact, 0 * exact, found)[0]
    if np.any(lost > 10 * np.finfo(dtype).eps * point.primal):
        # What rounding (w, b) takes of margins may cost more than larger weights do.
        scale = 1 + 2 * np.max(np.where(signs != 0, np.abs(point.values - exact), 0), axis=1)
        larger = _returned(data, members, terms, w * scale[:, None], middle * scale, dtype)
        better = larger.primal + larger.rounding < point.primal + point.rounding
        point = picked(better, larger, point)
    return point


def picked(where: Array, these: Any, others: Any) -> Any:
    """A tuple of arrays [M, ...] of `these` where that is so, else of `others`."""
    pairs = zip(these, others, strict=True)
    return type(these)(*(np.where(where.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs))


def is_hard(terms: Terms) -> bool:
    """Whether the machines have a hard margin (2.5)."""
    return not terms.ridge.any() and bool(np.isinf(terms.cap[terms.signs != 0]).all())


def balanced(terms: Terms, alpha: Array) -> Array:
    """Multipliers near alpha with sum_i t_i alpha_i = 0: those between their bounds move."""
    excess = np.sum(terms.signs * alpha, axis=1, keepdims=True)
    slack = np.where(terms.signs != 0, np.minimum(alpha, terms.cap - alpha), 0)
    way = np.sign(excess) * terms.signs
    little = np.sum(slack, axis=1, keepdims=True) < np.abs(excess)
    slack = np.where(little, np.where(way > 0, alpha, 0), slack)
    total = np.sum(slack, axis=1, keepdims=True)
    step = np.abs(excess) / np.where(total > 0, total, 1)
    return np.clip(alpha - way * slack * step, 0, terms.cap)


def _least(signs: Array, values: Array) -> Array:
    """[M] the least margin t_i F(x_i)."""
    return np.min(np.where(signs != 0, signs * values, np.inf), axis=1)


def _scored(data: CentredRows, members: Array, w: Array) -> _Scored:
    found = scores(data, members, w)
    index = np.minimum(members, number_of(data.rows) - 1)
    unit, norms = (data.terms + 8) * EPS, data.norms[index]
    if not isinstance(data.rows, KernelRows):
        squared = np.sum(w * w, axis=1)
        error = unit * np.sqrt(squared)[:, None] * norms
        return _Scored(found, error, squared, (w.shape[1] + 8) * EPS * squared)
    size, total, reach = np.abs(w).sum(1), w.sum(1), np.abs(w) @ data.norms
    apart, fuzz = data.centre - data.square, np.abs(w) @ data.fuzz
    flat = fuzz[:, None] * data.fuzz[index] + unit * size[:, None] * np.abs(apart).max()
    own = np.where(members < len(data.norms), np.take_along_axis(w, index, 1), 0)
    squared = np.sum(own * found, axis=1) + total * (w @ data.centre)
    error = unit * reach**2 + fuzz**2
    for factor, other in ((2 * unit, apart), (unit, data.centre)):
        error += factor * (size * np.abs(w @ other) + np.abs(total) * (np.abs(w) @ np.abs(other)))
    return _Scored(found, unit * reach[:, None] * norms + flat, squared, error)


def _dual(
    data: CentredRows, members: Array, terms: Terms, alpha: Array, found: _Scored, v: Array
) -> tuple[Array, Array]:
    """[M] the dual and its rounding, for v_i and scores of the same multipliers."""
    unit, total = (alpha.shape[1] + 8) * EPS, np.sum(alpha, axis=1)
    turned = np.sum(terms.ridge * alpha * alpha, axis=1)
    norms = data.norms[np.minimum(members, len(data.norms) - 1)]
    # The coefficients of a kernel are the multipliers; other weights are sums that are rounded.
    slip = 0.0 if isinstance(data.rows, KernelRows) else unit * np.sum(alpha * norms, axis=1)
    squared = found.squared_error + slip * (2 * np.sqrt(np.abs(found.squared)) + slip)
    # sum t_i alpha_i = 0 up to `excess`: to move one multiplier by that costs |v_i| of it.
    excess = np.abs(np.sum(terms.signs * alpha, axis=1)) + unit * total
    rounding = unit * (total + turned) + excess * np.abs(v).max(axis=1) + squared / 2
    return total - found.squared / 2 - turned / 2, rounding


def _returned(
    data: CentredRows, members: Array, terms: Terms, w: Array, middle: Array, dtype: str
) -> _Returned:
    """What w [M, d] and the values `middle` [M] at the centre come to in `dtype`."""
    weights = w.astype(dtype)
    w, unit = weights.astype(np.float64), (weights.shape[1] + 8) * EPS
    bias = (middle - w @ data.centre).astype(dtype)
    found = _scored(data, members, w)
    shift = (bias.astype(np.float64) + w @ data.centre)[:, None]
    error = found.error + 4 * EPS * (np.abs(found.scores) + np.abs(shift) + 1)
    error += unit * (np.abs(w) @ np.abs(data.centre) + np.abs(bias))[:, None]
    values = found.scores + shift
    return _Returned(weights, bias, values, *_primal(terms, values, error, found))


def _primal(terms: Terms, values: Array, error: Array, found: _Scored) -> tuple[Array, Array]:
    """[M] the primal at values [M, s], which may be off by `error`, and its rounding."""
    half, half_error = found.squared / 2, found.squared_error / 2
    real = terms.signs != 0
    if is_hard(terms):
        least = np.minimum(_least(terms.signs, values), 1)
        surely = np.maximum(least - np.max(np.where(real, error, 0), axis=1), 0)
        primal = np.where(least > 0, half / least**2, np.inf)
        return primal, np.where(surely > 0, (half + half_error) / surely**2 - primal, np.inf)
    short = np.where(real, 1 - terms.signs * values, 0)
    slack, most = np.maximum(0, short), np.maximum(0, short + np.where(real, error, 0))
    if terms.ridge.any():
        stiff = np.where(real, 1 / np.where(real, terms.ridge, 1), 0)
        cost, most_cost = stiff * slack * slack / 2, stiff * most * most / 2
    else:
        cost, most_cost = terms.cap * slack, terms.cap * most
    unit = (slack.shape[1] + 8) * EPS
    rounding = half_error + np.sum(most_cost - cost + unit * most_cost, axis=1)
    return half + np.sum(cost, axis=1), rounding
