"""Weston and Watkins's machine, and Crammer and Singer's against an independent QP."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array

import jaxstruct as js
from experiments.machines.weston_watkins import best_block, fit_weston_watkins
from jaxstruct import multiclass
from jaxstruct.core.status import Status
from tests.lib.refusals import refused
from tests.truth.chapter_two import crammer_singer_optimum, weston_watkins_optimum
from tests.truth.interior_point import solve_qp

N, D, K = 16, 5, 4
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, D)), np.arange(N) % K


def make(dtype="float64"):
    return multiclass.multiclass(D, K, dtype=dtype)


@pytest.mark.parametrize("formulation, C", [("svm1", 1.0), ("svm1", 30.0), ("svm2", 30.0)])
def test_it_finds_the_optimum_of_the_quadratic_program(x64, formulation, C):
    objective, w = weston_watkins_optimum(formulation, X, Y, K, C)
    problem = make()
    ascent = fit_weston_watkins(problem, X, Y, formulation, C, tolerance=1e-9, max_passes=5000)
    assert ascent.status is Status.CONVERGED
    assert ascent.primal == pytest.approx(objective, rel=1e-8)
    assert ascent.dual == pytest.approx(objective, rel=1e-8)
    np.testing.assert_allclose(ascent.weights["weights"], w, atol=2e-4)
    u = -ascent.alpha
    u[np.arange(N), Y] = ascent.alpha.sum(1)
    np.testing.assert_allclose(ascent.weights["weights"], X.T @ u, atol=1e-9)
    assert np.all(ascent.alpha >= 0) and not ascent.alpha[np.arange(N), Y].any()
    if formulation == "svm1":
        assert ascent.alpha.max() <= C / (N * (K - 1)) * (1 + 1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("formulation", ["svm1", "svm2"])
def test_crammer_and_singers_machine_is_the_quadratic_programs(x64, formulation):
    for C in (1.0, 30.0):
        objective, _ = crammer_singer_optimum(formulation, X, Y, K, C)
        found = js.fit(make(), X, Y, formulation, C, tolerance=1e-9)
        assert found.primal == pytest.approx(objective, rel=1e-8)
        assert found.dual == pytest.approx(objective, rel=1e-8)


def test_one_slack_a_constraint_is_another_machine_but_not_for_two_classes(x64):
    several = weston_watkins_optimum("svm2", X, Y, K, 30.0)[0]
    assert abs(several - crammer_singer_optimum("svm2", X, Y, K, 30.0)[0]) > 0.1
    two = weston_watkins_optimum("svm2", X, Y % 2, 2, 30.0)[0]
    assert two == pytest.approx(crammer_singer_optimum("svm2", X, Y % 2, 2, 30.0)[0], rel=1e-9)


@pytest.mark.thorough
def test_every_kind_of_input_is_one_machine(x64):
    few = np.where(np.abs(X) < 0.5, 0.0, X)
    sparse, gram = js.from_scipy(csr_array(few)), few @ few.T
    kernel = multiclass.kernel_multiclass(N, K, dtype="float64")
    cases = ((make(), few), (make(), sparse), (kernel, multiclass.kernel_inputs(gram)))
    primals = []
    for problem, inputs in cases:
        found = fit_weston_watkins(problem, inputs, Y, "svm1", 20.0, tolerance=1e-7)
        primals.append(found.primal)
    np.testing.assert_allclose(primals, primals[0], rtol=1e-6)


def test_a_block_is_solved_exactly(x64):
    cases = [(q, r, cap) for q in (0.0, 0.3, 5.0) for r, cap in ((0.0, 0.2), (0.5, np.inf))]
    solve = jax.jit(best_block)
    for q, r, cap in cases:
        for _ in range(5):
            g = RNG.normal(size=5) * 2
            found = np.asarray(solve(jnp.asarray(g), *map(jnp.float64, (q, r, cap))))
            P = q * (np.eye(5) + np.ones((5, 5))) + r * np.eye(5)
            top = np.full(5, min(cap, 1e3))
            A, b = np.vstack([np.eye(5), -np.eye(5)]), np.concatenate([top, np.zeros(5)])
            wanted = solve_qp(P, -g, A, b)
            value = found @ P @ found / 2 - g @ found
            assert value == pytest.approx(wanted.objective, abs=1e-9)
            assert np.all((found >= 0) & (found <= cap))
    stays = solve(jnp.asarray([1.0, -jnp.inf]), *map(jnp.float64, (1.0, 0.0, 1.0)))
    assert stays.tolist() == [0.5, 0.0]


def test_single_precision_and_a_run_that_is_cut_short():
    found = fit_weston_watkins(make("float32"), X, Y, "svm1", 30.0)
    assert found.status is Status.CONVERGED and found.gap <= 1e-3 * found.primal
    short = fit_weston_watkins(make("float32"), X, Y, "svm1", 1e6, max_passes=5)
    assert short.status is Status.PASS_LIMIT and short.passes == 5
    assert short.gap > 1e-3 * short.primal


def test_output_features_and_other_labels_are_refused():
    shared = multiclass.multiclass(D, K, output_features=np.eye(K))
    refused("without output_features", fit_weston_watkins, shared, X, Y)
    refused("expected 0..3", fit_weston_watkins, make("float32"), X, Y + 1)
