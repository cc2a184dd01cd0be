"""What a run claims against a plain evaluation of primal and dual."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct import Settings, joint_feature
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.solvers.cases import (
    FULL,
    GROWN,
    case_for,
    dense_beta,
    enumerated_problem,
    flat,
    joint_features,
    random_case,
)
from tests.truth.quadratic_program import dual_value, primal_value, problem, slacks

EVERY = Settings(variant="subspace", working_sets="grown", certify_every=1, capacity=4)
VARIANTS = {
    "subspace": EVERY,
    "full": GROWN,
    "growing": EVERY._replace(capacity=2, cached_sweeps=1),
    "enumerated": Settings(variant="subspace", working_sets="enumerated"),
    "evicting": EVERY._replace(capacity=3, max_capacity=3),
    "full evicting": FULL._replace(capacity=3, max_capacity=3),
    "narrow": Settings(variant="subspace", working_sets="enumerated", active=3),
    "full enumerated": FULL._replace(working_sets="enumerated"),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_every_round_states_the_truth(x64, formulation, variant):
    """Primal, dual, slack and violation of each round, from its weights and multipliers alone."""
    case = case_for(formulation, seed=1)
    weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], len(case.y))
    C, seen = 20.0, []
    optimum = case.optimum(formulation, C, weights)
    given = *case.listed(), C, weights
    data = problem(formulation, *given)

    def check(progress):
        certificate, state = progress.info.certificate, progress.state
        w = flat(state.weights)
        beta = dense_beta(state.sets, len(case.y), 4)
        dual = dual_value(formulation, beta, *given)
        assert dual.feasible, dual.violation
        assert certificate.dual == pytest.approx(dual.value, rel=1e-10, abs=1e-12)
        assert certificate.dual <= optimum * (1 + 1e-10)
        if np.isfinite(certificate.primal):
            primal = primal_value(formulation, certificate.scale * w, *given)
            assert certificate.primal == pytest.approx(primal, rel=1e-10)
        assert certificate.primal >= optimum * (1 - 1e-9)
        used = weights > 0
        xi = slacks(data, (1 if formulation == "svm0" else certificate.scale) * w)[used]
        np.testing.assert_allclose(progress.info.slack[: len(used)][used], xi, atol=1e-10)
        assert certificate.mean_slack == pytest.approx(xi.mean(), abs=1e-12)
        assert progress.primal >= progress.dual - 1e-9 * abs(progress.dual)
        seen.append(certificate)

    options = {"settings": VARIANTS[variant], "example_weights": weights, "callback": check}
    solution = case.fit(formulation, C, tolerance=1e-6, max_passes=60, **options)
    assert len(seen) == solution.statistics.passes == len(solution.statistics.history.primal)
    assert solution.primal == min(one.primal for one in seen)
    assert solution.dual == max(one.dual for one in seen)
    assert solution.gap == solution.primal - solution.dual
    exact = primal_value(formulation, flat(solution.weights), *given)
    assert exact == pytest.approx(solution.primal, rel=1e-9)


def linear(case):
    return case.problem(), case.x


def kernel(case):
    problem = kernel_multiclass(
        len(case.y), 4, output_features=case.output_features, loss=case.loss, dtype="float64"
    )
    return problem, kernel_inputs(case.x @ case.x.T)


@pytest.mark.parametrize("make", [linear, enumerated_problem])
@pytest.mark.parametrize("output_features", [0, 3])
def test_joint_feature_is_the_transpose_of_scoring(x64, make, output_features):
    """<w, Psi(x, y)> = F(x, y; w) for random w, and Psi = Phi (x) Lambda."""
    case = random_case(3, output_features=output_features)
    problem, inputs = make(case)
    psi = joint_features(problem, inputs, 4)
    np.testing.assert_allclose(psi, case.psi(), atol=1e-13)
    random = np.random.default_rng(4)
    w = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), problem.initial_weights)
    for i in range(3):
        x = jax.tree.map(lambda leaf: leaf[i], inputs)  # noqa: B023
        for y in range(4):
            score = problem.model.score(problem.model.potentials(w, x), np.int32(y))
            assert flat(joint_feature(problem, x, np.int32(y))) @ flat(w) == pytest.approx(
                float(score), abs=1e-12
            )


@pytest.mark.parametrize("output_features", [0, 3])
def test_joint_features_of_a_kernel_have_the_joint_kernel_as_inner_product(x64, output_features):
    """F(x_j, z; Psi(x_i, y)) = K(x_i, x_j) L(y, z) (4.12)."""
    case = random_case(3, output_features=output_features)
    problem, inputs = kernel(case)
    rows = np.eye(4) if case.output_features is None else case.output_features
    joint = np.einsum("ij,yz->iyjz", case.x @ case.x.T, rows @ rows.T)
    for i, y in ((0, 0), (1, 3), (11, 2)):
        x = jax.tree.map(lambda leaf: leaf[i], inputs)  # noqa: B023
        weights = joint_feature(problem, x, np.int32(y))
        scores = jax.vmap(problem.model.potentials, (None, 0))(weights, inputs)
        np.testing.assert_allclose(scores, joint[i, y], atol=1e-12)
