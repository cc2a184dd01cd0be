"""One block, the step sizes of a group, the projection of the full variant."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import Status
from jaxstruct.solvers.n_slack import cutting_plane, proximal_newton
from jaxstruct.solvers.n_slack.proximal_newton import project
from jaxstruct.solvers.objective.block_dual import block_ascent, line_search_sizes, pairwise_ascent
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.solvers.cases import GROWN, case_for, random_case
from tests.truth.quadratic_program import solve_qp

K, CASES = 6, 60


def blocks(seed, rank):
    """[CASES] blocks as the solver meets them: slot 0 is the zero plane, some slots are empty."""
    random = np.random.default_rng(seed)
    phi = random.normal(size=(CASES, K, rank))
    phi[:, 0] = 0.0
    phi[::3, 2] = phi[::3, 1]  # a plane twice: a singular block
    gradient = random.normal(size=(CASES, K))
    gradient[:, 0] = 0.0
    occupied = random.random((CASES, K)) < 0.8
    occupied[:, 0] = True
    beta = random.random((CASES, K)) * occupied * (random.random((CASES, K)) < 0.6)
    return phi @ phi.transpose(0, 2, 1), gradient, beta, occupied


@jax.jit
def ascend(gram, gradient, beta, occupied, steps):
    diagonal = jnp.diagonal(gram, axis1=1, axis2=2)
    of_block = partial(block_ascent, max_steps=steps)
    return jax.vmap(of_block)(gram, diagonal, gradient, beta, occupied)


@jax.jit
def side_by_side(gram, gradient, beta, occupied, ridge, steps):
    """The same blocks with a ridge by `pairwise_ascent`, and one by one."""
    planes = np.arange(K) > 0
    ridged = gram + ridge[:, None, None] * (planes[:, None] & planes)[None]
    diagonal, every = jnp.diagonal(ridged, axis1=1, axis2=2), jnp.arange(len(gram))
    together = pairwise_ascent(
        lambda k: ridged[every, k], diagonal, gradient, beta, occupied, steps
    )

    def one(gram, diagonal, gradient, beta, occupied, ridge):
        return block_ascent(gram, diagonal, gradient, beta, occupied, steps, ridge)

    return together, jax.vmap(one)(gram, diagonal, gradient, beta, occupied, ridge)


def rise(gram, gradient, old, new):
    """The dual's gain: <g, d> - d' G d / 2."""
    d = new - old
    return np.einsum("ck,ck->c", gradient, d) - np.einsum("ck,ckl,cl->c", d, gram, d) / 2


def best_rise(gram, gradient, beta, occupied, capped):
    """The same by the general QP solver; the sum is constant where the reservoir is finite."""
    keep = np.flatnonzero(occupied) if capped else np.flatnonzero(occupied)[1:]
    G, g, start = gram[np.ix_(keep, keep)], gradient[keep], beta[keep]
    q = -(g + G @ start)
    equal = (np.ones((1, len(keep))), [start.sum()]) if capped else (None, None)
    found = solve_qp(G, q, -np.eye(len(keep)), np.zeros(len(keep)), *equal)
    d = found.x - start
    return g @ d - d @ G @ d / 2


def test_one_block_takes_the_steps_of_many(x64):
    """Stored Gram matrices block by block: the same first pair, and the same dual in the end."""
    ridge = np.random.default_rng(0).random(CASES) * (np.arange(CASES) % 2)
    gram, gradient, beta, occupied = blocks(4, 3)
    together, alone = side_by_side(gram, gradient, beta, occupied, ridge, 1)
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-12)
    assert np.abs(together - beta).max() > 0.1
    planes = np.arange(K) > 0
    ridged = gram + ridge[:, None, None] * (planes[:, None] & planes)[None]
    solved = side_by_side(gram, gradient, beta, occupied, ridge, 20_000)
    gains = [rise(ridged, gradient, beta, np.asarray(each)) for each in solved]
    np.testing.assert_allclose(*gains, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 8])
def test_a_capped_block_is_solved(x64, rank):
    gram, gradient, beta, occupied = blocks(rank, rank)
    new = np.asarray(ascend(gram, gradient, beta, occupied, 20_000))
    gains = rise(gram, gradient, beta, new)
    for c in range(CASES):
        if occupied[c].sum() > 1 and beta[c].sum() > 0:
            wanted = best_rise(gram[c], gradient[c], beta[c], occupied[c], True)
            assert gains[c] == pytest.approx(wanted, rel=1e-8, abs=1e-9)
    assert (new >= 0).all() and not new[~occupied].any()
    np.testing.assert_allclose(new.sum(axis=1), beta.sum(axis=1), atol=1e-12)


def test_an_infinite_reservoir_gives_and_takes(x64):
    """A cap of infinity: only beta >= 0 binds (SVM0, and SVM2 with its ridge in the Gram)."""
    gram, gradient, beta, occupied = blocks(9, 8)
    gram = gram + 0.1 * np.pad(np.ones((K - 1, K - 1)), ((1, 0), (1, 0)))
    endless = beta.copy()
    endless[:, 0] = np.inf
    new = np.asarray(ascend(gram, gradient, endless, occupied, 20_000))
    assert np.isposinf(new[:, 0]).all() and np.isfinite(new[:, 1:]).all()
    assert (new >= 0).all()
    finite = np.concatenate([np.zeros((CASES, 1)), new[:, 1:]], axis=1)
    old = np.concatenate([np.zeros((CASES, 1)), beta[:, 1:]], axis=1)
    for c, gain in enumerate(rise(gram, gradient, old, finite)):
        if occupied[c].sum() > 1:
            wanted = best_rise(gram[c], gradient[c], old[c], occupied[c], False)
            assert gain == pytest.approx(wanted, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_every_number_of_steps_keeps_the_invariants(x64, steps, dtype):
    """Mass is moved, never made; the dual never falls; no step, no change."""
    rounding = 1e-12 if dtype == "float64" else 1e-4
    for rank in (1, 8):
        arrays = blocks(20 + rank, rank)
        gram, gradient, beta = (leaf.astype(dtype) for leaf in arrays[:3])
        occupied = arrays[3]
        new = ascend(gram, gradient, beta, occupied, steps)
        assert new.dtype == dtype and (new >= 0).all()
        new, old = np.asarray(new, float), np.asarray(beta, float)
        np.testing.assert_allclose(new.sum(axis=1), old.sum(axis=1), atol=rounding)
        assert (rise(arrays[0], arrays[1], old, new) >= -rounding).all()
        assert ((new != old).sum(axis=1) <= 2 * steps).all()


def test_ties_go_to_the_lowest_slot():
    gradient = np.tile(np.arange(K) > 0, (CASES, 1)).astype(np.float32)
    gram, beta = gradient[:, None] * np.eye(K, dtype=np.float32), np.zeros_like(gradient)
    beta[:, 0] = 0.25
    new = ascend(gram, gradient, beta, np.ones((CASES, K), bool), 1)
    np.testing.assert_array_equal(new, np.tile(0.25 * (np.arange(K) == 1), (CASES, 1)))


def directions(seed, size):
    random = np.random.default_rng(seed)
    A = random.normal(size=(size, random.integers(1, size + 2)))
    return random.normal(size=size) + 0.5, A @ A.T


searched = jax.jit(line_search_sizes)


@pytest.mark.parametrize("seed", range(20))
def test_line_search_is_exact(x64, seed):
    linear, Q = directions(seed, 5)
    sizes = np.asarray(searched(linear, Q.sum(axis=1)))
    assert (sizes == sizes[0]).all() and 0 <= sizes[0] <= 1
    grid = np.linspace(0, 1, 20_001)
    values = grid * linear.sum() - grid**2 * Q.sum() / 2
    gained = sizes[0] * linear.sum() - sizes[0] ** 2 * Q.sum() / 2
    assert gained >= values.max() - 1e-12
    assert gained == pytest.approx(values.max(), abs=1e-6)


def test_no_slope_no_step():
    """Padding has zero slope and zero curvature; a slope below zero is not taken."""
    zero = np.zeros(3, np.float32)
    np.testing.assert_array_equal(searched(zero, zero), zero)
    np.testing.assert_array_equal(searched(zero - 1, zero + 1), zero)
    np.testing.assert_array_equal(searched(zero + 5, zero + 1), zero + 1)


PROJECTED, WIDE = 400, 7
projected = jax.jit(jax.vmap(project))


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
    v = random.normal(size=(PROJECTED, WIDE)) * 10 ** random.uniform(-2, 2, (PROJECTED, 1))
    v[::4] = np.round(v[::4])  # ties
    allowed = random.random((PROJECTED, WIDE)) < 0.7
    allowed[:, 0] = True
    return v, allowed, random.uniform(0.01, 5, PROJECTED)


def test_projection_on_a_scaled_simplex(x64):
    v, allowed, total = cases(0)
    b = np.asarray(projected(v, allowed, total, np.zeros(PROJECTED)))
    assert (b >= 0).all() and not b[~allowed].any()
    np.testing.assert_allclose(b.sum(axis=1), total, rtol=1e-11, atol=1e-11)
    for c in range(PROJECTED):
        level = bisected(v[c], allowed[c], total[c], 0.0)
        wanted = np.where(allowed[c], np.maximum(v[c] - level, 0), 0)
        np.testing.assert_allclose(b[c], wanted, atol=1e-10)


@pytest.mark.parametrize("stiffness", [0.03, 1.0, 50.0, 1e30])
def test_projection_with_a_ridge(x64, stiffness):
    """The proximal map of r/2 (1'b)^2 on the orthant: lambda = sigma r 1'b; 1e30: hard."""
    v, allowed, _ = cases(1)
    ridges = np.full(PROJECTED, stiffness)
    b = np.asarray(projected(v, allowed, np.zeros(PROJECTED), ridges))
    for c in range(PROJECTED):
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
    v = np.asarray(100 * v, "float32")
    total = np.full(PROJECTED, 1e-4, "float32")
    b = np.asarray(projected(v, allowed, total, np.zeros(PROJECTED, "float32")), float)
    assert (b >= 0).all()
    np.testing.assert_allclose(b.sum(axis=1), 1e-4, rtol=1e-6)


@pytest.mark.thorough
def test_stopping_early_never_lowers_the_dual(x64, monkeypatch):
    for module in (proximal_newton, cutting_plane):
        monkeypatch.setattr(module, "NEWTON_STEPS", 1)
    monkeypatch.setattr(proximal_newton, "CG_STEPS", 2)
    case = random_case(0, d=19)  # no other test has programs of this shape
    for formulation in ("svm1", "svm2_slack"):
        duals = [0.0]

        def note(progress, duals=duals):
            duals.append(progress.info.certificate.dual)

        case.fit(formulation, 100.0, tolerance=1e-8, max_passes=25, settings=GROWN, callback=note)
        optimum = case.optimum(formulation, 100.0)
        assert (np.diff(duals) >= -1e-12 * optimum).all()
        assert optimum / 2 < duals[-1] <= optimum * (1 + 1e-12)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_tail_is_short(x64, formulation):
    """Superlinear at large C, where block ascent takes thousands of passes."""
    case = case_for(formulation, seed=1)
    solution = case.fit(formulation, 1e4, tolerance=1e-8, settings=GROWN)
    assert solution.status == Status.CONVERGED and solution.statistics.passes <= 40


def test_the_finest_tolerance_that_float64_may_ask_for_is_reached(x64):
    case = random_case(2)
    scaled = case._replace(loss=3 * case.loss)
    for formulation in ("svm1_slack", "svm1_margin", "svm2_slack"):
        solution = scaled.fit(formulation, 5 / 3, tolerance=1e-10, settings=GROWN, max_passes=100)
        assert solution.status == Status.CONVERGED
