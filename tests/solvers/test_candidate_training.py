"""Training on candidate sets against an independent QP, and kernels against explicit features."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import check_problem, fit, predict
from jaxstruct.core.types import PyTree
from jaxstruct.kernels import gaussian, gram_matrix
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.strings.inputs import feature_inputs, joint_inputs, joint_pairs, kernel_inputs
from jaxstruct.strings.structure import joint_candidates
from tests.solvers.cases import FULL, assert_optimal
from tests.strings.candidate_cases import MACHINES, Case, random_case
from tests.truth.quadratic_program import solve_primal

FINE = 2e-9
CLOSE = 1e-8


def new_inputs(case: Case, other: Case) -> dict[str, PyTree]:
    """Inputs of another case, with the outputs of this one, as each machine reads them."""
    psi = case._replace(x=other.x, lists=other.lists).psi()
    return {
        "features": feature_inputs(other.lists, psi),
        "kernel": kernel_inputs(other.x @ case.x.T, other.lists, new=True),
        "joint": joint_inputs(psi @ case.psi().T, other.lists, new=True),
    }


@pytest.mark.parametrize("name", ["features", "kernel", "joint"])
def test_every_formulation_is_that_of_the_quadratic_program(x64: None, name: str) -> None:
    """Features, K and L, and J are one machine: one optimum, with lists of several lengths."""
    case, other = random_case(1), random_case(3)
    problem, x = case.machine(name)
    fresh = new_inputs(case, other)[name]
    for formulation in FORMULATIONS:
        truth = solve_primal(formulation, *case.listed(), C=10.0)
        assert truth.feasible and truth.objective > 0.1
        solution = fit(problem, x, case.y, formulation, 10.0, tolerance=FINE, settings=FULL)
        assert_optimal(solution, truth, CLOSE)
        predicted = predict(problem, solution, fresh)
        scores = case._replace(x=other.x, lists=other.lists).scores(truth.w)
        wanted = [own[np.argmax(f)] for own, f in zip(other.lists, scores, strict=True)]
        np.testing.assert_array_equal(predicted, wanted)


@pytest.mark.parametrize("name", MACHINES)
def test_the_rules_of_a_problem_hold(x64: None, name: str) -> None:
    case = random_case(2)
    problem, x = case.machine(name)
    report = check_problem(problem, x, case.y, examples=4, draws=4)
    assert set(report.oracles.values()) == {"contenders"}


def root_of(J: np.ndarray) -> np.ndarray:
    """Features [M, M] whose inner products are J, which nothing else knows."""
    values, vectors = np.linalg.eigh(J)
    assert values.min() > -1e-9 * values.max() and (values > 1e-9 * values.max()).sum() > 25
    return vectors * np.sqrt(np.maximum(values, 0))


def gaussian_of_pairs(a: tuple, b: tuple) -> jax.Array:
    """Gaussian on (x, y, x (x) y): mixed terms remain."""
    first, second = (jnp.concatenate([x, y, jnp.outer(x, y).ravel()]) for x, y in (a, b))
    return gaussian(2.0)(first, second)


@pytest.mark.thorough
@pytest.mark.parametrize("C", [1.0, 300.0])
def test_a_joint_kernel_on_all_outputs_with_costs_by_example(x64: None, C: float) -> None:
    """Every output is a candidate of every input; Delta [n, k] is a number a candidate."""
    random = np.random.default_rng(0)
    n, k = 14, 4
    X, Y = random.normal(size=(n, 3)), random.normal(size=(k, 2))
    true = np.argmax(X @ random.normal(size=(3, 2)) @ Y.T + random.normal(size=(n, k)) / 2, axis=1)
    costs = random.uniform(0.5, 3.0, size=(n, k))
    costs[np.arange(n), true] = 0
    J = np.asarray(gram_matrix(gaussian_of_pairs, joint_pairs(X, Y, [np.arange(k)] * n)))
    features = root_of(J).reshape(n, k, -1)
    numbers = np.arange(n * k, dtype=np.int32).reshape(n, k)
    problem = joint_candidates(n * k, loss=costs.ravel(), dtype="float64")
    x, y = joint_inputs(J, numbers), numbers[np.arange(n), true]
    for formulation in FORMULATIONS:
        truth = solve_primal(formulation, features, costs, true, C)
        found = fit(problem, x, y, formulation, C, tolerance=1e-9, settings=FULL)
        assert_optimal(found, truth, CLOSE)
        assert found.dual <= truth.objective * (1 + 1e-10) <= found.primal * (1 + 2e-10)
        wanted = features @ truth.w
        scores = (J @ found.weights["coefficients"]).reshape(n, k)
        np.testing.assert_allclose(scores, wanted, atol=1e-4 * np.abs(wanted).max())
        np.testing.assert_allclose(found.slack, truth.slack, atol=1e-4 * (1 + truth.slack.max()))
