"""experiments.structured_regression: the chain of real numbers, its machines, and the command."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.svm import SVR

import jaxstruct as js
from experiments.lib import common
from experiments.structured_regression import machines
from experiments.structured_regression.command import Options
from experiments.structured_regression.machines import SIGNS, RealInput, Theta, in_units, real_chain
from tests.experiments.scripts import options_of
from tests.truth.interior_point import solve_qp

T, UNIT, STEP, EPSILON = 5, 0.25, 0.5, 0.25
LEVELS = np.array([0.0, -1.0, 0.5, 1.25])
CASES = 1200


def chain(dtype: str, d: int = 2) -> js.Problem:
    return real_chain(d, STEP, EPSILON, LEVELS, UNIT, dtype)


def drawn_cases(dtype: str) -> tuple[Theta, np.ndarray]:
    """Small multiples of 1/4, so that sums are exact and many tie; lengths 1 to T, padded."""
    rng = np.random.default_rng(0)
    length = rng.integers(1, T + 1, CASES).astype(np.int32)
    y = rng.integers(-4, 5, (CASES, T)).astype(np.int32)
    y[np.arange(T) >= length[:, None]] = -1
    values, coupling = rng.integers(-6, 7, (CASES, T)) / 4, rng.integers(-2, 7, (CASES, 2)) / 4
    values[: CASES // 10] = coupling[: CASES // 10] = 0
    return Theta(values.astype(dtype), coupling.astype(dtype), length), y


def energy(theta: Theta, v: np.ndarray, fixed: float) -> np.ndarray:
    """[K] E of v [K, l], the part without weights counted `fixed` times."""
    d = np.diff(v, axis=1)
    own = v @ theta.values[: v.shape[1]] - fixed * (v**2).sum(1) / 2
    return own - np.stack([np.abs(d).sum(1), (d**2).sum(1) / 2], 1) @ theta.coupling


def best_values(theta: Theta, y: np.ndarray) -> tuple[float, float]:
    """(max over levels of E, max over rivals of Delta + E(v) - E(y)), all listed."""
    v = np.array(list(itertools.product(LEVELS, repeat=theta.length)))
    true = UNIT * y[None, : theta.length]
    moves = STEP * np.array(list(itertools.product(SIGNS, repeat=theta.length)))
    loss = (moves**2 / 2 - EPSILON * np.abs(moves)).sum(1)
    slack = loss + energy(theta, true + moves, 1.0) - energy(theta, true, 1.0)
    return float(energy(theta, v, 1.0).max()), float(slack.max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_oracles_are_the_best_of_all_outputs(dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        problem, (theta, y) = chain(dtype), drawn_cases(dtype)
        model, augmented = problem.model, problem.oracles.loss_augmented_decode

        def found(theta: Theta, y: Any) -> tuple[Any, ...]:
            read, rival = model.decode(theta), augmented(theta, y, jnp.ones((), dtype))
            gain = model.score(theta, rival) - model.score(theta, y)
            return read, rival, model.loss(y, rival) + gain

        results = jax.jit(jax.vmap(found))(theta, y)
        assert results[2].dtype == dtype
        read, rivals, slack = map(np.asarray, results)
    outside = np.arange(T) >= theta.length[:, None]
    assert (read[outside] == -1).all() and (rivals[outside] == -1).all()
    for i in range(CASES):
        own = jax.tree.map(lambda leaf, i=i: leaf[i], theta)
        best, most = best_values(own, y[i])
        v = UNIT * read[i : i + 1, : own.length]
        assert set(v[0]) <= set(LEVELS) and energy(own, v, 1.0)[0] == best
        assert slack[i] == most >= 0
    ties = slack == 0
    assert ties.sum() > 50
    np.testing.assert_array_equal(rivals[ties], y[ties])  # of equals the truth


def drawn_chains(n: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(1)
    features = [rng.normal(size=(length, 2)) for length in rng.integers(1, T + 1, n)]
    return features, [in_units(x.sum(1) + 0.7 * rng.normal(size=len(x)), UNIT) for x in features]


def quadratic_program(features: list[np.ndarray], outputs: list[np.ndarray], C: float) -> float:
    """The optimum with all 3^l constraints of each example listed."""
    n, rows, bounds = len(features), [], []
    for i, (x, y) in enumerate(zip(features, outputs, strict=True)):
        true = UNIT * y
        for signs in itertools.product(SIGNS, repeat=len(y)):
            v = true + STEP * np.array(signs)
            changes = [np.abs(np.diff(a)).sum() for a in (v, true)]
            squares = [(np.diff(a) ** 2).sum() / 2 for a in (v, true)]
            psi = [*((v - true) @ x), changes[1] - changes[0], squares[1] - squares[0]]
            margin = -(true * (v - true)).sum() - EPSILON * np.abs(v - true).sum()
            rows.append([*psi, *(-1.0 * (np.arange(n) == i))])
            bounds.append(-margin)
    P = np.diag([1.0] * 4 + [0.0] * n)
    q = np.array([0.0] * 4 + [C / n] * n)
    return solve_qp(P, q, np.array(rows), np.array(bounds)).objective


@pytest.mark.thorough
def test_training_finds_the_optimum_of_the_quadratic_program() -> None:
    features, outputs = drawn_chains(8)
    inputs = RealInput(js.ragged(features), np.array([len(x) for x in features], np.int32))
    with jax.enable_x64(True):
        problem = chain("float64")
        for C in (0.5, 20.0):
            solution = js.fit(problem, inputs, js.ragged(outputs), C=C, tolerance=1e-7)
            assert solution.status is js.Status.CONVERGED
            want = quadratic_program(features, outputs, C)
            np.testing.assert_allclose([solution.primal, solution.dual], want, rtol=1e-7)
        assert np.abs(solution.weights["coupling"]).max() > 0.05
        read = js.predict(problem, solution, inputs)
        for i in (0, 1):  # padding changes nothing
            alone = RealInput(features[i][None], np.array([len(features[i])], np.int32))
            np.testing.assert_array_equal(js.predict(problem, solution, alone)[0], read[i])


@pytest.mark.thorough
def test_without_neighbours_it_is_support_vector_regression() -> None:
    rng = np.random.default_rng(2)
    x, noise = rng.normal(size=(60, 2)), rng.standard_t(3, 60)
    y = in_units(x @ [1.0, -0.5] + 0.3 * noise, UNIT / 64)
    C, true = 0.3, y * UNIT / 64
    with jax.enable_x64(True):
        problem = real_chain(2, 2.0, EPSILON, LEVELS, UNIT / 64)
        inputs = RealInput(x[:, None], np.ones(60, np.int32))
        solution = js.fit(problem, inputs, y[:, None], C=C * 60 / 2.0, tolerance=1e-11)
        w = np.asarray(solution.weights["tokens"])
        read = js.predict(problem, solution, inputs)[:, 0] * UNIT / 64
    linear = machines.linear_svr(C, EPSILON, 1e-10).fit(x, true)
    mirrored = SVR(kernel="linear", C=C / 2, epsilon=EPSILON, tol=1e-10)
    mirrored.fit(np.concatenate([x, -x]), np.concatenate([true, -true]))
    objective = linear.coef_ @ linear.coef_ / 2
    objective += C * np.maximum(0, np.abs(linear.predict(x) - true) - EPSILON).sum()
    np.testing.assert_allclose(solution.primal, objective, atol=1e-6)
    for peer in (linear, mirrored):
        np.testing.assert_allclose(x @ w, peer.predict(x), atol=1e-6)
    np.testing.assert_array_equal(read, LEVELS[np.abs(LEVELS - x @ w[:, None]).argmin(1)])


def test_series_have_the_correlations_they_say() -> None:
    for kind in ("jumps", "smooth"):
        drawn = machines.drawn_series(np.random.default_rng(0), kind, 2000, 12, 0.8, 0.5)
        assert abs(np.std(drawn.x - drawn.y) - 0.5) < 0.01 and abs(drawn.y.std() - 1) < 0.03
        for apart in (1, 3):
            found = np.mean(drawn.y[:, apart:] * drawn.y[:, :-apart])
            assert abs(found - 0.8**apart) < 0.04
        stays = np.mean(drawn.y[:, 1:] == drawn.y[:, :-1])
        assert abs(stays - 0.8) < 0.02 if kind == "jumps" else stays == 0


options = options_of(
    Options, series=("jumps",), methods=("tokens", "windows", "structured"), repeats=2, train=8,
    choose=5, test=16, length=8, c=("10",), steps=("1",),
)  # fmt: skip
"""Series of as many tokens as the chains above are padded to, which share their programs."""


def test_neighbours_help(outcome: common.Outcome) -> None:
    rows = outcome.numbers["rows"]
    assert [row["method"] for row in rows] == 2 * ["tokens", "windows", "structured"]
    for tokens, _, structured in (rows[:3], rows[3:]):
        assert structured["error"] < tokens["error"]
        assert structured["status"] is js.Status.CONVERGED
        assert 0 <= structured["gap"] <= 1e-3 * structured["primal"]
