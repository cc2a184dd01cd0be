"""Rounds without a certificate: what they may change, when there is one again, what is counted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jaxstruct import Settings, Status
from jaxstruct.solvers.objective.scaling import PASSES
from tests.solvers.cases import FULL, dense_beta, flat, of_slack, random_case
from tests.truth.quadratic_program import dual_value, primal_value, slacks
from tests.truth.quadratic_program import problem as enumerated

N, K = 12, 4
GROWN = Settings(variant="subspace", working_sets="grown", cached_sweeps=1)
SELDOM = GROWN._replace(certify_every=1000)


def watched(case, formulation="svm1_margin", C=20.0, **options):
    """(solution, what the callback saw)."""
    seen = []
    options = {"tolerance": 1e-6, "settings": GROWN, "max_passes": 60} | options
    solution = case.fit(formulation, C, callback=seen.append, **options)
    return solution, seen


def values(case, formulation, C, state, scale=1.0):
    """(P, D) of a state by the slow truth; D says that the multipliers are feasible."""
    of_case = case.psi(), case.loss[case.y], case.y, C
    dual = dual_value(formulation, dense_beta(state.sets, len(case.y), K), *of_case)
    assert dual.feasible, dual.violation
    return primal_value(formulation, scale * flat(state.weights), *of_case), dual.value


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("formulation", ["svm1_margin", "svm2_slack", "svm0"])
def test_rounds_without_a_certificate_claim_nothing(x64, formulation, every):
    """Best primal and dual stay as they were, although the dual variables go on rising."""
    case = random_case(1, separable=formulation == "svm0")
    settings = GROWN._replace(certify_every=every)
    solution, seen = watched(case, formulation, settings=settings, tolerance=1e-9, max_passes=11)
    primal, dual, real, last = math.inf, -math.inf, 0.0, None
    for passed in seen:
        info = passed.info
        scale = 1.0 if info.certificate is None else info.certificate.scale
        exact, now = values(case, formulation, 20.0, passed.state, scale)
        assert now >= real - 1e-10 * abs(real)
        assert passed.passes % every == 0 or info.certificate is None or passed is seen[-1]
        if info.certificate is None:
            assert info.slack is None and info.estimate is not None
            assert (passed.primal, passed.dual) == (primal, dual)
        else:
            last = info
            assert info.estimate is info.certificate and info.slack is not None
            assert info.certificate.dual == pytest.approx(now, rel=1e-10)
            if math.isfinite(info.certificate.primal) and (formulation != "svm0" or scale == 1):
                assert info.certificate.primal == pytest.approx(exact, rel=1e-10)
        primal, dual, real = passed.primal, passed.dual, now
    rounds = [passed.info.certificate is not None for passed in seen]
    assert rounds == [n % every == 0 or n == 11 for n in range(1, 12)]
    assert solution.certificate == last.certificate
    np.testing.assert_array_equal(solution.slack, last.slack[:N])


@pytest.mark.parametrize("formulation", ["svm1_margin", "svm2_slack", "svm0"])
def test_an_estimate_that_is_small_enough_is_proved_at_once(x64, formulation):
    """Without a turn of its own, a certificate comes where the estimate is within the goal."""
    case = random_case(2, separable=formulation == "svm0")
    often, _ = watched(
        case, formulation, settings=GROWN._replace(certify_every=1), tolerance=1e-5, max_passes=900
    )
    seldom, seen = watched(case, formulation, settings=SELDOM, tolerance=1e-5, max_passes=900)
    assert often.status == seldom.status == Status.CONVERGED
    optimum = case.optimum(formulation, 20.0)
    assert seldom.dual <= optimum * (1 + 1e-9) and seldom.primal >= optimum * (1 - 1e-9)
    assert seldom.statistics.passes < 2 * often.statistics.passes + 10
    proved = [p for p in seen if p.info.certificate is not None]
    assert 1 <= len(proved) < len(seen) / 2
    for passed in proved:
        assert passed.primal < math.inf


def test_only_examples_with_a_weight_are_counted_as_oracle_calls(x64):
    """Twelve examples in sixteen rows, three of them of weight 0: nine calls a pass."""
    case = random_case(1)
    weights = np.where(np.arange(N) % 4 == 0, 0.0, 1.0)
    for given, n in ((None, N), (weights, 9)):
        solution, seen = watched(
            case, settings=GROWN._replace(certify_every=3), example_weights=given, max_passes=7
        )
        calls = [p.info.oracle_calls for p in seen]
        assert calls == [2 * n if p.info.certificate else n for p in seen] and n in calls
        assert solution.statistics.oracle_calls == sum(calls)
    solution, seen = watched(case, settings=FULL, example_weights=weights, max_passes=4)
    calls = [p.info.oracle_calls for p in seen]  # the last with a search among multiples of w
    assert calls[:3] == [9] * 3 and calls[3] in range(9, 9 * (1 + PASSES) + 1, 9)
    assert solution.statistics.oracle_calls == sum(calls)


@pytest.mark.parametrize("stop_at", [1, 4])
def test_what_a_callback_stops_is_certified(x64, stop_at):
    """A round without a certificate gets one when it is the last; w stays as it was."""
    case, seen = random_case(1), []

    def stop(passed):
        seen.append(passed)
        return passed.passes == stop_at

    solution = case.fit("svm1_margin", 20.0, settings=SELDOM, tolerance=1e-9, callback=stop)
    assert solution.status == Status.STOPPED and len(seen) == stop_at
    assert all(passed.info.certificate is None for passed in seen)
    primal, dual = values(case, "svm1_margin", 20.0, seen[-1].state)
    assert solution.primal == solution.certificate.primal == pytest.approx(primal, rel=1e-10)
    assert solution.dual == solution.certificate.dual == pytest.approx(dual, rel=1e-10)
    np.testing.assert_array_equal(flat(solution.weights), of_slack(solution))
    xi = slacks(
        enumerated("svm1_margin", case.psi(), case.loss[case.y], case.y, 20.0),
        flat(solution.weights),
    )
    np.testing.assert_allclose(solution.slack, xi, atol=1e-10)
    calls = sum(passed.info.oracle_calls for passed in seen)
    numbers, sets = solution.statistics, solution.state.sets
    assert numbers.oracle_calls == calls + N and numbers.seconds["certify"] > 0
    assert numbers.planes_added - numbers.planes_evicted == numbers.planes_kept
    assert numbers.planes_kept == np.asarray(sets.occupied)[:N, 1:].sum()
    assert numbers.planes_added >= sum(passed.info.planes_added for passed in seen)
