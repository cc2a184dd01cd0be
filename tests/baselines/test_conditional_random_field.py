"""Random fields against enumeration of all outputs and scipy's optimum."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy.optimize import minimize
from scipy.special import logsumexp

from jaxstruct import Status
from jaxstruct.baselines import conditional_log_likelihood
from jaxstruct.baselines.conditional_log_likelihood import in_blocks, value_and_gradient
from jaxstruct.baselines.conditional_random_field import (
    FieldProgress,
    certify_random_field,
    fit_random_field,
)
from jaxstruct.baselines.field_certificate import lower_bound
from jaxstruct.chains.label_parts import ChainTheta
from jaxstruct.chains.oracles.sums import log_partition
from jaxstruct.chains.potentials import score_labels
from jaxstruct.chains.structure import Constraints, chain_potentials
from jaxstruct.core.buckets import as_buckets
from jaxstruct.core.contract import Inference
from jaxstruct.graphs import graph_labelling, with_log_loss
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass, multiclass
from jaxstruct.trees.structure import weighted_grammar
from tests.baselines.enumeration import Enumerated
from tests.baselines.sequences import (
    BARRED,
    PLAIN,
    RICH,
    Sequences,
    allowed,
    flat,
    like,
    random_sequences,
)
from tests.graphs.structure_cases import Options, random_graphs
from tests.lib.refusals import refused
from tests.trees import structure_cases as trees

SMALL = random_sequences(0, n=8, T=4, d=3, S=3)


def all_outputs(data: Sequences, model: dict, constraints: Constraints | None = None) -> Enumerated:
    """Every label sequence of every example, among those that the constraints allow."""
    return Enumerated.of(
        (data.psi(model, i, y[None])[0], data.psi(model, i, data.outputs(i, constraints)))
        for i, y in enumerate(data.y)
    )


def barred_sequences(seed: int) -> Sequences:
    """Random sequences whose labels are drawn among those that BARRED allows."""
    data, random = random_sequences(seed, n=9, T=4, d=3, S=3, shortest=0), np.random.default_rng(1)
    some = [random.choice(data.outputs(i, BARRED)) for i in range(9)]
    return data._replace(y=np.stack(some))


@pytest.mark.parametrize("rich", [False, True], ids=["plain-dense", "rich-sparse-constrained"])
def test_likelihood_gradient_and_optimum_are_those_of_enumeration(x64: None, rich: bool) -> None:
    model, constraints = (RICH, BARRED) if rich else (PLAIN, None)
    data = barred_sequences(1)
    assert allowed(BARRED, data.y).all() and not all(
        allowed(BARRED, data.outputs(i)).all() for i in range(9)
    )
    truth = all_outputs(data, model, constraints)
    problem = data.problem(model, constraints=constraints, dtype="float64")
    x = as_buckets(data.sparse_inputs() if rich else data.inputs())
    blocks = in_blocks(x, as_buckets(data.y), 32, jnp.float64)
    assert len(blocks) == 2 and not blocks[1].real.all()
    random = np.random.default_rng(2)
    for scale in (0.0, 1.0, 5.0):
        w = scale * random.normal(size=truth.true.shape[1])
        weights = like(w, problem.initial_weights)
        value, gradient = value_and_gradient(problem, weights, blocks)
        expected, slope = truth.likelihood(w)
        np.testing.assert_allclose(value, expected, rtol=1e-10)
        np.testing.assert_allclose(flat(gradient), slope, atol=1e-10)
    solution = fit_random_field(problem, x, as_buckets(data.y), 20.0, tolerance=1e-9, positions=32)
    w, objective = truth.optimum(20.0)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.objective, objective, rtol=1e-12)
    np.testing.assert_allclose(flat(solution.weights), w, atol=1e-6 * np.abs(w).max())


@pytest.mark.parametrize("C", [0.5, 200.0])
def test_the_optimum_is_that_of_scipy_in_one_bucket_or_two(x64: None, C: float) -> None:
    truth, problem = all_outputs(SMALL, PLAIN), SMALL.problem(PLAIN, dtype="float64")
    w, objective = truth.optimum(C)
    for x, y in ((SMALL.inputs(), SMALL.y), SMALL.in_buckets()):
        solution = fit_random_field(problem, x, y, C, tolerance=1e-9)
        assert solution.status is Status.CONVERGED
        np.testing.assert_allclose(solution.objective, objective, rtol=1e-12)
        np.testing.assert_allclose(flat(solution.weights), w, atol=1e-6 * np.abs(w).max())
        at_w, gradient = truth.objective(flat(solution.weights), C)
        np.testing.assert_allclose(solution.objective, at_w, rtol=1e-12)
        np.testing.assert_allclose(solution.gradient_norm, np.linalg.norm(gradient), atol=1e-10)
        assert solution.gradient_norm <= 1e-9 * max(1, np.linalg.norm(w))


def test_float32_reaches_the_optimum_and_the_second_run_compiles_nothing() -> None:
    problem, truth = SMALL.problem(PLAIN), all_outputs(SMALL, PLAIN)
    seen: list[FieldProgress] = []
    programs = conditional_log_likelihood.add_block
    counts = []
    for C in (2.0, 50.0):
        seen.clear()
        solution = fit_random_field(
            problem, SMALL.inputs(), SMALL.y, C, tolerance=1e-4, callback=seen.append
        )
        counts.append(programs._cache_size())
        assert solution.status is Status.CONVERGED
        assert solution.weights["emissions"].dtype == jnp.float32
        np.testing.assert_allclose(solution.objective, truth.optimum(C)[1], rtol=1e-5)
        assert len(seen) == solution.iterations == len(solution.history) - 1
        assert solution.evaluations >= solution.iterations + 1
        np.testing.assert_allclose(
            solution.history[1:, 1:],
            [(one.objective, one.gradient_norm, one.evaluations) for one in seen],
        )
        assert np.all(np.diff(solution.history[:, 1]) <= 1e-4 * solution.history[1:, 1])
    assert counts[0] == counts[1]
    again = fit_random_field(
        problem, SMALL.inputs(), SMALL.y, C, tolerance=1e-4, start=solution.weights
    )
    assert (again.iterations, again.evaluations, again.status) == (0, 1, Status.CONVERGED)


@pytest.mark.parametrize("C", [0.5, 200.0])
def test_any_weights_have_a_certificate(x64: None, C: float) -> None:
    """D at the marginals of w is P - |gradient|^2 / 2: at most the optimum, there equal to P."""
    truth, problem = all_outputs(SMALL, PLAIN), SMALL.problem(PLAIN, dtype="float64")
    best, objective = truth.optimum(C)
    random, duals = np.random.default_rng(3), []
    for scale in (1.0, 0.1, 1e-3, 0.0):
        w = best + scale * random.normal(size=best.size)
        weights = like(w, problem.initial_weights)
        found = certify_random_field(problem, weights, SMALL.inputs(), SMALL.y, C)
        np.testing.assert_allclose(found.primal, truth.objective(w, C)[0], rtol=1e-12)
        np.testing.assert_allclose(found.dual, truth.dual(w, C), rtol=1e-9)
        assert found.dual <= objective * (1 + 1e-12) and found.gap >= 0
        duals.append(found.dual)
    assert duals[0] < duals[2] < duals[3]
    np.testing.assert_allclose(duals[3], objective, rtol=1e-10)
    trained = fit_random_field(problem, SMALL.inputs(), SMALL.y, C, tolerance=1e-4)
    assert trained.primal == trained.objective and 0 <= trained.gap <= 1e-6 * trained.primal
    assert trained.dual <= objective * (1 + 1e-12)
    assert trained.dual >= (trained.history[:, 1] - trained.history[:, 2] ** 2 / 2).max() - 1e-12


@pytest.mark.parametrize("mean", [0.0, 300.0])
def test_float32_counts_what_it_rounds(mean: float) -> None:
    """P of the returned weights and the optimum are in the interval, which is narrow where the run
    ends CONVERGED, as it does without a mean."""
    data = SMALL._replace(tokens=(SMALL.tokens + np.float32(mean)).astype(np.float32))
    truth = all_outputs(data, PLAIN)
    found = fit_random_field(data.problem(PLAIN), data.inputs(), data.y, 2.0, tolerance=1e-4)
    _, objective = truth.optimum(2.0)
    value, _ = truth.objective(flat(found.weights).astype(np.float64), 2.0)
    assert 0 < abs(found.primal - value) <= found.rounding
    assert found.dual - found.rounding <= objective <= found.primal + found.rounding
    converged = found.status is Status.CONVERGED
    assert converged or mean > 0
    assert found.rounding <= 1e-4 * found.primal or not converged
    assert f"gap {found.gap:.2g}, rounding {found.rounding:.2g}" in found.message


@pytest.mark.thorough
@pytest.mark.parametrize("structure", ["trees", "graphs", "kernel classes"])
def test_the_rounding_of_any_structure_is_what_float64_finds(structure: str) -> None:
    """float32 is off by no more than it says, and says that it is off by little."""
    found, random = [], np.random.default_rng(5)
    weights, points = None, random.normal(size=(12, 3))
    gram = (points @ points.T + 25).astype(np.float32)
    for dtype in ("float32", "float64"):
        with jax.enable_x64(dtype == "float64"):
            if structure == "trees":
                problem = weighted_grammar(trees.grammar(0), dtype=dtype)
                x, y = trees.examples(0)
            elif structure == "graphs":
                given = random_graphs(4, 10, "any", Options(1, 2))
                problem, x, y = given.problem(dtype=dtype), given.inputs(plans=True), given.outputs
            else:
                problem, y = kernel_multiclass(12, 3, dtype=dtype), np.arange(12) % 3
                x = kernel_inputs(jnp.asarray(gram, dtype))
            zero = problem.initial_weights
            if weights is None:
                weights = like(random.normal(size=flat(zero).size), zero)
                weights = fit_random_field(problem, x, y, 5.0, start=weights).weights
            same = jax.tree.map(lambda a, b: np.asarray(a, b.dtype), weights, zero)
            found.append(certify_random_field(problem, same, x, y, 5.0))
    coarse, fine = found
    assert abs(coarse.primal - fine.primal) <= coarse.rounding <= 1e-3 * fine.primal
    assert abs(coarse.dual - fine.dual) <= coarse.rounding
    assert 0 < fine.rounding <= 1e-6 * coarse.rounding


def test_a_log_loss_that_is_not_convex_has_no_bound() -> None:
    exact = graph_labelling(2, 2)
    assert lower_bound(3.0, 1.0, exact) == 2.5
    assert lower_bound(3.0, 1.0, with_log_loss(exact, "bethe")) == -np.inf
    assert lower_bound(np.nan, 1.0, exact) == -np.inf


def _in_numpy(emissions: np.ndarray, transitions: np.ndarray, y: np.ndarray) -> float:
    """log Z - F(y) in float64."""
    messages = emissions[0]
    for row in emissions[1:]:
        messages = logsumexp(messages[:, None] + transitions, axis=0) + row
    score = emissions[np.arange(len(y)), y].sum() + transitions[y[:-1], y[1:]].sum()
    return logsumexp(messages) - score


def test_the_difference_of_log_z_and_the_score_keeps_its_digits() -> None:
    """-log P of a nearly certain output: log Z and F are in the thousands, P is near one."""
    random = np.random.default_rng(6)
    data = random_sequences(6, n=1, T=40, d=3, S=3, shortest=40)
    problem, y = data.problem(PLAIN), jnp.asarray(data.y[0])

    @jax.jit
    def both(theta: ChainTheta) -> tuple[jax.Array, jax.Array]:
        potentials, length = chain_potentials(problem, theta)
        coarse = log_partition(potentials, length) - score_labels(potentials, y, length)
        return coarse, problem.inference.log_loss(theta, y)

    emissions = random.normal(size=(40, 3)) + 100 * random.random((40, 1))
    emissions[np.arange(40), data.y[0]] += 7
    theta = ChainTheta(
        jnp.asarray(emissions, jnp.float32),
        jnp.asarray(random.normal(size=(3, 3)), jnp.float32),
        *(None, None, None),
        jnp.int32(40),
    )
    coarse, fine = both(theta)
    truth = _in_numpy(*(np.asarray(leaf, float) for leaf in theta[:2]), data.y[0])
    assert 1e-2 < truth < 5
    assert abs(float(fine) - truth) <= 2e-5 < 1e-4 < abs(float(coarse) - truth)


def _log_loss(theta: jax.Array, y: jax.Array) -> jax.Array:
    return jax.nn.logsumexp(theta) - theta[y]


@pytest.mark.thorough
def test_any_structure_with_a_log_loss_logistic_regression() -> None:
    random = np.random.default_rng(7)
    x, y = random.normal(size=(30, 4)).astype(np.float32), random.integers(0, 3, 30)
    problem, C = multiclass(number_of_features=4, number_of_classes=3), 60.0
    own = Inference(log_loss=Partial(_log_loss))
    solution = fit_random_field(problem._replace(inference=own), x, y, C, tolerance=1e-5)

    def objective(w: np.ndarray) -> float:
        scores = x @ w.reshape(4, 3)
        return w @ w / 2 + C / 30 * np.sum(logsumexp(scores, axis=1) - scores[np.arange(30), y])

    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.objective, minimize(objective, np.zeros(12)).fun, rtol=1e-5)


def test_the_other_ways_a_run_ends() -> None:
    problem, x = SMALL.problem(PLAIN), SMALL.inputs()
    short = fit_random_field(problem, x, SMALL.y, 50.0, max_iterations=2)
    assert short.status is Status.PASS_LIMIT and short.iterations == 2
    stopped = fit_random_field(
        problem, x, SMALL.y, 50.0, callback=lambda progress: progress.iterations == 3
    )
    assert stopped.status is Status.STOPPED and stopped.iterations == 3
    rounded = fit_random_field(problem, x, SMALL.y, 50.0, tolerance=1e-12)
    assert rounded.status is Status.ROUNDING and rounded.gradient_norm < 1e-2
    gram = np.asarray(x.gram, float) * 1e76
    huge = x._replace(features=(x.features * 1e38).astype(np.float32), gram=gram)
    assert fit_random_field(problem, huge, SMALL.y).status is Status.NOT_FINITE
    for solution in (short, stopped, rounded):
        assert solution.message and np.isfinite(flat(solution.weights)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(C="1"), "C must be"),
        (dict(max_iterations=2.5), "max_iterations must be"),
        (dict(C=0.0), "C must be"),
        (dict(C=float("inf")), "C must be"),
        (dict(tolerance=-1.0), "tolerance must be"),
        (dict(max_iterations=0), "max_iterations must be"),
        (dict(memory=0), "memory must be"),
        (dict(positions=0), "positions must be"),
        (dict(start={"emissions": np.zeros((3, 3))}), "start must be"),
        (dict(start=dict(emissions=np.zeros((3, 2)), transitions=np.zeros((3, 3)))), "start must"),
    ],
)
def test_errors_name_the_argument(options: dict, message: str) -> None:
    with refused(message):
        fit_random_field(SMALL.problem(PLAIN), SMALL.inputs(), SMALL.y, **options)


def test_structures_without_a_log_loss_are_refused() -> None:
    bare = multiclass(2, 2)._replace(inference=Inference())
    with refused("problem has no log_loss: give make_problem"):
        fit_random_field(bare, np.eye(2, dtype=np.float32), np.arange(2))
