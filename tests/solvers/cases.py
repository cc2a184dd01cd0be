"""Small random problems as the solver sees them and as the slow truth does."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from jaxstruct import Model, Oracles, Problem, Settings, Solution, Status, fit, make_problem
from jaxstruct.core.buckets import as_buckets
from jaxstruct.core.contract import Contenders
from jaxstruct.core.types import SparseFeatures
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.n_slack import sweeps
from jaxstruct.solvers.n_slack.run import OneDevice, Run, resolved_settings
from jaxstruct.solvers.n_slack.sweeps import SweepBuffers
from jaxstruct.solvers.n_slack.task import Task, batches_of, make_task
from jaxstruct.solvers.objective.formulations import FORMULATIONS, Objective
from jaxstruct.solvers.objective.most_violated import oracle_for
from jaxstruct.solvers.settings import batch_and_group
from tests.truth.quadratic_program import Truth, dual_value, problem, slacks, solve_primal

SOFT = tuple(name for name in FORMULATIONS if name != "svm0")
DEFAULTS = Settings()
FULL = Settings(variant="full", warm_passes=0, working_sets="grown", group=16)
"""Compiles two programs only: Newton and oracle."""
GROWN = FULL._replace(capacity=4)
"""Room for the planes of four classes; what two slots grow to."""
SUBSPACE = GROWN._replace(variant="subspace")
"""Block ascent, with the oracle program of `GROWN`."""
WAYS = {"grown": GROWN, "enumerated": FULL._replace(working_sets="enumerated")}


_truths: dict[tuple, Truth] = {}


class Case(NamedTuple):
    """x [n, d], y [n], a loss matrix [k, k] and Lambda [k, p] (None: canonical)."""

    x: np.ndarray
    y: np.ndarray
    loss: np.ndarray
    output_features: np.ndarray | None = None

    def problem(self, dtype: str = "float64") -> Problem:
        """The same as `multiclass`."""
        sizes, rows = (self.x.shape[1], len(self.loss)), self.output_features
        return multiclass(*sizes, output_features=rows, loss=self.loss, dtype=dtype)

    def fit(
        self,
        formulation: str = "svm1_margin",
        C: float = 1.0,
        dtype: str = "float64",
        **options: Any,
    ) -> Solution:
        """`fit` of it."""
        return fit(self.problem(dtype), self.x, self.y, formulation, C, **options)

    def task(
        self, formulation: str, C: float, weights: np.ndarray | None = None, batch: int = 16,
        dtype: str = "float64",
    ) -> Task:  # fmt: skip
        """The fixed side of a run whose groups are whole batches."""
        examples, form = (as_buckets(self.x), as_buckets(self.y)), FORMULATIONS[formulation]
        shapes = [batches_of(len(own), batch, batch) for own in examples[1].index]
        return make_task(Objective(self.problem(dtype), *examples, form, C, weights), shapes)

    def run(
        self, formulation: str, C: float, settings: Settings = DEFAULTS, batch: int = 16,
        weights: np.ndarray | None = None, dtype: str = "float64",
    ) -> Run:  # fmt: skip
        """The run of that task that `cutting_plane` takes."""
        problem, task = self.problem(dtype), self.task(formulation, C, weights, batch, dtype)
        sizes, form = batch_and_group(problem, settings, batch), FORMULATIONS[formulation]
        rows = np.arange(len(task.terms.cap))
        return Run(
            problem, form, resolved_settings(problem, settings, task, sizes), task,
            OneDevice(problem, task, sizes), np.where(rows < len(self.y), rows, -1),
            oracle_for(problem, form), None, SweepBuffers(),
        )  # fmt: skip

    def psi(self) -> np.ndarray:
        """[n, k, D] Psi(x_i, y) = Phi(x_i) (x) Lambda(y), written down."""
        features = self.output_features
        rows = np.eye(len(self.loss)) if features is None else features
        joint = np.einsum("id,kp->ikdp", self.x, rows)
        return joint.reshape(*joint.shape[:2], -1)

    def listed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """([n, k, D] Psi, [n, k] Delta, y), as the slow truth takes them."""
        return self.psi(), self.loss[self.y], self.y

    def optimum(self, *given: Any) -> float:
        """P* of it."""
        return self.truth(*given).objective

    def truth(self, formulation: str, C: float, weights: np.ndarray | None = None) -> Truth:
        """The optimum, every constraint enumerated; solved once for all ways to reach it."""
        leaves = (*self, weights)
        key = formulation, C, *(None if a is None else (a.shape, a.tobytes()) for a in leaves)
        if key not in _truths:
            _truths[key] = solve_primal(formulation, *self.listed(), C, weights)
        return _truths[key]


@lru_cache
def random_case(
    seed: int = 0,
    n: int = 12,
    d: int = 5,
    k: int = 4,
    separable: bool = False,
    output_features: int = 0,
    sparse: bool = False,
) -> Case:
    """Gaussian inputs and an asymmetric loss matrix with squares, a zero and an irrational root.

    `separable` moves inputs along a direction of their class; `output_features` is p.
    """
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(n, d)), random.integers(0, k, n).astype(np.int32)
    if sparse:
        x *= random.random((n, d)) < 0.6
    if separable:
        x[:, :k] += 6.0 * np.eye(k, d)[y][:, :k]
    loss = random.choice([0.25, 1.0, 2.0, 4.0], size=(k, k))
    loss[0, k - 1] = 0.0
    np.fill_diagonal(loss, 0.0)
    features = random.normal(size=(k, output_features)) if output_features else None
    return Case(x, y, loss, features)


def case_for(formulation: str, **options: object) -> Case:
    """A random case that the formulation can solve."""
    return random_case(separable=formulation == "svm0", **options)


def weighted_case(formulation: str, n: int = 12) -> tuple[Case, np.ndarray]:
    """A sparse case and weights of its examples: whatever lies in a wrong place shows."""
    seed = list(FORMULATIONS).index(formulation)
    case = case_for(formulation, seed=seed, sparse=True, n=n)
    return case, np.random.default_rng(seed).choice([0.0, 0.3, 1.0, 2.5], len(case.y))


def assert_of_case(
    solution: Solution, case: Case, formulation: str, C: float, weights: np.ndarray, fine: float
) -> None:
    """The optimum; slacks, rows and multipliers of the examples in their order."""
    assert_optimal(solution, case.truth(formulation, C, weights), fine)
    of_case, used = (*case.listed(), C, weights), weights > 0
    exact = slacks(problem(formulation, *of_case), of_slack(solution))
    assert solution.slack.shape == used.shape
    np.testing.assert_allclose(solution.slack[used], exact[used], atol=1e-9)
    rows = solution.details.rows
    np.testing.assert_array_equal(np.sort(rows[rows >= 0]), np.arange(len(case.y)))
    dual = dual_value(formulation, dense_multipliers(solution, len(case.loss)), *of_case)
    assert dual.feasible and dual.value == pytest.approx(solution.certificate.dual, rel=1e-10)


def _potentials(w: jax.Array, x: jax.Array) -> jax.Array:
    return x["psi"] @ w


def score(theta: jax.Array, y: jax.Array) -> jax.Array:
    """F of a class, theta [k]."""
    return theta[y]


def decode(theta: jax.Array) -> jax.Array:
    """The best class."""
    return jax.numpy.argmax(theta).astype(jax.numpy.int32)


def _loss(matrix: jax.Array, y_true: jax.Array, y: jax.Array) -> jax.Array:
    return matrix[y_true, y]


def _contenders(matrix: jax.Array, theta: jax.Array, y_true: jax.Array) -> Contenders:
    wrong = jax.numpy.arange(theta.shape[0]) != y_true
    return Contenders(matrix[y_true], jax.numpy.where(wrong, theta, -jax.numpy.inf), ())


def output(trace: tuple, level: jax.Array) -> jax.Array:
    """The class of a level, where every class is one."""
    return level.astype(jax.numpy.int32)


def enumerated_problem(case: Case, dtype: str = "float64") -> tuple[Problem, dict]:
    """The case with Psi written down as the input, from the seven required functions only."""
    psi, table = case.psi(), jax.numpy.asarray(case.loss, dtype)
    problem = make_problem(
        jax.numpy.zeros(psi.shape[2], dtype),
        Model(_potentials, score, decode, jax.tree_util.Partial(_loss, table)),
        Oracles(contenders=jax.tree_util.Partial(_contenders, table), output=output),
    )
    return problem, {"psi": psi}


@partial(jax.jit, static_argnums=1)
def one_sweep(problem, options, task, w, sets, orders, groups):
    """`sweeps.cached_pass` over whole working sets."""
    seen = sweeps.see(task, sets)
    return sweeps.cached_pass(problem, options, seen, w, sets.multipliers, orders, groups)


def assert_optimal(solution: Solution, truth: Truth, tolerance: float) -> None:
    """Converged, with both ends of the interval at the optimum."""
    assert solution.status == Status.CONVERGED
    for end in (solution.primal, solution.dual):
        assert end == pytest.approx(truth.objective, rel=tolerance)


def flat(weights: object) -> np.ndarray:
    """The weight pytree as one float64 vector."""
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(weights)])


def of_slack(solution: Solution) -> np.ndarray:
    """The w whose slacks a solution has: that of its state, or a multiple that was certified."""
    scale = 1.0 if solution.formulation == "svm0" else solution.certificate.scale
    return scale * flat(solution.state.weights)


def padded_rows(x: np.ndarray, width: int) -> SparseFeatures:
    """SparseFeatures of dense rows, padded with the index d."""
    n, d = x.shape
    indices, values = np.full((n, width), d, np.int32), np.zeros((n, width))
    for i, row in enumerate(x):
        found = np.flatnonzero(row)
        indices[i, : len(found)], values[i, : len(found)] = found, row[found]
    return SparseFeatures(indices, values)


def dense_multipliers(solution: Solution, k: int) -> np.ndarray:
    """[n, k] beta of a solution, for single-integer outputs."""
    return dense_beta(solution.state.sets, len(solution.slack), k, solution.details.rows)


def dense_beta(sets: object, n: int, k: int, rows: np.ndarray | None = None) -> np.ndarray:
    """[n, k] beta of working sets, for single-integer outputs; rows: [N] as in a Solution."""
    outputs = np.concatenate([np.asarray(of_bucket) for of_bucket in sets.outputs])
    rows = np.arange(n) if rows is None else rows
    beta, at = np.zeros((n, k)), np.flatnonzero(rows >= 0)
    multipliers = np.asarray(sets.multipliers, float)[at]
    np.add.at(beta, (rows[at][:, None], outputs[at]), multipliers)
    return beta
