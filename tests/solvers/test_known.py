"""Known potentials, and true outputs with real numbers beside them, against an independent QP."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

import jaxstruct as js
from jaxstruct.baselines import fit_random_field
from jaxstruct.core.contract import Padding, output_of
from jaxstruct.core.padding import padded
from jaxstruct.core.transposition import linear_part
from jaxstruct.solvers.checkpoints.run_state import load_solution, save_solution
from tests.lib.refusals import refused
from tests.solvers.cases import GROWN, SOFT, SUBSPACE, enumerated_problem, flat, random_case
from tests.truth.formulations import problem as canonical
from tests.truth.proven_optimum import Exact, Machine
from tests.truth.quadratic_program import solve_primal

pytestmark = pytest.mark.usefixtures("x64")
C = 10.0
FINE = {"settings": GROWN, "tolerance": 1e-6}
ASCENT = js.Settings(variant="subspace", checked_examples=0)
UNCHECKED = js.Settings(capacity=4, checked_examples=0)


def _known(x):
    return x["known"]


def _all(y):
    return jnp.concatenate([y[None], (y + 1 + jnp.arange(3)) % 4]).astype(jnp.int32)


def known_problem(case, dtype="float64", everything=False):
    """The problem of a user whose inputs carry k(x) [4], K(x, y) = k(x)[y]."""
    base, _ = enumerated_problem(case, dtype)
    oracles = base.oracles._replace(all_outputs=_all if everything else None)
    return js.make_problem(base.initial_weights, base.model._replace(known=_known), oracles)


def inputs_of(case, known):
    return {"psi": case.psi(), "known": known}


def known_optimum(formulation, case, known):
    """(lower, upper) of the known_optimum: constraints <w, s dPsi> >= b - s dK - xi."""
    form = canonical(formulation, case.psi(), case.loss[case.y], case.y, C)
    rows = np.arange(len(case.y))
    b = form.b - form.s * (known[rows, case.y][:, None] - known)
    who, what = np.nonzero(form.wrong)
    a = (form.s[..., None] * form.dpsi)[who, what]
    cost = np.full(len(rows), Exact(C) / len(rows))
    squared = formulation.startswith("svm2")
    return Machine(a.astype(Exact), b[who, what].astype(Exact), who, cost, squared).bounds()


@pytest.mark.parametrize("formulation", SOFT)
def test_certificates_hold_the_optimum_of_the_quadratic_program(formulation):
    everything = SOFT.index(formulation) % 2 == 1
    dtype = "float32" if everything else "float64"
    case, known = random_case(seed=1), 2 * np.random.default_rng(5).normal(size=(12, 4))
    problem = known_problem(case, dtype, everything)
    options = {"settings": ASCENT, "tolerance": 1e-4} if everything else FINE
    solution = js.fit(problem, inputs_of(case, known), case.y, formulation, C, **options)
    low, high = known_optimum(formulation, case, known)
    rounding = solution.certificate.rounding + 1e-12 * high
    assert solution.status is js.Status.CONVERGED
    assert solution.dual - rounding <= high and low <= solution.primal + rounding
    scores = case.psi() @ flat(solution.weights) + known
    found = js.predict(problem, solution, inputs_of(case, known))
    np.testing.assert_array_equal(found, np.argmax(scores, axis=1))


def test_frozen_weights_may_be_known_potentials():
    """F(w) of frozen v and free u: known <v, .> gives the margins of (u, v), priced by u alone."""
    case, v = random_case(seed=2), np.random.default_rng(0).normal(size=20)
    problem, known = known_problem(case), case.psi() @ v
    options = FINE | {"tolerance": 1e-8}
    solution = js.fit(problem, inputs_of(case, known), case.y, "svm1_margin", C, **options)
    potentials = jax.jit(problem.model.potentials)
    theta = potentials(solution.weights, {"psi": case.psi()[0], "known": known[0]})
    np.testing.assert_allclose(theta, case.psi()[0] @ (flat(solution.weights) + v))
    mean = jax.jit(partial(js.losses.mean_loss, js.losses.structured_hinge, problem))
    margins = mean(solution.weights, inputs_of(case, known), case.y)
    half = flat(solution.weights) @ flat(solution.weights) / 2
    assert half + C * float(margins) == pytest.approx(solution.primal, rel=1e-6)


@pytest.mark.thorough
def test_a_start_of_another_c_and_parts_of_the_examples_end_at_the_same_optimum(tmp_path):
    for n, blocks in ((12, 1), (36, 3)):  # of one shape
        case, known = random_case(3, n=n), 2 * np.random.default_rng(6).normal(size=(n, 4))
        problem, inputs = known_problem(case), inputs_of(case, known)
        given = problem, inputs, case.y, "svm1_slack"
        if blocks == 1:
            first = js.fit(*given, 0.1, settings=GROWN)
            solution = js.fit(*given, C, start=first, **FINE)
            proven = js.certify(problem, solution.weights, *given[1:], C, settings=GROWN)
            assert proven.primal == pytest.approx(solution.primal, rel=1e-9)
        else:
            options = FINE | {"settings": SUBSPACE, "folder": tmp_path}
            solution = js.fit_in_blocks(*given, C, blocks=blocks, **options)
        low, high = known_optimum("svm1_slack", case, known)
        assert solution.status is js.Status.CONVERGED
        assert solution.dual <= high * (1 + 1e-9) and low * (1 - 1e-9) <= solution.primal


def test_a_random_field_counts_them():
    case, known = random_case(seed=3), np.random.default_rng(6).normal(size=(12, 4))
    problem, inputs = known_problem(case, everything=True), inputs_of(case, known)
    field = fit_random_field(problem, inputs, case.y, C=C, tolerance=1e-6)
    w = flat(field.weights)
    scores = case.psi() @ w + known
    logs = np.log(np.sum(np.exp(scores), axis=1)) - scores[np.arange(12), case.y]
    assert field.objective == pytest.approx(w @ w / 2 + C * np.mean(logs), rel=1e-9)


def test_refusals():
    case = random_case(seed=1, separable=True)
    known, inputs = np.zeros((12, 4)), inputs_of(case, np.zeros((12, 4)))
    refused("hard margin by a multiple", js.fit, known_problem(case), inputs, case.y, "svm0")
    inputs = inputs_of(case, np.where(np.arange(4) == 2, np.inf, known))
    refused("a NaN or an infinity", js.fit, known_problem(case), inputs, case.y)
    bad = known_problem(case)
    bad = js.make_problem(bad.initial_weights, bad.model._replace(known=lambda x: 0.0), bad.oracles)
    refused("model.known returns", js.fit, bad, inputs_of(case, known), case.y)
    given = known_problem(case, everything=True), inputs_of(case, known), case.y
    assert not js.check_problem(*given, examples=4, draws=6).faults
    again = js.make_problem(*known_problem(case)[:3])  # k is not added twice
    assert linear_part(again.model.potentials).func is not again.model.potentials.func
    one = {"psi": case.psi()[0], "known": np.ones(4)}
    np.testing.assert_array_equal(again.model.potentials(again.initial_weights, one), np.ones(4))


N, D, K = 14, 3, 4


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


def examples(n=N, dtype="float64"):
    random = np.random.default_rng(0)
    x, costs = random.normal(size=(n, D)), random.uniform(0.2, 2, size=(n, K))
    best = costs.argmin(axis=1)
    return x.astype(dtype), js.Truth(Choice(best), {"costs": costs})


def optimum(formulation, C, x, y):
    costs, best = y.numbers["costs"], y.output.option
    losses = costs - costs[np.arange(len(x)), best][:, None]
    features = np.einsum("nd,jk->njdk", x, np.eye(K)).reshape(len(x), K, D * K)
    return solve_primal(formulation, features, losses, best, C)


@pytest.mark.parametrize("formulation", ["svm1_margin", "svm1_slack", "svm2_slack"])
def test_every_formulation_reaches_the_independent_optimum(formulation):
    x, y = examples()
    right = optimum(formulation, 20.0, x, y)
    for way in WAYS if formulation == "svm1_margin" else ("levels",):
        settings = UNCHECKED._replace(checked_examples=None if way == "searched" else 0)
        options = {"tolerance": 1e-7, "settings": settings}
        solution = js.fit(problem_of(way), x, y, formulation, 20.0, **options)
        assert solution.certificate.primal == pytest.approx(right.objective, rel=1e-6)
        assert solution.certificate.dual <= right.objective * (1 + 1e-9)


def test_rules_hold_and_floats_come_in_the_dtype_of_the_run():
    (x, y), dtype = examples(), "float32"
    seen = []

    def watched(y_true, y):
        seen.append(y_true.numbers["costs"].dtype)
        return loss(y_true, y)

    model = js.Model(potentials, score, decode, watched)
    listed, problem = (
        js.make_problem(np.zeros((D, K), dtype), model, WAYS[way]) for way in ("listed", "levels")
    )
    js.check_problem(listed, x, y, examples=4, draws=6)
    solution = js.fit(problem, x, y, C=5.0, settings=UNCHECKED)
    assert solution.status is js.Status.CONVERGED and set(map(str, seen)) == {dtype}
    predicted = js.predict(problem, solution.weights, x)
    assert isinstance(predicted, Choice) and np.asarray(predicted.option).dtype == np.int32
    held = js.support_outputs(solution).output
    assert isinstance(held, Choice) and jax.tree.leaves(held)[0].dtype == np.int32
    assert js.memory(problem, x, y).total > 0


@pytest.mark.thorough
def test_working_sets_that_list_all_blocks_and_a_mesh_agree():
    """Two blocks of 28 examples have the shape of 14 at once."""
    options, mesh = {"C": 20.0, "tolerance": 1e-6}, jax.make_mesh((1,), ("rows",))
    enumerated = UNCHECKED._replace(working_sets="enumerated")
    x, y = examples()
    found = [
        js.fit(problem_of("listed"), x, y, settings=enumerated, **options),
        js.fit(problem_of(), x, y, mesh=mesh, settings=UNCHECKED, **options),
        js.fit(problem_of(), x, y, settings=UNCHECKED._replace(variant="full"), **options),
    ]
    right = optimum("svm1_margin", 20.0, x, y).objective
    for solution in found:
        assert solution.certificate.primal == pytest.approx(right, rel=2e-6)
    x, y = examples(2 * N)
    parts = js.fit_in_blocks(problem_of(), x, y, blocks=2, settings=UNCHECKED, **options)
    right = optimum("svm1_margin", 20.0, x, y).objective
    assert parts.certificate.primal == pytest.approx(right, rel=2e-6)


def test_a_run_goes_on_from_its_checkpoint_and_not_with_other_costs(tmp_path):
    x, y = examples()
    problem, path = problem_of(), tmp_path / "run"
    given = {"C": 20.0, "tolerance": 1e-7, "settings": UNCHECKED}
    whole = js.fit(problem, x, y, **given)
    stopped = js.fit(problem, x, y, **given, max_passes=2, checkpoint=path)
    assert stopped.status is js.Status.PASS_LIMIT
    other = y._replace(numbers={"costs": y.numbers["costs"] * 1.5})
    again = given | {"checkpoint": path, "resume": True, "max_passes": 2}
    refused("outputs", js.fit, problem, x, other, **again)
    refused("start is of other costs", js.fit, problem, x, other, **given, start=stopped)
    on = js.fit(problem, x, y, **given, start=stopped)
    assert on.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-6)
    save_solution(tmp_path / "whole", whole)
    refused("pass outputs=", load_solution, tmp_path / "whole", problem)
    read = load_solution(tmp_path / "whole", problem, y)
    assert isinstance(js.support_outputs(read).output, Choice)
    Cs = (2.0, 20.0)
    path = js.fit_path(problem, x, y, "svm1_margin", Cs, settings=UNCHECKED)
    for C, solution in zip(Cs, path, strict=True):
        assert solution.C == C and solution.status is js.Status.CONVERGED


def test_losses_of_a_network_read_the_numbers():
    (x, y), w, rows = examples(), np.random.default_rng(1).normal(size=(D, K)), np.arange(N)
    costs, best, theta = y.numbers["costs"], y.output.option, x @ w
    gains = theta + costs - (theta + costs)[rows, best][:, None]

    @jax.jit
    def values(w, x, y):
        def mean(name, y=y, way="levels", **more):
            return js.losses.mean_loss(getattr(js.losses, name), problem_of(way), w, x, y, **more)

        of, key = partial(mean, way="listed"), jax.random.key(0)
        pairs = [[mean("perceptron", y), mean("perturbed", y, key=key)] for y in (y, y.output)]
        exact = [mean("structured_hinge"), of("log_loss"), of("smoothed_hinge")]
        return pairs, exact, of("smoothed_hinge", smoothing="top_k", k=K)

    (known, plain), exact, sparse = jax.device_get(values(w, x, y))
    likely = log_softmax(theta, axis=1)[rows, best].mean()
    wanted = [gains.max(axis=1).mean(), -likely, logsumexp(gains, axis=1).mean()]
    assert known == plain and exact == pytest.approx(wanted, rel=1e-6)
    assert exact[0] <= sparse <= exact[0] + 0.5


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
