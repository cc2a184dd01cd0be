"""The Wolfe conditions on functions of one variable."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from jaxstruct.baselines.conditional_random_field import LinePoint, wolfe_step


def searched(
    function: Callable[[float], tuple[float, float]], **options: object
) -> tuple[LinePoint | None, list[float]]:
    """The step, and every t that was evaluated."""
    seen = []

    def evaluate(t: float) -> tuple[float, float]:
        seen.append(t)
        return function(t)

    return wolfe_step(evaluate, *function(0.0), **options), seen


def quadratic(centre: float, noise: float = 0.0) -> Callable[[float], tuple[float, float]]:
    return lambda t: ((t - centre) ** 2 + noise * math.sin(1e9 * t), 2 * (t - centre))


@pytest.mark.smoke
def test_the_step_satisfies_both_conditions() -> None:
    random, lengths = np.random.default_rng(0), []
    for a, b, c in np.exp(random.normal(size=(200, 3)) * [3, 3, 1]):

        def function(t: float, a: float = a, b: float = b, c: float = c) -> tuple[float, float]:
            """Convex, with its minimum at positive t, of any scale."""
            value = b * (np.logaddexp(0, a * t) - 0.9 * a * t) + c * t * t
            return value, a * b * (0.1 - 1 / (1 + math.exp(min(a * t, 700)))) + 2 * c * t

        value, slope = function(0.0)
        found, seen = searched(function)
        assert found is not None and found.step == seen[-1] and seen[0] == 1.0
        assert (found.value, found.slope) == function(found.step)
        assert found.value <= value + 1e-4 * found.step * slope
        assert found.slope >= 0.9 * slope
        lengths.append(len(seen))
    assert max(lengths) > 4 and np.mean(lengths) < 6


def test_a_full_step_that_is_good_is_taken_at_once() -> None:
    assert searched(quadratic(0.8)) == (LinePoint(1.0, *quadratic(0.8)(1.0)), [1.0])


def test_a_step_that_decreases_too_little_is_not_taken() -> None:
    """(t - c)^2 satisfies the first condition at t = 1 from c = 1 / (2 - 2e-4) on."""
    assert searched(quadratic(0.50006))[1] == [1.0]
    found, seen = searched(quadratic(0.50004))
    assert found is not None and seen == [1.0, found.step]
    np.testing.assert_allclose(found.step, 0.50004, rtol=1e-9)


@pytest.mark.parametrize(("centre", "most"), [(1e-3, 12), (1e3, 14)])
def test_far_minima_are_bracketed(centre: float, most: int) -> None:
    found, seen = searched(quadratic(centre))
    assert found is not None and len(seen) <= most
    assert 0 < found.step < 2 * centre


def test_interpolation_of_a_cubic_is_exact() -> None:
    def function(t: float) -> tuple[float, float]:
        return (t / 4) ** 3 - t / 16, 3 * t**2 / 64 - 1 / 16  # its minimum is at 2 / sqrt(3)

    stretched = searched(lambda t: (function(3 * t)[0], 3 * function(3 * t)[1]))
    assert stretched[1][0] == 1.0
    np.testing.assert_allclose(stretched[1][1], 2 / math.sqrt(3) / 3, rtol=1e-12)


@pytest.mark.parametrize("wall", [math.inf, math.nan])
def test_steps_out_of_the_domain_are_shortened(wall: float) -> None:
    found, _ = searched(lambda t: quadratic(0.2)(t) if t < 0.5 else (wall, wall))
    assert found is not None and 0 < found.step < 0.4


def test_none_where_no_step_is_found() -> None:
    found, seen = searched(lambda t: (abs(t), -1.0 if t == 0 else 1.0), most=7)
    assert found is None and len(seen) == 7
    assert searched(lambda t: (-t, -1.0), most=5)[0] is None  # falls for ever


def test_rounding_is_forgiven_where_the_slope_is_good() -> None:
    """Values that differ by noise alone cannot satisfy the first condition, slopes can."""
    flat = lambda t: (1.0 + 1e-7 * (t > 0), 1e-9 * (t - 1.0))  # noqa: E731
    assert searched(flat)[0] is None
    found, seen = searched(flat, rounding=1e-6)
    assert found is not None and seen == [1.0]
