"""Random fields, of kernels too, against enumeration of all outputs and SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import jaxstruct as js
from jaxstruct import Status, predict
from jaxstruct.baselines import conditional_log_likelihood
from jaxstruct.baselines.conditional_log_likelihood import in_blocks, value_and_gradient
from jaxstruct.baselines.conditional_random_field import (
    FieldProgress,
    LinePoint,
    certify_random_field,
    fit_random_field,
    wolfe_step,
)
from jaxstruct.baselines.examples import typed_on_device, without_gram
from jaxstruct.baselines.field_certificate import lower_bound
from jaxstruct.baselines.perceptron import perceptron
from jaxstruct.chains.label_parts import ChainTheta
from jaxstruct.chains.oracles.sums import log_partition
from jaxstruct.chains.potentials import ChainInput, score_labels
from jaxstruct.chains.structure import chain, chain_potentials
from jaxstruct.core.buckets import as_buckets
from jaxstruct.core.contract import Inference
from jaxstruct.graphs import graph_labelling, with_log_loss
from jaxstruct.kernels import linear
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass, multiclass
from jaxstruct.trees.structure import grammar_potentials
from tests.baselines.enumeration import Enumerated
from tests.baselines.sequences import PLAIN, Sequences, flat, like, random_sequences
from tests.chains.structure_cases import kernel_token_inputs
from tests.lib.refusals import refused

SMALL = random_sequences(0, n=8, T=4, d=3, S=3)


def all_outputs(data: Sequences) -> Enumerated:
    """Every label sequence of every example."""
    return Enumerated.of(
        (data.psi(PLAIN, i, y[None])[0], data.psi(PLAIN, i, data.outputs(i)))
        for i, y in enumerate(data.y)
    )


def test_likelihood_gradient_and_optimum_are_those_of_enumeration(x64: None) -> None:
    data = random_sequences(1, n=9, T=4, d=3, S=3, shortest=0)
    truth, problem = all_outputs(data), data.problem(PLAIN, dtype="float64")
    x = as_buckets(data.inputs())
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
    truth, problem = all_outputs(SMALL), SMALL.problem(PLAIN, dtype="float64")
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


@pytest.mark.thorough
def test_float32_reaches_the_optimum_and_the_second_run_compiles_nothing() -> None:
    problem, truth = SMALL.problem(PLAIN), all_outputs(SMALL)
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
    truth, problem = all_outputs(SMALL), SMALL.problem(PLAIN, dtype="float64")
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
    truth = all_outputs(data)
    found = fit_random_field(data.problem(PLAIN), data.inputs(), data.y, 2.0, tolerance=1e-4)
    _, objective = truth.optimum(2.0)
    value, _ = truth.objective(flat(found.weights).astype(np.float64), 2.0)
    assert 0 < abs(found.primal - value) <= found.rounding
    assert found.dual - found.rounding <= objective <= found.primal + found.rounding
    converged = found.status is Status.CONVERGED
    assert converged or mean > 0
    assert found.rounding <= 1e-4 * found.primal or not converged
    assert f"gap {found.gap:.2g}, rounding {found.rounding:.2g}" in found.message


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
    problem, y = data.problem(PLAIN), data.y[0]

    @jax.jit
    def both(theta: ChainTheta) -> tuple[jax.Array, jax.Array]:
        potentials, length = chain_potentials(problem, theta)
        coarse = log_partition(potentials, length) - score_labels(potentials, y, length)
        return coarse, problem.inference.log_loss(theta, y)

    emissions = random.normal(size=(40, 3)) + 100 * random.random((40, 1))
    emissions[np.arange(40), data.y[0]] += 7
    theta = ChainTheta(
        emissions.astype(np.float32),
        random.normal(size=(3, 3)).astype(np.float32),
        *(None, None, None),
        np.int32(40),
    )
    coarse, fine = both(theta)
    truth = _in_numpy(*(np.asarray(leaf, float) for leaf in theta[:2]), data.y[0])
    assert 1e-2 < truth < 5
    assert abs(float(fine) - truth) <= 2e-5 < 1e-4 < abs(float(coarse) - truth)


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


DATA = random_sequences(0, n=8, T=4, d=3, S=3)
NEW = random_sequences(1, n=8, T=4, d=3, S=3)
REAL = np.arange(4) < DATA.length[:, None]
ANCHORS = DATA.tokens[REAL]
M = len(ANCHORS)
PLACES = np.full(REAL.shape, -1)
PLACES[REAL] = np.arange(M)
C = 5.0


def inputs_of(kernel, data: Sequences, places: np.ndarray) -> ChainInput:
    return kernel_token_inputs(kernel, data.tokens, data.length, ANCHORS, places)


def new_inputs(kernel) -> ChainInput:
    return inputs_of(kernel, NEW, np.where(NEW.y >= 0, M, -1))


@pytest.mark.thorough
def test_with_a_linear_kernel_it_is_the_linear_field(x64: None) -> None:
    """The same objective, and the same labels of sequences that did not train."""
    plain = DATA.problem(PLAIN, dtype="float64")
    best = fit_random_field(plain, DATA.inputs(), DATA.y, C, tolerance=1e-8)
    kernel = chain(M, 3, **PLAIN, dtype="float64")
    x = inputs_of(linear(), DATA, PLACES)
    found = fit_random_field(kernel, x, DATA.y, C, tolerance=1e-8)
    assert found.status is Status.CONVERGED
    assert found.weights["emissions"].shape == (M, 3)
    np.testing.assert_allclose(found.objective, best.objective, rtol=1e-10)
    lifted = ANCHORS.T @ np.asarray(found.weights["emissions"])
    np.testing.assert_allclose(lifted, best.weights["emissions"], atol=1e-6)
    again = certify_random_field(kernel, found.weights, x, DATA.y, C)
    np.testing.assert_allclose([again.primal, again.dual], best.objective, rtol=1e-9)
    np.testing.assert_array_equal(
        predict(kernel, found, new_inputs(linear())), predict(plain, best, NEW.inputs())
    )


def test_kernel_logistic_regression_with_class_features(x64: None) -> None:
    random = np.random.default_rng(3)
    x, new = random.normal(size=(12, 12)), random.normal(size=(6, 12))  # weights of one shape
    y = np.arange(12) % 3
    features = random.normal(size=(3, 2))
    plain = multiclass(12, 3, output_features=features, dtype="float64")
    options = dict(tolerance=1e-8)
    best = fit_random_field(plain, x, y, C, **options)
    problem = kernel_multiclass(12, 3, output_features=features, dtype="float64")
    found = fit_random_field(problem, kernel_inputs(x @ x.T), y, C, **options)
    np.testing.assert_allclose(found.objective, best.objective, rtol=1e-9)
    rows = kernel_inputs(new @ x.T, self_kernel=np.sum(new * new, axis=1))
    np.testing.assert_array_equal(predict(problem, found, rows), predict(plain, best, new))


def test_anchors_that_do_not_train_have_no_coefficient(x64: None) -> None:
    x = inputs_of(linear(), DATA, PLACES)
    some, y = js.take(x, np.arange(6)), DATA.y[:6]
    plain = DATA.problem(PLAIN, dtype="float64")
    best = fit_random_field(plain, js.take(DATA.inputs(), np.arange(6)), y, C, tolerance=1e-8)
    found = fit_random_field(chain(M, 3, **PLAIN, dtype="float64"), some, y, C, tolerance=1e-8)
    np.testing.assert_allclose(found.objective, best.objective, rtol=1e-9)
    trained = int(DATA.length[:6].sum())
    assert np.abs(np.asarray(found.weights["emissions"])[:trained]).max() > 0.01
    np.testing.assert_array_equal(np.asarray(found.weights["emissions"])[trained:], 0)


def test_values_of_no_kernel_are_refused() -> None:
    gram = np.array([[1.0, 2.0], [2.0, 1.0]])
    with refused("not positive semi-definite"):
        fit_random_field(kernel_multiclass(2, 2), kernel_inputs(gram), np.arange(2))


def test_problems_of_another_kind_are_refused():
    problem = chain(2, 3)
    refused("weighted_grammar", grammar_potentials, problem, None)


def test_floats_follow_the_run_and_integers_are_int32(x64: None) -> None:
    tree = np.ones(2), np.ones(2, np.float32), np.arange(2), np.array([True, False])
    for dtype in (jnp.float32, jnp.float64):
        found = typed_on_device(tree, jnp.dtype(dtype))
        assert [leaf.dtype for leaf in found] == [dtype, dtype, jnp.int32, bool]
        jax.tree.map(np.testing.assert_array_equal, found, tree)


def test_a_chain_loses_its_gram_and_others_lose_nothing() -> None:
    x = random_sequences(0, n=3, T=2, d=2, S=2).inputs()
    lean = without_gram(x)
    assert lean.gram is None and lean.features is x.features and lean.length is x.length
    assert without_gram(x.features) is x.features


@pytest.mark.thorough
def test_float64_rows_train_a_float32_problem_where_float64_is_on(x64: None) -> None:
    problem, x, y = multiclass(4, 3), np.eye(4), np.arange(4) % 3
    assert x.dtype == np.float64
    for found in (
        fit_random_field(problem, x, y, max_iterations=2), perceptron(problem, x, y, max_epochs=2)
    ):  # fmt: skip
        assert {leaf.dtype for leaf in jax.tree.leaves(found.weights)} == {jnp.dtype("float32")}


def searched(
    function: Callable[[float], tuple[float, float]], **options: object
) -> tuple[LinePoint | None, list[float]]:
    """The step, and every t that was evaluated."""
    seen = []

    def evaluate(t: float) -> tuple[float, float]:
        seen.append(t)
        return function(t)

    return wolfe_step(evaluate, *function(0.0), **options), seen


def quadratic(centre: float, noise: float = 0.0) -> Callable[[float], tuple[float, float]]:
    return lambda t: ((t - centre) ** 2 + noise * math.sin(1e9 * t), 2 * (t - centre))


@pytest.mark.smoke
def test_the_step_satisfies_both_conditions() -> None:
    random, lengths = np.random.default_rng(0), []
    for a, b, c in np.exp(random.normal(size=(200, 3)) * [3, 3, 1]):

        def function(t: float, a: float = a, b: float = b, c: float = c) -> tuple[float, float]:
            """Convex, with its minimum at positive t, of any scale."""
            value = b * (np.logaddexp(0, a * t) - 0.9 * a * t) + c * t * t
            return value, a * b * (0.1 - 1 / (1 + math.exp(min(a * t, 700)))) + 2 * c * t

        value, slope = function(0.0)
        found, seen = searched(function)
        assert found is not None and found.step == seen[-1] and seen[0] == 1.0
        assert (found.value, found.slope) == function(found.step)
        assert found.value <= value + 1e-4 * found.step * slope
        assert found.slope >= 0.9 * slope
        lengths.append(len(seen))
    assert max(lengths) > 4 and np.mean(lengths) < 6


def test_a_full_step_that_is_good_is_taken_at_once() -> None:
    assert searched(quadratic(0.8)) == (LinePoint(1.0, *quadratic(0.8)(1.0)), [1.0])


def test_a_step_that_decreases_too_little_is_not_taken() -> None:
    """(t - c)^2 satisfies the first condition at t = 1 from c = 1 / (2 - 2e-4) on."""
    assert searched(quadratic(0.50006))[1] == [1.0]
    found, seen = searched(quadratic(0.50004))
    assert found is not None and seen == [1.0, found.step]
    np.testing.assert_allclose(found.step, 0.50004, rtol=1e-9)


@pytest.mark.parametrize(("centre", "most"), [(1e-3, 12), (1e3, 14)])
def test_far_minima_are_bracketed(centre: float, most: int) -> None:
    found, seen = searched(quadratic(centre))
    assert found is not None and len(seen) <= most
    assert 0 < found.step < 2 * centre


def test_interpolation_of_a_cubic_is_exact() -> None:
    def function(t: float) -> tuple[float, float]:
        return (t / 4) ** 3 - t / 16, 3 * t**2 / 64 - 1 / 16  # its minimum is at 2 / sqrt(3)

    stretched = searched(lambda t: (function(3 * t)[0], 3 * function(3 * t)[1]))
    assert stretched[1][0] == 1.0
    np.testing.assert_allclose(stretched[1][1], 2 / math.sqrt(3) / 3, rtol=1e-12)


@pytest.mark.parametrize("wall", [math.inf, math.nan])
def test_steps_out_of_the_domain_are_shortened(wall: float) -> None:
    found, _ = searched(lambda t: quadratic(0.2)(t) if t < 0.5 else (wall, wall))
    assert found is not None and 0 < found.step < 0.4


def test_none_where_no_step_is_found() -> None:
    found, seen = searched(lambda t: (abs(t), -1.0 if t == 0 else 1.0), most=7)
    assert found is None and len(seen) == 7
    assert searched(lambda t: (-t, -1.0), most=5)[0] is None  # falls for ever


def test_rounding_is_forgiven_where_the_slope_is_good() -> None:
    """Values that differ by noise alone cannot satisfy the first condition, slopes can."""
    flat = lambda t: (1.0 + 1e-7 * (t > 0), 1e-9 * (t - 1.0))  # noqa: E731
    assert searched(flat)[0] is None
    found, seen = searched(flat, rounding=1e-6)
    assert found is not None and seen == [1.0]
