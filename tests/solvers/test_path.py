"""Warm starts: along a path of C, and from a solution."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct import Ragged, Settings, fit, fit_path, take
from jaxstruct.chains import chain, chain_inputs
from jaxstruct.core.padding import bucketed
from jaxstruct.data.digits import load_digit_words
from jaxstruct.solvers.validation import checks
from jaxstruct.solvers.warm_start import restart
from tests.solvers.cases import FULL, SOFT, WAYS, assert_optimal, dense_beta, flat, random_case
from tests.truth.quadratic_program import dual_value

UP_AND_DOWN = (0.01, 1.0, 100.0, 0.5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("formulation", SOFT)
def test_a_path_gives_the_cold_optima(x64, formulation, way):
    case = random_case(1)
    path = fit_path(
        case.problem(), case.x, case.y, formulation, UP_AND_DOWN, tolerance=1e-8, settings=WAYS[way]
    )
    for C, solution in zip(UP_AND_DOWN, path, strict=True):
        truth = case.truth(formulation, C)
        assert solution.C == C
        assert_optimal(solution, truth, 1e-8)


def start_of(case, formulation, solution, C, weights=None):
    """The state that a run from `solution` begins with: (dual value by the slow truth, state)."""
    state = restart(case.run(formulation, C, FULL, weights=weights), solution, C)
    return dual_value(
        formulation,
        dense_beta(state.sets, len(case.y), 4),
        case.psi(),
        case.loss[case.y],
        case.y,
        C,
        weights,
    ), state


@pytest.mark.parametrize("C", [0.02, 2.0, 200.0])
@pytest.mark.parametrize("formulation", SOFT)
def test_the_start_is_feasible_and_worth_something(x64, formulation, C):
    case = random_case(2)
    solution = case.fit(formulation, 2.0, tolerance=1e-8, settings=FULL)
    start, state = start_of(case, formulation, solution, C)
    assert start.feasible, start.violation
    assert 0 < start.value <= case.optimum(formulation, C) * (1 + 1e-9)
    np.testing.assert_allclose(flat(state.weights), start.w, atol=1e-10)
    old, new = (dense_beta(each.sets, len(case.y), 4) for each in (solution.state, state))
    np.testing.assert_allclose(new / new.sum(), old / old.sum(), atol=1e-9)  # all in one proportion
    if C == 2.0:
        assert start.value >= solution.dual * (1 - 1e-9)


def test_a_start_makes_a_run_shorter(x64):
    case = random_case(3)
    settings = Settings(variant="subspace", working_sets="grown", group=1)
    options = dict(tolerance=1e-7, settings=settings)
    cold = case.fit("svm1_margin", 5.0, **options)
    warm = case.fit("svm1_margin", 5.0, start=cold, **options)
    assert warm.status.solved and warm.statistics.passes < cold.statistics.passes / 2
    assert warm.primal == pytest.approx(cold.primal, rel=2e-7)


@pytest.mark.thorough
def test_a_path_takes_less_than_half_the_rounds_of_cold_starts(monkeypatch):
    """Thirty words of digits: .26 of them (sixty: .28; .41 with 12 slots and 20 sweeps at most).

    The words are padded once, and the solutions are those of `fit` to the bit.
    """
    words, _ = load_digit_words()
    rows, values = np.arange(30), (0.1, 0.3, 0.7, 1.0)
    x = take(chain_inputs(Ragged(words.pixels, words.offsets)), rows)
    y = take(Ragged(words.labels, words.offsets), rows)
    problem = chain(number_of_features=64, number_of_labels=10)
    cold = [fit(problem, x, y, "svm1_margin", 30 * value) for value in values]
    padded = []
    monkeypatch.setattr(checks, "bucketed", lambda *given: padded.append(given) or bucketed(*given))
    path = [*fit_path(problem, x, y, "svm1_margin", [30 * value for value in values])]
    assert len(padded) == 1
    second = fit(problem, x, y, "svm1_margin", 30 * values[1], start=path[0])
    np.testing.assert_array_equal(flat(second.weights), flat(path[1].weights))
    total = 0
    for alone, solution in zip(cold, path, strict=True):
        total += solution.statistics.passes
        assert solution.status.solved
        assert solution.primal == pytest.approx(alone.primal, rel=2e-3)
    first = cold[0].statistics.passes
    assert total - first < 0.4 * sum(each.statistics.passes for each in cold[1:])


def test_new_example_weights_leave_the_start_feasible(x64):
    """svm1's caps are C v_i / n: multipliers above a smaller cap would certify a wrong dual."""
    case = random_case(4)
    solution = case.fit("svm1", 5.0, tolerance=1e-8, settings=FULL)
    weights = np.where(np.arange(12) % 2, 0.1, 1.0)
    start, _ = start_of(case, "svm1", solution, 5.0, weights)
    assert start.feasible, start.violation
    again = case.fit(
        "svm1", 5.0, tolerance=1e-8, settings=FULL, start=solution, example_weights=weights
    )
    optimum = case.optimum("svm1", 5.0, weights)
    assert again.dual <= optimum * (1 + 1e-9)
    assert again.primal == pytest.approx(optimum, rel=1e-7)
