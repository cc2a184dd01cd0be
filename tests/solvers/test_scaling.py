"""The search among the multiples of w, and what lets small tasks of a large C end."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct import Settings, Status, fit, ragged
from jaxstruct.chains import chain, chain_inputs
from jaxstruct.solvers.loop.host_loop import LEFT
from jaxstruct.solvers.objective.certificate import ExampleTerms
from jaxstruct.solvers.objective.formulations import FORMULATIONS, penalty_numbers
from jaxstruct.solvers.objective.scaling import PASSES, ray_of
from jaxstruct.solvers.out_of_core.fit_in_blocks import fit_in_blocks
from tests.solvers.cases import flat, random_case
from tests.truth.quadratic_program import primal_value, problem, slacks

N = 12
GROWN = Settings(variant="subspace", working_sets="grown", cached_sweeps=1, certify_every=3)


def terms_at(c, bounds, margins, product):
    """What a pass at c w says of examples whose outputs have these b and m [n, k]."""
    values = bounds - c * margins
    best = np.argmax(values, axis=1)[:, None]
    value, bound = (np.take_along_axis(each, best, axis=1)[:, 0] for each in (values, bounds))
    rest = np.zeros((4, len(value)))
    return ExampleTerms(
        value, value, np.maximum(value, 0), rest[0], rest[1], product, rest[2], rest[3], rest[0],
        bound_found=bound,
    )  # fmt: skip


@pytest.mark.parametrize("formulation", ["svm1_margin", "svm2_margin"])
def test_the_model_ends_at_the_least_multiple(formulation):
    """Lines of a few passes against P(c w) on a fine grid; an example of weight 0 says nothing."""
    random, form = np.random.default_rng(3), FORMULATIONS[formulation]
    bounds, margins = random.random((30, 6)), random.normal(0.7, 0.5, (30, 6))
    bounds[:, 0] = margins[:, 0] = 0
    weights = np.arange(30) % 5 > 0.0
    numbers = penalty_numbers(form, 40.0, weights.astype(float), 30)
    squares = random.random(30) / 10

    def primal(c):
        slack = (bounds - c * margins).max(axis=1)
        cost = numbers.cap * slack if form.penalty == 1 else slack**2 * 40.0 / 60
        return c**2 * squares.sum() / 2 + cost[weights].sum()

    grid = np.linspace(0.5, 2, 15001)
    least = min(map(primal, grid))
    ray = ray_of(form, numbers, terms_at(1.0, bounds, margins, squares))
    assert ray is not None
    lows = []
    for _ in range(8):
        c, low = ray.lowest()
        assert low <= least * (1 + 1e-9)
        lows.append(low)
        ray = ray.met(c, terms_at(c, bounds, margins, squares))
    assert (np.diff(lows) >= -1e-9).all() and lows[0] < least * (1 - 1e-6)
    assert 0.6 < c < 1.9
    assert primal(c) == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("formulation, seed", [("svm2_slack", 2)])
def test_a_multiple_of_w_ends_the_run(x64, formulation, seed):
    """Its P, slack and certificate are those of the weights that are returned."""
    case, seen = random_case(seed), []
    given = case.problem(), case.x, case.y, formulation, 100.0
    options = {"settings": GROWN, "tolerance": 1e-2, "max_passes": 300}
    found = fit(*given, callback=seen.append, **options)
    of_case = case.psi(), case.loss[case.y], case.y, 100.0
    w, last = flat(found.weights), flat(found.state.weights)
    c = w @ last / (last @ last)
    assert found.status is Status.CONVERGED and c > 1.001
    np.testing.assert_allclose(w, c * last, rtol=1e-12)
    assert found.certificate.primal == found.primal
    assert found.primal == pytest.approx(primal_value(formulation, w, *of_case), rel=1e-10)
    assert found.primal < primal_value(formulation, last, *of_case) - 10 * found.gap / 100
    optimum = case.truth(formulation, 100.0).objective
    assert found.dual <= optimum * (1 + 1e-9) <= found.primal * (1 + 1e-8)
    xi = slacks(problem(formulation, *of_case), w)
    np.testing.assert_allclose(found.slack, xi, atol=1e-9)
    assert found.certificate.mean_slack == pytest.approx(xi.mean())
    calls = [passed.info.oracle_calls for passed in seen]
    assert sum(calls) == found.statistics.oracle_calls and max(calls) <= (2 + PASSES) * N
    assert seen[-1].info.certificate == found.certificate
    assert found.certificate.scale == pytest.approx(c)


def test_a_run_that_ends_unproven_has_the_best_multiple_of_its_w(x64):
    case, options = random_case(2), {"settings": GROWN, "max_passes": 12}
    found = fit(case.problem(), case.x, case.y, "svm2_margin", 100.0, **options)
    of_case = case.psi(), case.loss[case.y], case.y, 100.0
    w, last = flat(found.weights), flat(found.state.weights)
    assert found.status is Status.PASS_LIMIT and found.certificate.scale != 1
    np.testing.assert_allclose(w, found.certificate.scale * last, rtol=1e-12)
    assert found.primal == pytest.approx(primal_value("svm2_margin", w, *of_case), rel=1e-10)
    assert found.gap <= (primal_value("svm2_margin", last, *of_case) - found.dual) * LEFT


@pytest.mark.thorough
def test_blocks_search_too(x64):
    case = random_case(3)
    options = {"settings": GROWN, "tolerance": 1e-2, "max_passes": 300, "blocks": 2}
    searches = []
    for C in (100.0, 200.0):
        seen = []
        found = fit_in_blocks(
            case.problem(), case.x, case.y, "svm1", C, callback=seen.append, **options
        )
        of_case = case.psi(), case.loss[case.y], case.y, C
        assert found.status is Status.CONVERGED
        exact = primal_value("svm1", flat(found.weights), *of_case)
        assert found.primal == pytest.approx(exact, rel=1e-10)
        assert found.dual <= case.truth("svm1", C).objective * (1 + 1e-9)
        searches += [passed.info.oracle_calls > 2 * N for passed in seen]
    assert any(searches)


@pytest.mark.thorough
def test_a_row_of_many_planes_is_swept_whole(x64):
    """One sequence of 10 tokens, 4 labels, C = 100: with 8 slots at a time 150 rounds left .016."""
    random = np.random.default_rng(0)
    x, y = ragged([np.eye(10)]), ragged([random.integers(0, 4, 10).astype(np.int32)])
    settings = Settings(variant="subspace", working_sets="grown", capacity=64, active=8)
    given = chain(10, 4, dtype="float64"), chain_inputs(x), y
    found = fit(*given, C=100.0, settings=settings, max_passes=60)
    assert found.status is Status.CONVERGED and found.statistics.support_planes > 8
