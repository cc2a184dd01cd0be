"""Certificates on features far from the origin; `certificate_runs` makes as many as wanted."""

from __future__ import annotations

import pytest

from tests.lib.thorough import thorough_after
from tests.solvers.certificate_runs import run

FALSE_ONCE = [
    ("weston_watkins", 66), ("weston_watkins", 697),
    ("joint", 23), ("joint", 67), ("joint", 437), ("joint", 481),
    ("field", 66), ("field", 256), ("field", 347), ("field", 354),
]  # fmt: skip
"""Runs that ended CONVERGED beside the optimum, or with a primal below that of their weights."""


@pytest.mark.parametrize(("solver", "number"), thorough_after(4, FALSE_ONCE))
def test_converged_intervals_hold_the_optimum(solver, number):
    _, verdict = run(1, number, solver)
    false = verdict.outside or verdict.above or not verdict.decided
    assert verdict.status != "CONVERGED" or not false


@pytest.mark.thorough
@pytest.mark.parametrize("solver", ["weston_watkins", "field"])
def test_ordinary_runs_of_float32_still_converge(solver):
    """Features of mean 0, at the tolerances that the dtype allows."""
    ends = [run(1, number, solver, most=40)[1].status for number in range(0, 72, 6)]
    assert ends.count("CONVERGED") >= 9
