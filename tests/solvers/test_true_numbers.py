"""True outputs with real numbers beside them: costs that a loss reads, of each example its own."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.contract import Padding, output_of
from jaxstruct.core.padding import padded
from jaxstruct.solvers.checkpoints.run_state import load_solution, save_solution
from tests.lib.refusals import refused
from tests.truth.quadratic_program import solve_primal

N, D, K = 14, 3, 4
pytestmark = pytest.mark.usefixtures("x64")
SOFT = ("svm1", "svm2", "svm1_margin", "svm2_margin", "svm1_slack", "svm2_slack")


class Choice(NamedTuple):
    """An output in a record of its own."""

    option: object


def potentials(w, x):
    return x @ w


def score(theta, y):
    return theta[y.option]


def decode(theta):
    return Choice(jnp.argmax(theta).astype(jnp.int32))


def loss(y_true, y):
    costs = y_true.numbers["costs"]
    return costs[y.option] - costs[y_true.output.option]


def every(y_true):
    del y_true
    return Choice(jnp.arange(K, dtype=jnp.int32))


def listed(y_true):
    """All, the true one first."""
    true = output_of(y_true).option
    order = jnp.where(jnp.arange(K) <= true, jnp.arange(K) - 1, jnp.arange(K))
    return Choice(order.at[0].set(true).astype(jnp.int32))


def augmented(theta, y_true, scale):
    costs = y_true.numbers["costs"]
    return decode(theta + scale * (costs - costs[y_true.output.option]))


def best_wrong(theta, y_true):
    return decode(theta.at[y_true.output.option].set(-jnp.inf))


def contenders(theta, y_true):
    costs = y_true.numbers["costs"]
    wrong = jnp.arange(K) != y_true.output.option
    scores = jnp.where(wrong, theta, -jnp.inf)
    return js.Contenders(costs - costs[y_true.output.option], scores, ())


def output(trace, level):
    del trace
    return Choice(level.astype(jnp.int32))


WAYS = {
    "levels": js.Oracles(contenders=contenders, output=output, best_wrong=best_wrong),
    "searched": js.Oracles(loss_augmented_decode=augmented, best_wrong=best_wrong),
    "listed": js.Oracles(contenders=contenders, output=output, all_outputs=listed),
}


def problem_of(way="levels", dtype="float64"):
    model = js.Model(potentials, score, decode, loss)
    return js.make_problem(np.zeros((D, K), dtype), model, WAYS[way])


def examples(seed=0, dtype="float64"):
    random = np.random.default_rng(seed)
    x, costs = random.normal(size=(N, D)), random.uniform(0.2, 2, size=(N, K))
    best = costs.argmin(axis=1)
    return x.astype(dtype), js.Truth(Choice(best), {"costs": costs})


def optimum(formulation, C, x, y):
    costs, best = y.numbers["costs"], y.output.option
    losses = costs - costs[np.arange(N), best][:, None]
    features = np.einsum("nd,jk->njdk", x, np.eye(K)).reshape(N, K, D * K)
    return solve_primal(formulation, features, losses, best, C)


@pytest.mark.parametrize("formulation", SOFT)
def test_every_formulation_reaches_the_independent_optimum(formulation):
    x, y = examples()
    right = optimum(formulation, 20.0, x, y)
    searched = formulation in ("svm1", "svm2", "svm1_margin")
    ways = WAYS if searched else ("levels", "listed")
    for way in ways:
        solution = js.fit(problem_of(way), x, y, formulation, 20.0, tolerance=1e-7)
        assert solution.certificate.primal == pytest.approx(right.objective, rel=1e-6)
        assert solution.certificate.dual <= right.objective * (1 + 1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rules_hold_and_floats_come_in_the_dtype_of_the_run(dtype):
    x, y = examples()
    problem = problem_of("listed", dtype)
    js.check_problem(problem, x, y)
    seen = []

    def watched(y_true, y):
        seen.append(y_true.numbers["costs"].dtype)
        return loss(y_true, y)

    model = js.Model(potentials, score, decode, watched)
    problem = js.make_problem(np.zeros((D, K), dtype), model, WAYS["levels"])
    solution = js.fit(problem, x, y, C=5.0)
    assert solution.status is js.Status.CONVERGED and set(map(str, seen)) == {dtype}
    predicted = js.predict(problem, solution.weights, x)
    assert isinstance(predicted, Choice) and np.asarray(predicted.option).dtype == np.int32
    held = js.support_outputs(solution).output
    assert isinstance(held, Choice) and jax.tree.leaves(held)[0].dtype == np.int32
    assert js.memory(problem, x, y).total > 0


def test_working_sets_that_list_all_blocks_and_a_mesh_agree():
    x, y = examples()
    right = optimum("svm1_margin", 20.0, x, y).objective
    options = {"C": 20.0, "tolerance": 1e-6}
    settings = js.Settings(working_sets="enumerated")
    found = [
        js.fit(problem_of("listed"), x, y, settings=settings, **options),
        js.fit_in_blocks(problem_of(), x, y, blocks=2, **options),
        js.fit(problem_of(), x, y, mesh=jax.make_mesh((1,), ("rows",)), **options),
        js.fit(problem_of(), x, y, settings=js.Settings(variant="full"), **options),
    ]
    for solution in found:
        assert solution.certificate.primal == pytest.approx(right, rel=2e-6)


def test_a_run_goes_on_from_its_checkpoint_and_not_with_other_costs(tmp_path):
    x, y = examples()
    problem, path = problem_of(), tmp_path / "run"
    whole = js.fit(problem, x, y, C=20.0, tolerance=1e-7)
    stopped = js.fit(problem, x, y, C=20.0, tolerance=1e-7, max_passes=2, checkpoint=path)
    assert stopped.status is js.Status.PASS_LIMIT
    other = y._replace(numbers={"costs": y.numbers["costs"] * 1.5})
    again = {"C": 20.0, "tolerance": 1e-7, "checkpoint": path, "resume": True, "max_passes": 2}
    refused("outputs", js.fit, problem, x, other, **again)
    refused("start is of other costs", js.fit, problem, x, other, C=20.0, start=stopped)
    on = js.fit(problem, x, y, C=20.0, tolerance=1e-7, start=stopped)
    assert on.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-6)
    save_solution(tmp_path / "whole", whole)
    refused("pass outputs=", load_solution, tmp_path / "whole", problem)
    read = load_solution(tmp_path / "whole", problem, y)
    assert isinstance(js.support_outputs(read).output, Choice)
    Cs = (2.0, 20.0)
    for C, solution in zip(Cs, js.fit_path(problem, x, y, "svm1_margin", Cs), strict=True):
        assert solution.C == C and solution.status is js.Status.CONVERGED


def test_losses_of_a_network_read_the_numbers():
    x, y = examples()
    problem, w = problem_of("levels"), np.random.default_rng(1).normal(size=(D, K))
    costs, best = y.numbers["costs"], y.output.option
    theta, rows = x @ w, np.arange(N)
    gains = theta + costs - (theta + costs)[rows, best][:, None]
    mean = js.losses.mean_loss
    found = mean(js.losses.structured_hinge, problem, w, x, y)
    assert found == pytest.approx(gains.max(axis=1).mean(), rel=1e-6)
    for loss_of in (js.losses.perceptron, js.losses.perturbed):
        key = {"key": jax.random.key(0)} if loss_of is js.losses.perturbed else {}
        same = mean(loss_of, problem, w, x, y.output, **key)
        assert mean(loss_of, problem, w, x, y, **key) == same
    inferred = problem_of("listed")
    likely = float(jax.nn.log_softmax(theta)[rows, best].mean())
    assert mean(js.losses.log_loss, inferred, w, x, y) == pytest.approx(-likely, rel=1e-6)
    soft = mean(js.losses.smoothed_hinge, inferred, w, x, y)
    wanted = jax.nn.logsumexp(gains, axis=1).mean()
    assert soft == pytest.approx(float(wanted), rel=1e-6)
    sparse = mean(js.losses.smoothed_hinge, inferred, w, x, y, smoothing="top_k", k=K)
    assert found <= sparse <= found + 0.5


def zero_one(y_true, y):
    return y_true.option != y.option


def test_baselines_see_the_output_alone():
    x, y = examples()
    problem = problem_of("listed")
    plain = problem._replace(model=problem.model._replace(loss=jax.tree_util.Partial(zero_one)))
    for train, options in (
        (js.baselines.perceptron, {"max_epochs": 2}),
        (js.baselines.fit_random_field, {"tolerance": 1e-6}),
    ):
        found = [train(problem, x, y, **options), train(plain, x, y.output, **options)]
        assert np.array_equal(*(each.weights for each in found))


def test_what_does_not_fit_is_refused():
    x, y = examples()
    problem = problem_of()
    refused("outputs must be integers.*Truth", js.fit, problem, x, np.zeros(N))
    broken = y.numbers["costs"].copy()
    broken[3, 1] = np.nan
    refused("outputs.numbers has a NaN.*example 3", js.fit, problem, x, y._replace(numbers=broken))
    refused("leading axis", js.fit, problem, x, y._replace(numbers=broken[:5]))
    words = y._replace(numbers=np.array(["a"] * N))
    refused("outputs.numbers must hold real numbers", js.fit, problem, x, words)
    floats = y._replace(output=Choice(y.output.option + 0.5))
    refused("outputs must be integers", js.fit, problem, x, floats)


def test_ragged_outputs_are_padded_and_numbers_beside_them_too():
    lengths = np.array([2, 5, 3])
    inputs = js.ragged([np.ones((length, 2)) for length in lengths])
    labels = js.ragged([np.arange(length) for length in lengths])
    prices = js.ragged([np.full(length, 0.5) for length in lengths])
    whole = Padding(output_sizes=lambda x: js.Truth(x.shape[1], {"steps": x.shape[1], "one": 0}))
    short = Padding(output_sizes=lambda x: x.shape[1])
    both = js.Truth(labels, {"steps": prices, "one": np.arange(3.0)})
    for padding, given in ((whole, both), (short, js.Truth(labels, {"one": np.arange(3.0)}))):
        x, y = padded(padding, inputs, given)
        assert y.output.shape == x.shape[:2] and (y.output[0, 2:] == -1).all()
        assert np.array_equal(y.numbers["one"], np.arange(3.0))
    assert (
        y.output.dtype.kind == "i" and padded(whole, inputs, both)[1].numbers["steps"][1, 4] == 0.5
    )
    steps = padded(short, inputs, both)[1].numbers["steps"]  # as long as the output is
    assert steps.shape[:2] == padded(short, inputs, both)[1].output.shape and steps[1, 4] == 0.5
