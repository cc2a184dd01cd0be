"""`certify`: P and D of weights of one's own against a QP with every constraint."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import jaxstruct as js
from jaxstruct import Settings, Status, certify, fit
from jaxstruct.multiclass import kernel_multiclass
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.lib.refusals import refused
from tests.solvers.cases import case_for, random_case
from tests.solvers.test_planted_mistakes import UNCHECKED, X, Y, structure
from tests.truth.quadratic_program import primal_value, problem, slacks

C, TOLERANCE = 20.0, 1e-3
GROWN = Settings(working_sets="grown")


def weights_of(case, w, dtype="float64"):
    """The pytree of a flat vector."""
    return ravel_pytree(case.problem(dtype).initial_weights)[1](np.asarray(w, dtype))


@pytest.mark.parametrize("settings", [Settings(), GROWN], ids=["enumerated", "grown"])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_against_a_quadratic_program(x64, formulation, settings):
    case = case_for(formulation)
    weights = None if formulation == "svm0" else np.linspace(0, 2, len(case.y))  # one is left out
    truth, of_case = case.truth(formulation, C, weights), (case.psi(), case.loss[case.y], case.y)
    data = problem(formulation, *of_case, C, weights)
    shift = np.random.default_rng(0).normal(size=len(truth.w)) * np.linalg.norm(truth.w)
    for part in (0.0, 1e-3, 0.1, 3.0):
        w = truth.w + part * shift
        found = certify(
            case.problem(), weights_of(case, w), case.x, case.y, formulation, C,
            tolerance=TOLERANCE, example_weights=weights, settings=settings,
        )  # fmt: skip
        scale = found.certificate.scale
        primal = primal_value(formulation, scale * w, *of_case, C, weights)
        if formulation == "svm0" and not np.isfinite(found.primal):
            margins = np.einsum("iyd,d->iy", data.dpsi, w)[data.wrong]
            assert part >= 0.1 and margins.min() <= 0
        else:
            assert found.primal == pytest.approx(primal, rel=1e-10)
        if formulation != "svm0":
            np.testing.assert_allclose(found.slack[1:], slacks(data, w)[1:], atol=1e-8)
        optimum, within = truth.objective, found.gap <= TOLERANCE * found.primal < np.inf
        assert found.dual <= optimum * (1 + 1e-9) <= found.attained * (1 + 2e-9)
        assert found.dual >= optimum * (1 - TOLERANCE) and found.attained <= found.primal
        assert (found.status is Status.CONVERGED) == within
        assert found.status in (Status.CONVERGED, Status.NOT_OPTIMAL)
        assert found.gap >= found.primal - optimum * (1 + 1e-9)
        if found.primal <= optimum * (1 + TOLERANCE / 2):
            assert within
        if found.primal >= optimum * (1 + 2 * TOLERANCE):
            assert found.status is Status.NOT_OPTIMAL and "NOT_OPTIMAL" in str(found)
        assert part or within


@pytest.mark.thorough
@pytest.mark.parametrize("formulation", ["svm1_margin", "svm2_slack"])
def test_float32_counts_its_rounding(formulation):
    """Features far from the origin, where float32 may put P(w) below the optimum."""
    case = random_case(0)
    case = case._replace(x=case.x + 1000.0)
    truth = case._replace(x=case.x.astype(np.float32).astype(float)).truth(formulation, C)
    w = weights_of(case, truth.w, "float32")
    found = certify(case.problem("float32"), w, case.x, case.y, formulation, C, max_passes=60)
    rounding = found.certificate.rounding
    assert found.dual - rounding <= truth.objective <= found.primal + rounding
    if found.status is Status.CONVERGED:
        assert rounding <= TOLERANCE * found.primal


def test_a_solution_of_fit_in_buckets_has_the_primal_that_fit_says():
    random = np.random.default_rng(0)
    tokens = [random.normal(size=(n, 3)).astype(np.float32) for n in (2, 3, 9, 17, 30)]
    x = js.chains.chain_inputs(js.ragged(tokens))
    y = js.ragged([np.argmax(own, axis=1).astype(np.int32) for own in tokens])
    given = x, y, "svm1_margin", 1.0
    machine = js.chains.chain(3, 3)
    solution = fit(machine, *given)
    found = certify(machine, solution.weights, *given)
    assert found.status is Status.CONVERGED
    assert abs(found.primal - solution.primal) <= found.certificate.rounding
    np.testing.assert_allclose(found.slack, solution.slack, atol=1e-4)


def test_a_wrong_oracle_proves_nothing():
    """It finds too little at w: P would be too small."""
    truth = fit(structure(), X, Y, "svm1_margin", C)
    for name, code in (("contenders", 1), ("contenders", 5), ("loss", 4)):
        wrong = structure(name, code)
        found = certify(wrong, truth.weights, X, Y, "svm1_margin", C, settings=UNCHECKED)
        assert found.status is Status.WRONG_ORACLE


def test_what_cannot_be_certified():
    machine, zero = structure(), structure().initial_weights
    for weights, change, match in (
        (zero[:2], {}, "weights must be .* as problem.initial_weights"),
        (zero, dict(tolerance=None), "tolerance must be a number greater than 0, got None"),
        (zero, dict(C=-1.0), "C must be"),
        (zero, dict(formulation="svm3"), "formulation is 'svm3'"),
    ):
        refused(match, certify, machine, weights, X, Y, **change)
    gram = (X @ X.T).astype(np.float32)
    kernel = kernel_multiclass(len(X), 4)
    with refused("no coordinates"):
        certify(kernel, kernel.initial_weights, js.multiclass.kernel_inputs(gram), Y)
    lost = certify(machine, zero * np.nan, X, Y, max_passes=3)
    assert lost.status is Status.NOT_FINITE
    limited = certify(machine, zero, X, Y, "svm1_margin", C, settings=GROWN, max_passes=1)
    assert limited.status in (Status.PASS_LIMIT, Status.NOT_OPTIMAL) and limited.gap > 0
    assert jax.tree.leaves(limited.slack)[0].shape == Y.shape
