"""Training on label sequences: the optimum against an independent QP with all constraints."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

from jaxstruct import Settings, Status, fit, joint_feature, predict, support_outputs
from jaxstruct.core.buckets import Buckets
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.chains.enumeration import LOSSES
from tests.chains.structure_cases import RICH, Model, random_sequences
from tests.solvers.cases import FULL, assert_optimal, flat
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
        solution, x, problem = trained(case, formulation, 3.0, settings, bucketed=bucketed)
        truth = case.truth(formulation, 3.0)
        assert_optimal(solution, truth, CLOSE)
        assert_best(case, predict(problem, solution.weights, x), truth.w)


def assert_best(case, predicted, w):
    """Predictions are argmaxes of the truth's F (two planes may tie at the optimum)."""
    F, outputs = case.every().psi @ w, case.every().outputs
    if isinstance(predicted, Buckets):
        whole = np.full_like(case.data().y, -1)
        for part, index in zip(predicted.parts, predicted.index, strict=True):
            whole[index, : part.shape[1]] = part
        predicted = whole
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


@pytest.mark.thorough
@pytest.mark.parametrize("way, group, active", [("sparse", 1, None), ("dense", 4, 0)])
def test_long_sequences_move_by_where_planes_differ(x64, way, group, active):
    """Sweeps read only where planes differ; w and the dual stay those of the planes."""
    data = random_sequences(5, 12, 21, 4, 3, shortest=5)
    problem, x = data.problem(Model(order=2, start_stop=True), way), data.inputs(way)
    assert problem.space.differences is not None
    settings = Settings(variant="subspace", group=group, active=active, block_steps=50)
    solution = fit(problem, x, data.y, "svm1_margin", 6.0, settings=settings, tolerance=1e-4)
    assert solution.status == Status.CONVERGED
    support = support_outputs(solution)
    own = jax.tree.map(lambda leaf: leaf[support.example], x)

    @jax.jit
    def summed(x, right, wrong, alpha):
        feature = jax.vmap(partial(joint_feature, problem))
        parts = jax.tree.map(lambda a, b: a - b, feature(x, right), feature(x, wrong))
        return jax.tree.map(lambda leaf: jax.numpy.tensordot(alpha, leaf, 1), parts)

    outputs = np.stack(support.output)
    w = flat(summed(own, data.y[support.example], outputs, support.alpha))
    dual = np.sum(support.alpha * support.loss) - w @ w / 2
    assert solution.dual == pytest.approx(dual, rel=1e-9)
    np.testing.assert_allclose(flat(solution.weights), w, rtol=0, atol=1e-9)


def test_the_second_run_compiles_nothing(x64):
    """Other values, another formulation of the same oracle, another loss of the same kind.

    The programs are those of `test_subspace_variant_in_buckets`, which compiled them if it ran.
    """

    def compilations(formulation, C=1.0, eta=0.7, **options):
        case = Training()
        data = case.data()
        problem = data.problem(case.model._replace(eta=eta), loss=LOSSES["hamming"])
        x, y = data.buckets(data.inputs("dense"), 1)
        solution = fit(problem, x, y, formulation, C, settings=SUBSPACE, max_passes=3, **options)
        return solution.statistics.compilations

    compilations("svm1_slack")
    for formulation in ("svm1_slack", "svm2_slack", "svm2_margin"):  # best of every level
        assert compilations(formulation, C=37.0, eta=2.0) == 0
    compilations("svm1_margin")  # one plain decode
    assert compilations("svm1_margin", C=0.3, tolerance=1e-4) == 0
    compilations("svm1")  # the best wrong output
    assert compilations("svm2") == compilations("svm0") == 0
