"""Training on label sequences: the optimum against an independent QP with all constraints."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct import Settings, fit, predict
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.chains.enumeration import LOSSES
from tests.chains.structure_cases import RICH
from tests.solvers.cases import FULL, assert_optimal
from tests.solvers.chain_training import Training

SUBSPACE = Settings(variant="subspace")
CLOSE = 1e-7


def trained(case, formulation, C, settings=FULL, *, bucketed=False, dtype="float64", **options):
    """(solution, inputs, problem)."""
    data, tolerance = case.data(), 2e-8 if dtype == "float64" else 1e-5
    problem = data.problem(
        case.model, case.way, loss=LOSSES[case.loss], dtype=dtype, constraints=case.constraints
    )
    x, y = data.inputs(case.way), data.y
    if bucketed:
        x, y = data.buckets(x, 1)
    options = {"tolerance": tolerance, "max_passes": 3000} | options
    return fit(problem, x, y, formulation, C, settings=settings, **options), x, problem


def case_for(formulation, **options):
    return Training(separable=formulation == "svm0", **options)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_subspace_variant_in_buckets(x64, formulation):
    case = case_for(formulation)
    solution, x, _ = trained(case, formulation, 3.0, SUBSPACE, bucketed=True)
    assert len(x.parts) == 2
    assert_optimal(solution, case.truth(formulation, 3.0), CLOSE)


@pytest.mark.parametrize(
    "way, bucketed, settings, formulations",
    [
        ("sparse", True, FULL, ("svm1_slack", "svm1_margin")),
        ("kernel", True, SUBSPACE, ("svm2_slack", "svm2_margin")),
    ],
    ids=["sparse-full", "kernel-subspace"],
)
def test_sparse_and_kernel_tokens(x64, way, bucketed, settings, formulations):
    """Degree-2 features are written down for the truth only."""
    case = Training(way=way)
    for formulation in formulations:
        solution, _, problem = trained(case, formulation, 3.0, settings, bucketed=bucketed)
        truth = case.truth(formulation, 3.0)
        assert_optimal(solution, truth, CLOSE)
        x = case.data().inputs(way)
        assert_best(case, predict(problem, solution.weights, x), truth.w)


def assert_best(case, predicted, w):
    """Predictions are argmaxes of the truth's F (two planes may tie at the optimum)."""
    F, outputs = case.every().psi @ w, case.every().outputs
    place = (outputs == predicted[:, None]).all(axis=2).argmax(axis=1)
    rows = np.arange(len(place))
    assert (outputs[rows, place] == predicted).all()
    assert (F[rows, place] >= F.max(axis=1) - 1e-3 * np.abs(F).max()).all()


@pytest.mark.parametrize("formulation", ["svm1_margin", "svm2_slack"])
def test_triples_ends_pairs_constraints(x64, formulation):
    case = Training(model=RICH, loss="squares", constrained=True)
    assert not case.every().several.all()  # some have no other output at all
    # that rules of a loss of one's own are tried before a run is shown by one of them
    settings = FULL if formulation == "svm1_margin" else FULL._replace(checked_examples=0)
    solution, x, problem = trained(case, formulation, 3.0, settings)
    truth = case.truth(formulation, 3.0)
    assert_optimal(solution, truth, CLOSE)
    assert_best(case, predict(problem, solution.weights, x), truth.w)


def test_other_formulations_and_numbers_of_a_structure_compile_nothing(x64):
    """The programs are those of `test_subspace_variant_in_buckets`, which compiled them."""
    data, model = Training().data(), Training().model
    for formulation, *others in (("svm1_slack", "svm2_slack", "svm2_margin"), ("svm1", "svm2")):
        for each in (formulation, *others):
            problem = data.problem(model._replace(eta=1 + (each in others)), loss=LOSSES["hamming"])
            given = problem, *data.buckets(data.inputs("dense"), 1), each, 37.0
            solution = fit(*given, settings=SUBSPACE, max_passes=3)
            assert each == formulation or solution.statistics.compilations == 0
