"""Wrong oracles, inexact ones with a valid bound, inexact ones without: never CONVERGED wrongly.

Six classes, of which an oracle may overlook one. The truth comes from the exact problem.
"""

from __future__ import annotations

import contextlib

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from jaxstruct import (
    Bounded,
    Contenders,
    Differences,
    Model,
    Oracles,
    Settings,
    Status,
    check_problem,
    fit,
    make_problem,
)
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.dependencies.cases import prepared, treebank
from tests.solvers.cases import SOFT, decode, output, score

K, D, N, MISSED = 4, 3, 24, 2
random = np.random.default_rng(0)
X = random.normal(size=(N, D)).astype(np.float32)
Y = np.argmax(X @ random.normal(size=(D, K)) + 0.3 * random.normal(size=(N, K)), 1).astype(np.int32)
ZERO = np.zeros((D, K), np.float32)
UNCHECKED = Settings(checked_examples=0)
C = 5.0


def loss(y_true, y):
    return jnp.where(y == y_true, 0.0, 1.0 + 0.5 * jnp.abs(y - y_true)).astype(jnp.float32)


def all_losses(y_true):
    return loss(y_true, jnp.arange(K))


def contenders(overlooks, excess, theta, y_true):
    """One class is a level; a class that is overlooked has the score -inf."""
    classes = jnp.arange(K)
    wrong = classes != y_true
    scores = jnp.where(wrong & ((classes != MISSED) | ~overlooks), theta, -jnp.inf)
    bounds = None if excess is None else jnp.where(wrong, theta + excess, -jnp.inf)
    return Contenders(all_losses(y_true), scores, (), bounds)


WAYS = {
    name: Partial(contenders, jnp.asarray(overlooks), excess)
    for name, overlooks, excess in [
        ("exact", False, None),
        ("wrong", True, None),
        ("bounded", True, jnp.float32(1e-3)),
        ("loose", True, jnp.float32(0.5)),
        ("unknown", True, jnp.float32(np.inf)),
    ]
}
"""Numbers that one function reads: with a bound and without, all ways share compiled programs."""


def all_outputs(y_true):
    return jnp.roll(jnp.arange(K, dtype=jnp.int32), -y_true)


MODEL = Model(lambda w, x: x @ w, score, decode, loss)


def problem_of(way, **oracles):
    given = Oracles(contenders=WAYS[way], output=output)._replace(**oracles)
    return make_problem(ZERO, MODEL, given)


def true_primal(formulation, w):
    """P(w) by enumeration, in float64."""
    form = FORMULATIONS[formulation]
    theta = X.astype(float) @ np.asarray(w, float)
    delta = np.where(np.arange(K) == Y[:, None], 0, 1 + 0.5 * np.abs(np.arange(K) - Y[:, None]))
    margins = theta[np.arange(N), Y][:, None] - theta
    H = delta**form.bound_power - delta**form.scale_power * margins
    H[np.arange(N), Y] = 0
    slack = H.max(1)
    norm = np.sum(np.asarray(w, float) ** 2) / 2
    return norm + C / N * (slack.sum() if form.penalty == 1 else (slack**2).sum() / 2)


@pytest.fixture(scope="module")
def optima():
    """The optimum of each formulation, bracketed by the exact problem."""
    exact = problem_of("exact")
    found = {name: fit(exact, X, Y, name, C, tolerance=1e-5) for name in SOFT}
    assert all(solution.status.solved for solution in found.values())
    return {name: (solution.dual, solution.primal) for name, solution in found.items()}


@pytest.mark.parametrize("formulation", SOFT)
def test_a_wrong_oracle_is_refused(formulation):
    with pytest.raises(ValueError, match="problem: the oracle misses an output"):
        fit(problem_of("wrong"), X, Y, formulation, C)


@pytest.mark.thorough
@pytest.mark.parametrize("formulation", SOFT)
def test_planes_at_hand_refute_a_wrong_oracle(formulation):
    """Enumerated working sets hold what the oracle overlooks: the check is not needed there."""
    wrong = problem_of("wrong", all_outputs=all_outputs)
    solution = fit(wrong, X, Y, formulation, C, settings=UNCHECKED)
    assert solution.status is Status.WRONG_ORACLE and solution.certificate.missed > 0


@pytest.mark.parametrize("formulation", SOFT)
def test_a_valid_bound_certifies(formulation, optima):
    """A bound near the truth ends CONVERGED, and above the optimum."""
    solution = fit(problem_of("bounded"), X, Y, formulation, C, tolerance=0.05)
    low, high = optima[formulation]
    assert solution.status in (Status.CONVERGED, Status.INEXACT_ORACLE), solution.message
    assert solution.dual <= high * (1 + 1e-5)
    assert solution.primal >= true_primal(formulation, solution.weights) - 1e-4
    if solution.status is Status.CONVERGED:
        assert solution.primal - low <= 0.05 * solution.primal + 1e-4


@pytest.mark.parametrize("way", ["loose", "unknown"])
@pytest.mark.parametrize("formulation", SOFT)
def test_without_a_close_bound_nothing_is_called_converged(formulation, way, optima):
    solution = fit(problem_of(way), X, Y, formulation, C)
    certificate, (_, high) = solution.certificate, optima[formulation]
    assert solution.status is Status.INEXACT_ORACLE, solution.status
    assert np.isinf(solution.primal) == (way == "unknown")
    assert solution.primal >= true_primal(formulation, solution.weights) - 1e-4
    assert solution.dual <= high * (1 + 1e-5)  # a lower bound with any oracle
    assert certificate.primal_found < certificate.primal and certificate.missed == 0
    assert np.isfinite(np.asarray(solution.weights)).all() and np.abs(solution.weights).max() > 0


def _decode_missing(theta, y_true, scale):
    values = theta + scale * all_losses(y_true)
    seen = jnp.where(jnp.arange(K) == MISSED, -jnp.inf, values)
    return jnp.argmax(jnp.where(jnp.arange(K) == y_true, values, seen)).astype(jnp.int32)


def _bounded_decode(theta, y_true, scale):
    best = jnp.max(theta + scale * all_losses(y_true))
    return Bounded(_decode_missing(theta, y_true, scale), best)


@pytest.mark.parametrize("formulation", ["svm1_margin", "svm1_slack", "svm2_slack"])
def test_a_bounded_decode_serves_margin_and_slack_rescaling(formulation, optima):
    oracles = Oracles(loss_augmented_decode=_bounded_decode)
    solution = fit(make_problem(ZERO, MODEL, oracles), X, Y, formulation, C)
    assert solution.status in (Status.INEXACT_ORACLE, Status.CONVERGED)
    assert solution.dual <= optima[formulation][1] * (1 + 1e-5)
    assert solution.primal >= true_primal(formulation, solution.weights) - 1e-4


def test_a_right_problem_passes_with_all_its_outputs():
    report = check_problem(problem_of("exact"), X, Y, listed=np.arange(K, dtype=np.int32))
    assert set(report.oracles.values()) == {"contenders"} and max(report.excess.values()) < 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("field", ["values", "add", "look_up"])
def test_differences_of_planes_are_compared_too(field):
    """Of long sequences, and of trees, which look planes up one by one: one function is off.

    One oracle, of two levels; by what factor it is off is a number, so one program serves both.
    """
    problem, x, y = prepared(*treebank(2, 8, 4)) if field == "look_up" else long_sequences()
    differences = problem.space.differences
    for factor in (1, 2):
        scaled = Partial(_scaled, jnp.float32(factor), getattr(differences, field))
        space = problem.space._replace(differences=differences._replace(**{field: scaled}))
        wrong = pytest.raises(ValueError, match=f"1. space.differences.{field} differs from what")
        with wrong if factor > 1 else contextlib.nullcontext():
            check_problem(problem._replace(space=space), x, y)


def long_sequences():
    problem = chain(4, 3, loss="zero_one")
    problem = problem._replace(oracles=problem.oracles._replace(best_wrong=None))
    assert problem.oracles.best_by_level is not None
    random = np.random.default_rng(0)
    x = chain_inputs(random.normal(size=(4, 24, 4)).astype(np.float32), np.full(4, 24))
    return problem, x, random.integers(0, 3, (4, 24))


def _scaled(factor, honest, *given):
    """Values of planes, the emissions of weights with planes added, or a Gram row, scaled."""
    found = honest(*given)
    if hasattr(found, "products"):
        return found._replace(products=factor * found.products)
    if isinstance(found, dict):
        return {**found, "emissions": factor * found["emissions"]}
    return factor * found


def test_differences_come_together():
    right = problem_of("exact")

    def make(differences):
        space = right.space._replace(differences=differences)
        make_problem(right.initial_weights, right.model, right.oracles, space)

    with pytest.raises(ValueError, match="space.differences must be a Differences"):
        make(lambda y: y)
    function = lambda y: y  # noqa: E731
    with pytest.raises(ValueError, match="space.differences.values must be a function"):
        make(Differences(function, None, None, function, None, None))
