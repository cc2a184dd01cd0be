"""Stochastic gradients against certified optima, and one step against numpy."""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytest

import jaxstruct as js
from experiments.machines import stochastic_gradients
from experiments.machines.stochastic_gradients import (
    OBJECTIVES,
    StochasticFit,
    StochasticProgress,
    falling_sgd,
    fit_stochastic,
)
from jaxstruct import Status
from jaxstruct.baselines import fit_random_field
from jaxstruct.trees.structure import weighted_grammar
from tests.baselines.sequences import PLAIN, flat, random_sequences
from tests.baselines.test_conditional_random_field import Enumerated
from tests.graphs.structure_cases import Options, random_graphs
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.trees import structure_cases as trees

SMALL = random_sequences(0, n=8, T=4, d=3, S=3)
C = 20.0


def near(objective: str, found: StochasticFit, primal: float, dual: float) -> None:
    """P of both iterates is above the optimum, that of the average little; the dual is below."""
    assert dual * (1 - 1e-5) <= min(found.primal, found.primal_averaged)
    assert found.primal_averaged <= 1.04 * primal, objective
    assert found.dual <= primal * (1 + 1e-5)


@pytest.mark.parametrize("objective", thorough_after(1, OBJECTIVES))
def test_every_objective_comes_near_its_certified_optimum(objective: str) -> None:
    problem = SMALL.problem(PLAIN)
    train = fit_random_field if objective == "random_field" else js.fit
    given = () if objective == "random_field" else (objective,)
    best = train(problem, SMALL.inputs(), SMALL.y, *given, C=C)
    rate = 0.03 if objective == "svm2_slack" else 0.1  # the steepest
    found = fit_stochastic(
        problem, SMALL.inputs(), SMALL.y, objective, C, max_epochs=400, batch=3, rate=rate
    )
    near(objective, found, best.primal, best.dual)
    assert found.status is Status.PASS_LIMIT and found.steps == 3 * 400 == 3 * len(found.losses)
    if objective == "random_field":  # smooth: the bound is tight
        assert found.dual >= 0.99 * best.primal


def test_batches_are_masked_in_buckets_and_an_optimiser_of_optax() -> None:
    """Buckets of 4 and 4 in batches of 3: two of them hold one example each."""
    problem, (x, y) = SMALL.problem(PLAIN), SMALL.in_buckets()
    best = fit_random_field(problem, x, y, C)
    adam = optax.adam(optax.exponential_decay(0.1, 100, 0.7))
    found = fit_stochastic(problem, x, y, C=C, max_epochs=300, batch=3, optimiser=adam)
    near("adam", found, best.primal, best.dual)
    assert found.steps == 4 * 300


def test_a_full_batch_is_gradient_descent_of_the_objective_over_C(x64: None) -> None:
    """From a given start, with the rates of the schedule; the average has weights t."""
    truth, problem = Enumerated(SMALL, PLAIN), SMALL.problem(PLAIN, dtype="float64")
    w = start = np.random.default_rng(1).normal(size=truth.true.shape[1])
    walked, losses = [], []
    for t in range(3):
        value, gradient = truth.objective(w, C)
        losses.append((value - w @ w / 2) / C)
        w = w - 0.5 / (1 + 0.5 * t / C) * gradient / C
        walked.append(w)
    begin = jax.tree.map(lambda leaf: leaf, problem.initial_weights)
    begin = dict(zip(begin, _split(start, begin), strict=True))
    found = fit_stochastic(
        problem, SMALL.inputs(), SMALL.y, C=C, max_epochs=3, batch=8, rate=0.5, start=begin,
        evaluate_every=1, positions=12,
    )  # fmt: skip
    np.testing.assert_allclose(flat(found.weights), w, rtol=1e-6)
    mean = (walked[0] + 2 * walked[1] + 3 * walked[2]) / 6
    np.testing.assert_allclose(flat(found.averaged), mean, rtol=1e-6)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-6)
    value, gradient = truth.objective(flat(found.weights), C)
    np.testing.assert_allclose(found.primal, value, rtol=1e-10)
    other, slope = truth.objective(flat(found.averaged), C)
    np.testing.assert_allclose(found.primal_averaged, other, rtol=1e-10)
    duals = [value - gradient @ gradient / 2, other - slope @ slope / 2]
    epochs, seconds, *values, bounds = found.history.T
    np.testing.assert_array_equal(epochs, [1, 2, 3])
    np.testing.assert_allclose(values[0], [truth.objective(w, C)[0] for w in walked], rtol=1e-6)
    np.testing.assert_allclose(bounds[-1], max(duals), rtol=1e-9)
    assert found.dual == bounds.max() and (np.diff(seconds) > 0).all()
    assert [values[0][-1], values[1][-1]] == [found.primal, found.primal_averaged]


def _split(w: np.ndarray, like: dict) -> list[np.ndarray]:
    ends = np.cumsum([leaf.size for leaf in like.values()])[:-1]
    return [a.reshape(b.shape) for a, b in zip(np.split(w, ends), like.values(), strict=True)]


@pytest.mark.thorough
def test_classes_trees_and_graphs() -> None:
    random = np.random.default_rng(7)
    x = random.normal(size=(30, 4)).astype(np.float32)
    y = np.argmax(x[:, :3] + random.gumbel(size=(30, 3)), axis=1)
    classes = js.multiclass.multiclass(4, 3)
    best = fit_random_field(classes, x, y, 60.0)
    found = fit_stochastic(classes, x, y, C=60.0, max_epochs=60, batch=5, rate=0.5)
    near("classes", found, best.primal, best.dual)
    found = fit_stochastic(
        weighted_grammar(trees.grammar(0)), *trees.examples(0), C=5.0, max_epochs=100, batch=5,
        rate=0.3,
    )  # fmt: skip
    assert 0 < found.primal_averaged - found.dual < 0.02 * found.dual
    given = random_graphs(4, 10, "any", Options(1, 2))
    graphs, x = given.problem(inference="enumeration", dtype="float32"), given.inputs()
    best = js.fit(graphs, x, given.outputs, "svm1_margin", C=5.0)
    found = fit_stochastic(
        graphs, x, given.outputs, "svm1_margin", 5.0, max_epochs=300, batch=5, rate=0.3
    )
    near("svm1_margin", found, best.primal, best.dual)


def test_a_seed_is_a_run_other_numbers_share_its_program_and_a_callback_sees_epochs() -> None:
    problem, runs = SMALL.problem(PLAIN), []
    seen: list[StochasticProgress] = []
    before = None
    for seed, rate, c in ((0, 0.1, C), (0, 0.1, C), (1, 0.1, C), (0, 0.3, 3.0)):
        runs.append(flat(fit_stochastic(
            problem, SMALL.inputs(), SMALL.y, C=c, max_epochs=4, batch=3, rate=rate, seed=seed,
            callback=seen.append,
        ).weights))  # fmt: skip
        programs = stochastic_gradients._steps._cache_size()
        assert before in (None, programs)
        before = programs
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.abs(runs[0] - runs[2]).max() > 1e-4
    assert [one.epochs for one in seen[:4]] == [1, 2, 3, 4]
    assert seen[0].loss > seen[3].loss and seen[0].seconds < seen[3].seconds
    assert np.abs(flat(seen[3].weights) - flat(seen[3].averaged)).max() > 0
    stopped = fit_stochastic(
        problem, SMALL.inputs(), SMALL.y, C=C, batch=3, callback=lambda one: one.epochs == 2
    )
    assert stopped.status is Status.STOPPED and len(stopped.losses) == 2
    wild = fit_stochastic(
        problem, SMALL.inputs(), SMALL.y, C=1e4, batch=3, optimiser=falling_sgd(1e38, 1.0)
    )
    assert wild.status is Status.NOT_FINITE and "rate" in wild.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(objective="svm0"), "no subgradient"),
        (dict(C=-1.0), "C must be"),
        (dict(evaluate_every=-1), "evaluate_every must be"),
        (dict(optimiser=0.1), "optimiser must be an optax.GradientTransformation"),
    ],
)
def test_errors_name_the_argument(options: dict, message: str) -> None:
    with refused(message):
        fit_stochastic(SMALL.problem(PLAIN), SMALL.inputs(), SMALL.y, **options)
