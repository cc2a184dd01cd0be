"""A step along a line that satisfies the Wolfe conditions, on numbers of the host.

    f(t) <= f(0) + 1e-4 t f'(0)    and    f'(t) >= 0.9 f'(0)

(Nocedal and Wright, "Numerical optimization", 3.1). Near an optimum, where values differ by no more
than their rounding, the first is replaced by f'(t) <= (2e-4 - 1) f'(0) (Hager and Zhang, SIAM J.
Optim. 16, 2005, "approximate Wolfe conditions").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

_DECREASE = 1e-4
_CURVATURE = 0.9


class LinePoint(NamedTuple):
    """A step t with f(t) and f'(t)."""

    step: float
    value: float
    slope: float


def _decreases(point: LinePoint, start: LinePoint, rounding: float) -> bool:
    if point.value <= start.value + _DECREASE * point.step * start.slope:
        return True
    flat = point.value <= start.value + rounding
    return flat and point.slope <= (2 * _DECREASE - 1) * start.slope


def _between(low: LinePoint, high: LinePoint) -> float:
    """The minimum of the cubic through both, kept away from the ends; else the middle."""
    width = high.step - low.step
    chord = 3 * (low.value - high.value) / width + low.slope + high.slope
    root = chord * chord - low.slope * high.slope
    halfway = low.step + width / 2
    if not (math.isfinite(root) and root >= 0):
        return halfway
    root = math.sqrt(root)
    divisor = high.slope - low.slope + 2 * root
    if divisor <= 0:
        return halfway
    share = 1 - (high.slope + root - chord) / divisor
    return low.step + width * min(max(share, 0.1), 0.9)


def wolfe_step(
    evaluate: Callable[[float], tuple[float, float]],
    value: float,
    slope: float,
    *,
    rounding: float = 0.0,
    most: int = 20,
) -> LinePoint | None:
    """Find a step by doubling until it is bracketed, then by cubic interpolation.

    Args:
      evaluate: t -> (f(t), f'(t)); may be inf or nan.
      value: f(0). slope: f'(0) < 0.
      rounding: how far two equal values may lie apart.
      most: evaluations at most. The first is at t = 1.

    Returns:
      The step, which is the last that was evaluated, or None if there is none among `most`.
    """
    start = low = LinePoint(0.0, value, slope)
    high, step = None, 1.0
    for _ in range(most):
        point = LinePoint(step, *evaluate(step))
        if not _decreases(point, start, rounding):
            high = point
        elif point.slope < _CURVATURE * slope:
            low = point
        else:
            return point
        step = 2 * step if high is None else _between(low, high)
    return None
