"""The projection of the full variant against bisection, and the limits of its steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import Status
from jaxstruct.solvers.n_slack import cutting_plane, proximal_newton
from jaxstruct.solvers.n_slack.proximal_newton import project
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.solvers.cases import FULL, case_for, random_case

CASES, K = 400, 7


def bisected(v, allowed, total, stiffness):
    """lambda of sum max(v - lambda, 0) = total + stiffness lambda."""
    v = v[allowed]
    low, high = v.min() - total - 10.0, v.max() + 10.0
    for _ in range(200):
        middle = (low + high) / 2
        excess = np.maximum(v - middle, 0).sum() - total - stiffness * middle
        low, high = (middle, high) if excess > 0 else (low, middle)
    return high


def cases(seed):
    random = np.random.default_rng(seed)
    v = random.normal(size=(CASES, K)) * 10 ** random.uniform(-2, 2, (CASES, 1))
    v[::4] = np.round(v[::4])  # ties
    allowed = random.random((CASES, K)) < 0.7
    allowed[:, 0] = True
    return v, allowed, random.uniform(0.01, 5, CASES)


def test_projection_on_a_scaled_simplex(x64):
    v, allowed, total = cases(0)
    b = np.asarray(jax.jit(jax.vmap(project))(v, allowed, total, np.zeros(CASES)))
    assert (b >= 0).all() and not b[~allowed].any()
    np.testing.assert_allclose(b.sum(axis=1), total, rtol=1e-11, atol=1e-11)
    for c in range(CASES):
        level = bisected(v[c], allowed[c], total[c], 0.0)
        wanted = np.where(allowed[c], np.maximum(v[c] - level, 0), 0)
        np.testing.assert_allclose(b[c], wanted, atol=1e-10)


@pytest.mark.parametrize("stiffness", [0.03, 1.0, 50.0, 1e30])
def test_projection_with_a_ridge(x64, stiffness):
    """The proximal map of r/2 (1'b)^2 on the orthant: lambda = sigma r 1'b; 1e30: hard."""
    v, allowed, _ = cases(1)
    ridges = np.full(CASES, stiffness)
    b = np.asarray(jax.jit(jax.vmap(project))(v, allowed, np.zeros(CASES), ridges))
    for c in range(CASES):
        here = b[c][allowed[c]]
        # min |b - v|^2 / 2 + (1'b)^2 / (2 stiffness), b >= 0: gradient zero where b > 0, else >= 0
        gradient = here - v[c][allowed[c]] + here.sum() / stiffness
        scale = 1 + np.abs(v[c]).max() * (1 + 1 / stiffness)
        assert (np.abs(gradient[here > 0]) <= 1e-11 * scale).all()
        assert (gradient >= -1e-11 * scale).all()
        assert (here >= 0).all() and not b[c][~allowed[c]].any()


def test_projection_keeps_a_small_total_in_float32():
    """Mass must be that of the cap although v is a million times larger: else D is not a bound."""
    v, allowed, _ = cases(3)
    v = jnp.asarray(100 * v, "float32")
    total = jnp.full(CASES, 1e-4, "float32")
    b = np.asarray(jax.vmap(project)(v, allowed, total, jnp.zeros(CASES)), float)
    assert (b >= 0).all()
    np.testing.assert_allclose(b.sum(axis=1), 1e-4, rtol=1e-6)


@pytest.mark.thorough
def test_stopping_early_never_lowers_the_dual(x64, monkeypatch):
    for module in (proximal_newton, cutting_plane):
        monkeypatch.setattr(module, "NEWTON_STEPS", 1)
    monkeypatch.setattr(proximal_newton, "CG_STEPS", 2)
    jax.clear_caches()
    case = random_case(0)
    for formulation in ("svm1", "svm2_slack"):
        duals = [0.0]
        case.fit(
            formulation,
            100.0,
            tolerance=1e-8,
            max_passes=25,
            settings=FULL,
            callback=lambda p: duals.append(p.info.certificate.dual),  # noqa: B023
        )
        optimum = case.optimum(formulation, 100.0)
        assert (np.diff(duals) >= -1e-12 * optimum).all()
        assert optimum / 2 < duals[-1] <= optimum * (1 + 1e-12)
    jax.clear_caches()


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_tail_is_short(x64, formulation):
    """Superlinear at large C, where block ascent takes thousands of passes."""
    case = case_for(formulation, seed=1)
    solution = case.fit(formulation, 1e4, tolerance=1e-8, settings=FULL)
    assert solution.status == Status.CONVERGED and solution.statistics.passes <= 40


def test_the_finest_tolerance_that_float64_may_ask_for_is_reached(x64):
    case = random_case(2)
    scaled = case._replace(loss=3 * case.loss)
    for formulation in ("svm1_slack", "svm1_margin", "svm2_slack"):
        solution = scaled.fit(formulation, 5 / 3, tolerance=1e-10, settings=FULL, max_passes=100)
        assert solution.status == Status.CONVERGED
