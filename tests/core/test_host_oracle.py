"""Knapsacks by HiGHS as host oracles, against all subsets."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

import jaxstruct as js
from tests.lib.refusals import refused

N, ITEMS = 12, 5
WEIGHTS = np.array([2, 3, 4, 5, 3])
SUBSETS = np.array([y for y in itertools.product((0, 1), repeat=ITEMS) if WEIGHTS @ y <= 8])
pytestmark = pytest.mark.usefixtures("x64")


def potentials(w, x):
    return x["features"] @ w, x["number"]


def score(theta, y):
    return theta[0] @ y.astype(theta[0].dtype)


def loss(y_true, y):
    return jnp.sum(y_true != y)


def _best(values):
    found = milp(
        -values, integrality=np.ones(ITEMS), bounds=Bounds(0, 1),
        constraints=LinearConstraint(WEIGHTS, ub=8),
    )  # fmt: skip
    return np.round(found.x).astype(int)


def solve(theta):
    return _best(theta[0])


def solve_augmented(theta, y_true, scale):
    y = _best(theta[0] + scale * (1 - 2 * y_true))
    return y


def solve_bounded(theta, y_true, scale):
    y = solve_augmented(theta, y_true, scale)
    return js.Bounded(y, theta[0] @ y + scale * np.sum(y != y_true) + 1e-6)


def like(theta, *rest):
    return jax.ShapeDtypeStruct((ITEMS,), jnp.int32)


def number(theta, *rest):
    return theta[1]


def problem_of(augmented, **options):
    oracle = js.host_oracle(augmented, like, number=number, **options)
    model = js.Model(potentials, score, js.host_oracle(solve, like), loss)
    zero = jnp.zeros(3, "float64")
    return js.make_problem(zero, model, js.Oracles(loss_augmented_decode=oracle)), oracle


def data():
    random = np.random.default_rng(0)
    features = random.normal(size=(N, ITEMS, 3))
    true = features @ np.array([1.0, -2.0, 0.5]) + random.normal(size=(N, ITEMS))
    x = {"features": features, "number": np.arange(N, dtype=np.int32)}
    return x, SUBSETS[np.argmax(true @ SUBSETS.T, axis=1)].astype(np.int32)


@functools.cache
def of_bounds():
    """A problem whose oracle says bounds, the oracle, and what is trained of it."""
    problem, oracle = problem_of(solve_bounded, bounded=True)
    return problem, oracle, js.fit(problem, *data(), C=10.0, tolerance=1e-4)


def test_training_losses_and_predictions_are_those_of_all_subsets():
    (x, y), C = data(), 10.0
    problem, oracle, solution = of_bounds()
    assert solution.status is js.Status.CONVERGED and solution.certificate.oracle == "bounded"
    w = np.asarray(solution.weights)
    scores = x["features"] @ w @ SUBSETS.T
    deltas = np.sum(SUBSETS[None] != y[:, None], axis=2)
    slack = np.max(scores + deltas, axis=1) - np.sum(x["features"] @ w * y, axis=1)
    primal = w @ w / 2 + C * np.mean(slack)
    assert primal == pytest.approx(solution.primal, abs=1e-4)
    assert primal <= solution.primal + 1e-9
    np.testing.assert_array_equal(js.predict(problem, solution, x), SUBSETS[np.argmax(scores, 1)])
    mean = functools.partial(js.losses.mean_loss, js.losses.structured_hinge, problem)
    value = jax.jit(mean)(solution.weights, x, y)
    assert value == pytest.approx(np.mean(slack))
    assert oracle.runs > 0


def test_runs_are_counted_and_equal_arguments_of_a_batch_solved_once():
    oracle = js.host_oracle(solve, like, threads=2)
    theta = np.random.default_rng(1).normal(size=(4, ITEMS))[[0, 1, 0, 2, 3, 3]]
    given = theta, np.zeros(6, np.int32)
    nested = jax.tree.map(lambda leaf: leaf.reshape(2, 3, *leaf.shape[1:]), given)
    found = jax.jit(jax.vmap(jax.vmap(oracle)))(nested)
    best = SUBSETS[np.argmax(theta @ SUBSETS.T, axis=1)]
    np.testing.assert_array_equal(np.reshape(found, (6, ITEMS)), best)
    assert oracle.runs == 4
    assert oracle == js.host_oracle(solve, like, threads=2)


class Dies:
    """Raises once it has been called so often, until it is healed."""

    left: float = np.inf

    def __call__(self, theta, y_true, scale):
        Dies.left -= 1
        if Dies.left < 0:
            raise OSError("killed")
        return solve_augmented(theta, y_true, scale)

    def __eq__(self, other):
        return type(other) is Dies

    def __hash__(self):
        return 0


@pytest.mark.thorough
def test_a_run_whose_solver_is_killed_goes_on_from_its_checkpoint(tmp_path):
    (x, y), file = data(), tmp_path / "run.npz"
    problem, oracle = problem_of(Dies())
    options = {"C": 10.0, "tolerance": 1e-4, "settings": js.Settings(checked_examples=0)}
    Dies.left = np.inf
    whole = js.fit(problem, x, y, **options)
    assert whole.status is js.Status.CONVERGED and whole.certificate.oracle == "exact"
    *_, bounded = of_bounds()
    assert max(whole.dual, bounded.dual) <= min(whole.primal, bounded.primal) + 1e-9
    Dies.left = oracle.runs // 2
    with pytest.raises(Exception, match=r"failed on example \d+: OSError: killed"):
        js.fit(problem, x, y, **options, checkpoint=file, checkpoint_seconds=0)
    Dies.left = np.inf
    resumed = js.fit(problem, x, y, **options, checkpoint=file, resume=True)
    np.testing.assert_array_equal(resumed.weights, whole.weights)
    assert resumed.primal == whole.primal and len(resumed.trace) == len(whole.trace)


def test_refusals():
    refused("solve must be a function", js.host_oracle, 3, like)
    refused("threads must be", js.host_oracle, solve, like, threads=0)
    theta = np.zeros(ITEMS), np.int32(7)

    def of(answer, **options):
        return js.host_oracle(lambda theta: answer, like, number=number, **options)

    for answer, words, options in (
        (np.zeros(ITEMS), "integers of shape", {}),
        (np.zeros(2, int), "integers of shape", {}),
        (js.Bounded(np.zeros(ITEMS, int), 0.0), "must return no Bounded", {}),
        (np.zeros(ITEMS, int), "must return a Bounded", {"bounded": True}),
        (js.Bounded(np.zeros(ITEMS, int), np.nan), "got nan", {"bounded": True}),
    ):
        with pytest.raises(Exception, match=f"example 7: ValueError: .*{words}"):
            jax.block_until_ready(of(answer, **options)(theta))
