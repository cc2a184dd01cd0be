"""The referee is refereed: closed forms, linprog, planted optima; the thesis's own programs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.lib.refusals import refused
from tests.truth.quadratic_program import (
    FORMULATIONS,
    Program,
    certify,
    dual_value,
    primal_value,
    problem,
    slacks,
    solve_primal,
    solve_qp,
)

SOFT = FORMULATIONS[1:]
EXACT = 1e-10


def make(seed, n=5, k=4, D=6, separable=False):
    """A random problem (features, losses, truths); `separable` lifts the true outputs along e_0."""
    random = np.random.default_rng(seed)
    features, truths = random.normal(size=(n, k, D)), random.integers(0, k, n)
    losses = random.integers(1, 5, (n, k)) * 0.5
    losses[np.arange(n), truths] = 0.0
    if separable:
        features[np.arange(n), truths, 0] += 4.0
    return features, losses, truths


def constraints(features, losses, truths):
    """Every (i, y != y_i) with dPsi_i(y) and Delta, one by one."""
    for i, true in enumerate(truths):
        for y in range(losses.shape[1]):
            if y != true:
                yield i, y, features[i, true] - features[i, y], losses[i, y]


def required_margin(formulation, xi, delta):
    """The right-hand side of the thesis's constraint, (3.12b) to (3.40)."""
    return {
        "svm0": 1.0,
        "svm1": 1 - xi,
        "svm2": 1 - xi,
        "svm1_slack": 1 - xi / delta,
        "svm2_slack": 1 - xi / np.sqrt(delta),
        "svm1_margin": delta - xi,
        "svm2_margin": np.sqrt(delta) - xi,
    }[formulation]


def thesis_dual(formulation, alpha, data, C):
    """The thesis's dual at alpha, with J written out: propositions 5 and 7 to 13.

    For svm2_slack J carries n / (C sqrt(Delta) sqrt(Delta)); for svm2_margin the linear part has
    sqrt(Delta), section 3.7.2.
    """
    features, losses, truths = data
    planes, n = list(constraints(*data)), len(truths)
    linear = quadratic = 0.0
    for i, y, d, delta in planes:
        gain = {"svm1_margin": delta, "svm2_margin": np.sqrt(delta)}.get(formulation, 1.0)
        linear += gain * alpha[i, y]
        for j, z, other, delta_other in planes:
            kernel = d @ other
            if formulation.startswith("svm2") and i == j:
                scale = np.sqrt(delta * delta_other) if formulation == "svm2_slack" else 1.0
                kernel += n / (C * scale)
            quadratic += alpha[i, y] * alpha[j, z] * kernel
    return linear - 0.5 * quadratic


@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_primal_and_dual_of_the_thesis_meet(formulation, C):
    data = make(1, separable=formulation == "svm0")
    truth, n = solve_primal(formulation, *data, C), 5
    cost = {"1": C / n * truth.slack.sum(), "2": 0.5 * C / n * (truth.slack**2).sum(), "0": 0.0}
    objective = 0.5 * truth.w @ truth.w + cost[formulation[3]]
    assert truth.objective == pytest.approx(objective, rel=EXACT)
    assert objective == pytest.approx(thesis_dual(formulation, truth.alpha, data, C), rel=1e-9)
    spent = np.zeros(n)
    for i, y, d, delta in constraints(*data):
        excess = truth.w @ d - required_margin(formulation, truth.slack[i], delta)
        assert excess > -1e-9 and truth.alpha[i, y] > -1e-12 and truth.slack[i] >= 0
        assert abs(excess * truth.alpha[i, y]) < 1e-9
        spent[i] += truth.alpha[i, y] / (delta if formulation == "svm1_slack" else 1.0)
    if formulation.startswith("svm1"):
        assert np.all(spent <= C / n * (1 + EXACT))
    expansion = sum(truth.alpha[i, y] * d for i, y, d, _ in constraints(*data))
    np.testing.assert_allclose(truth.w, expansion, atol=1e-8)


@pytest.mark.parametrize("D", [1, 40])
@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("formulation", SOFT)
def test_value_functions_agree_with_the_solution(formulation, C, D):
    data, weights = make(2, D=D), [0.3, 1.0, 2.0, 0.0, 1.5]
    truth = solve_primal(formulation, *data, C, weights)
    primal = primal_value(formulation, truth.w, *data, C, weights)
    dual = dual_value(formulation, truth.beta, *data, C, weights)
    assert truth.objective == pytest.approx(primal, rel=EXACT)
    assert dual.value == pytest.approx(primal, rel=EXACT)
    assert dual.feasible and truth.gap <= EXACT
    np.testing.assert_allclose(dual.w, truth.w, atol=1e-6 * np.sqrt(truth.objective))
    best_slack = slacks(problem(formulation, *data, C, weights), truth.w)
    np.testing.assert_allclose(truth.slack, best_slack, atol=1e-8)


@pytest.mark.parametrize("formulation", SOFT)
def test_a_weight_of_two_is_the_same_example_twice_and_zero_is_none(formulation):
    features, losses, truths = make(7, n=3)
    twice = [0, 0, 1]
    repeated = solve_primal(formulation, features[twice], losses[twice], truths[twice], 3.0)
    weighted = solve_primal(formulation, features, losses, truths, 3.0, [2.0, 1.0, 0.0])
    assert weighted.objective == pytest.approx(repeated.objective, rel=EXACT)
    np.testing.assert_allclose(weighted.w, repeated.w, atol=1e-8)
    assert not weighted.beta[2].any()


def test_an_output_without_loss_binds_margins_but_not_slacks():
    features, losses, truths = make(9)
    truths[:] = 0
    losses[:, 0], losses[:, 1] = 0.0, 0.0
    for formulation, same in (("svm1_slack", True), ("svm2_slack", True), ("svm1_margin", False)):
        before = solve_primal(formulation, features, losses, truths, 3.0)
        moved = features.copy()
        moved[:, 1] = features[:, 0] + 10.0 * before.w  # now output 1 beats the true output
        after = solve_primal(formulation, moved, losses, truths, 3.0)
        assert (abs(before.objective - after.objective) < EXACT) == same


@pytest.mark.parametrize("formulation", [name for name in SOFT if "_" in name])
def test_no_loss_anywhere_is_solved_by_zero(formulation):
    features, losses, truths = make(10)
    truth = solve_primal(formulation, features, 0 * losses, truths, 3.0)
    assert truth.objective == 0.0 and not truth.w.any() and not truth.alpha.any()
    dual = dual_value(formulation, truth.beta, features, 0 * losses, truths, 3.0)
    assert dual.feasible and dual.value == 0.0


def test_svm0_separable_is_the_limit_of_large_c_and_scales_with_the_features():
    features, losses, truths = make(11, separable=True)
    hard = solve_primal("svm0", features, losses, truths, 1.0)
    assert hard.feasible and not hard.slack.any()
    for formulation in ("svm1", "svm1_slack"):
        soft = solve_primal(formulation, features, losses, truths, 1e4)
        assert soft.objective == pytest.approx(hard.objective, rel=EXACT)
    small = solve_primal("svm0", 1e-3 * features, losses, truths, 1.0)
    np.testing.assert_allclose(1e-3 * small.w, hard.w, rtol=1e-8)
    assert primal_value("svm0", 0.99 * hard.w, features, losses, truths, 1.0) == np.inf
    double = primal_value("svm0", 2 * hard.w, features, losses, truths, 1.0)
    assert double == pytest.approx(4 * hard.objective, rel=EXACT)


def test_svm0_reports_data_that_no_weights_separate():
    features, losses, truths = make(12, n=2)
    features, truths = np.stack([features[0], features[0]]), np.array([0, 1])
    truth = solve_primal("svm0", features, losses, truths, 1.0)
    assert not truth.feasible and truth.objective == np.inf and np.isnan(truth.w).all()
    alone = solve_primal("svm0", features, losses, truths, 1.0, [1.0, 0.0])
    dpsi = features[0, 0] - features[0]
    assert alone.feasible and (dpsi @ alone.w)[1:].min() == pytest.approx(1.0, rel=1e-9)


def test_dual_value_sees_what_is_not_allowed():
    data = make(13)
    beta = np.full((5, 4), 0.1)
    assert dual_value("svm1", beta, *data, 2.0).feasible
    for spoiled in (beta + 0.001, beta - 0.101 * np.eye(5, 4)):
        found = dual_value("svm1", spoiled, *data, 2.0)
        assert not found.feasible and found.violation > 1e-3
    assert dual_value("svm2", beta + 0.001, *data, 2.0).feasible
    assert not dual_value("svm2", beta, *data, 2.0, [1.0, 1.0, 0.0, 1.0, 1.0]).feasible


def planted(seed, n=7, m=11, e=2, rank=7):
    """A program with a known optimum: constraints and multipliers chosen first, q to match."""
    random = np.random.default_rng(seed)
    factor = random.normal(size=(n, rank))
    x, A, E = random.normal(size=n), random.normal(size=(m, n)), random.normal(size=(e, n))
    active = np.arange(m) < min(4, n - e)
    room, z = np.where(active, 0.0, 1.0 + random.random(m)), active * (0.5 + random.random(m))
    P, y = factor @ factor.T, random.normal(size=e)
    return Program(P, -(P @ x + A.T @ z + E.T @ y), A, A @ x + room, E, E @ x), x, z, y


@pytest.mark.smoke
@pytest.mark.parametrize("seed", range(6))
def test_planted_optimum_is_found_with_its_multipliers(seed):
    program, x, z, y = planted(seed)
    found = solve_qp(*program)
    np.testing.assert_allclose(found.x, x, rtol=0, atol=EXACT)
    np.testing.assert_allclose(found.z, z, rtol=0, atol=EXACT)
    np.testing.assert_allclose(found.y, y, rtol=0, atol=EXACT)
    assert max(found.certificate) < 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_conditions_hold_when_p_is_singular_and_rows_repeat(seed):
    program, x, _, _ = planted(seed, rank=3)
    twice = program._replace(
        A=np.vstack([program.A, 1e3 * program.A]),
        b=np.append(program.b, 1e3 * program.b),
        E=np.vstack([program.E, -program.E]),
        f=np.append(program.f, -program.f),
    )
    found = solve_qp(*twice)
    gradient = twice.P @ found.x + twice.q + twice.A.T @ found.z + twice.E.T @ found.y
    np.testing.assert_allclose(gradient, 0.0, atol=1e-9)
    assert np.all(twice.A @ found.x <= twice.b + 1e-9) and found.z.min() > -EXACT
    np.testing.assert_allclose(found.z * (twice.b - twice.A @ found.x), 0.0, atol=EXACT)
    assert found.objective == pytest.approx(0.5 * x @ twice.P @ x + twice.q @ x, rel=EXACT)


@pytest.mark.parametrize("seed", range(5))
def test_linear_program_agrees_with_linprog(seed):
    random = np.random.default_rng(seed)
    A, x = random.normal(size=(20, 6)), random.normal(size=6)
    b, q = A @ x + random.random(20), -A.T @ random.random(20)
    found = solve_qp(np.zeros((6, 6)), q, A, b, np.ones((1, 6)), [x.sum()])
    other = linprog(q, A, b, np.ones((1, 6)), [x.sum()], bounds=(None, None))
    assert found.objective == pytest.approx(other.fun, rel=EXACT)
    np.testing.assert_allclose(found.z, -other.ineqlin.marginals, atol=1e-8)


def test_without_inequalities_it_is_a_linear_system():
    program, _, _, _ = planted(4)
    P, q, _, _, E, f = program
    system = np.block([[P, E.T], [E, np.zeros((2, 2))]])
    found = solve_qp(P, q, np.zeros((0, 7)), np.zeros(0), E, f)
    np.testing.assert_allclose(
        np.append(found.x, found.y), np.linalg.solve(system, np.append(-q, f)), atol=1e-9
    )
    free = solve_qp(P, q, np.zeros((0, 7)), np.zeros(0))
    np.testing.assert_allclose(free.x, -np.linalg.solve(P, q), rtol=1e-8)


def test_units_of_the_caller_are_undone():
    program, x, z, y = planted(5)
    P, q, A, b, E, f = program
    rows = np.logspace(-4, 4, len(b))
    found = solve_qp(1e5 * P, 1e5 * q, rows[:, None] * A, rows * b, 1e-3 * E, 1e-3 * f)
    np.testing.assert_allclose(found.x, x, atol=EXACT)
    np.testing.assert_allclose(found.z * rows / 1e5, z, atol=EXACT)
    np.testing.assert_allclose(found.y * 1e-3 / 1e5, y, atol=EXACT)


def test_certificate_sees_each_kind_of_fault():
    program, x, z, y = planted(6)
    assert max(certify(program, x, z, y)) < 1e-14
    outside = x + 1e-3 * program.A[0] / np.linalg.norm(program.A[0])
    assert certify(program, outside, z, y).primal_residual > 1e-5
    assert certify(program, x, z + 1e-3, y).dual_residual > 1e-5
    idle = np.flatnonzero(z == 0)[0]
    assert certify(program, x, z + 1e-3 * (np.arange(len(z)) == idle), y).gap > 1e-5
    assert certify(program, x, -z, y).dual_residual > 1e-2


@pytest.mark.parametrize(
    "q, A, b", [([1.0], [[1.0], [-1.0]], [-1.0, -1.0]), ([1.0], [[1.0]], [0.0])]
)
def test_infeasible_and_unbounded_programs_are_refused(q, A, b):
    refused("infeasible, unbounded or badly", solve_qp, [[0.0]], q, A, b, error=ArithmeticError)
