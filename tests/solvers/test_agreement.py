"""The optimum of every formulation against an independent QP with all constraints enumerated.

With example weights, active slots and sparse inputs it is that of `test_buckets`.
"""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct import Settings, Status, check_problem, fit, predict
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.solvers.cases import (
    FULL,
    GROWN,
    SOFT,
    WAYS,
    assert_near,
    assert_optimal,
    case_for,
    enumerated_problem,
    random_case,
)

CLOSE = 1e-8
FINE = 2e-9


def assert_best(predicted, scores):
    """Predictions are argmaxes; two planes of one example may tie at the optimum."""
    chosen = scores[np.arange(len(predicted)), predicted]
    assert (chosen >= scores.max(axis=1) - 1e-3 * np.abs(scores).max()).all()
    assert (predicted == scores.argmax(axis=1)).mean() > 0.8


@pytest.mark.parametrize("n, C", [(9, 0.01), (16, 1.0), (16, 1000.0)])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_full_variant(x64, formulation, way, n, C):
    case = case_for(formulation, seed=n, n=n)
    solution = case.fit(formulation, C, tolerance=FINE, settings=WAYS[way])
    assert_optimal(solution, case.truth(formulation, C), CLOSE)
    assert_near(solution.weights, case.truth(formulation, C), CLOSE)


@pytest.mark.parametrize("way, C", [("grown", 100.0), ("enumerated", 0.01)])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_float32_to_its_finest_tolerance(formulation, way, C):
    case = case_for(formulation, seed=5)
    solution = case.fit(formulation, C, "float32", tolerance=1e-5, settings=WAYS[way])
    assert solution.weights["weights"].dtype == "float32"
    truth, rounding = case.truth(formulation, C), 0.0
    if solution.status is Status.ROUNDING:  # the run says that its dtype hides the gap
        rounding = solution.certificate.rounding / truth.objective
        assert C == 100.0 and 0.5e-5 < rounding < 1e-3
        solution = solution._replace(status=Status.CONVERGED)
    assert_optimal(solution, truth, 1.2e-5 + rounding)


@pytest.mark.parametrize("formulation", ["svm1", "svm2_slack", "svm1_slack"])
def test_seven_functions_suffice(x64, formulation):
    """Psi written down, and no hooks: the same optimum as with those of multiclass."""
    case = random_case(6, output_features=3)
    truth = case.truth(formulation, 10.0)
    for problem, x in ((case.problem(), case.x), enumerated_problem(case)):
        solution = fit(problem, x, case.y, formulation, 10.0, tolerance=FINE, settings=GROWN)
        assert_optimal(solution, truth, CLOSE)
        assert_best(predict(problem, solution.weights, x), case.psi() @ truth.w)


def test_hooks_are_what_is_derived_without_them(x64):
    """Sums, values and products of planes, and the oracle, by potentials and score alone."""
    case = random_case(6, output_features=3)
    report = check_problem(case.problem(), case.x, case.y, examples=4, draws=2)
    assert max(report.excess.values()) < 1e-12


def test_integer_inputs_are_features_like_any_other(x64):
    """Grey levels often come as bytes; 16 * 16 does not fit in one."""
    case = random_case(10)
    levels = np.clip(np.round(np.abs(case.x) * 12), 0, 200).astype(np.uint8)
    exact = case._replace(x=levels.astype(float)).truth("svm1", 0.01)
    settings = Settings(variant="subspace", working_sets="grown", capacity=4)
    solution = case._replace(x=levels).fit("svm1", 0.01, tolerance=1e-7, settings=settings)
    assert_optimal(solution, exact, 1e-7)
    norms = (levels.astype(float) ** 2).sum(axis=1)
    found = np.asarray(solution.state.sets.gram[0])  # |delta Psi_i(y)|^2 = 2 |x_i|^2
    np.testing.assert_allclose(found[:12, 1, 1], 2 * norms, rtol=1e-12)


def test_one_example_of_two_classes(x64):
    case = random_case(11, n=1, k=2)
    for formulation in SOFT:
        solution = case.fit(formulation, 30.0, tolerance=FINE, settings=FULL)
        assert_optimal(solution, case.truth(formulation, 30.0), CLOSE)


def test_duplicates_and_contradictions(x64):
    """Every example twice, and the same inputs once more with another label."""
    case = random_case(12, n=4)
    x, y = np.tile(case.x, (3, 1)), np.concatenate([case.y, case.y, (case.y + 1) % 4])
    twice = case._replace(x=x, y=y.astype(np.int32))
    for formulation in SOFT:
        for C in (1.0, 100.0):
            solution = twice.fit(formulation, C, tolerance=FINE, settings=GROWN)
            assert_optimal(solution, twice.truth(formulation, C), CLOSE)
