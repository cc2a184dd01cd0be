"""The referee is refereed: closed forms, linprog, planted optima, failures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.lib.refusals import refused
from tests.truth.quadratic_program import Program, certify, solve_qp

EXACT = 1e-10


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


def test_projection_onto_a_box_clips_also_where_the_bound_is_just_reached():
    point = np.array([-3.0, -1.0, 0.2, 1.0, 5.0])
    found = solve_qp(np.eye(5), -point, np.vstack([np.eye(5), -np.eye(5)]), np.ones(10))
    np.testing.assert_allclose(found.x, np.clip(point, -1, 1), atol=1e-6)
    assert found.objective == pytest.approx(-8.02, rel=EXACT)


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
