"""Known potentials against an independent QP over all constraints: b - s dK stands for b."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.baselines import fit_random_field
from jaxstruct.core.transposition import linear_part
from tests.lib.refusals import refused
from tests.solvers.cases import SOFT, enumerated_problem, flat, random_case
from tests.truth.formulations import problem as canonical
from tests.truth.proven_optimum import Exact, Machine

pytestmark = pytest.mark.usefixtures("x64")
C = 10.0


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


def optimum(formulation, case, known):
    """(lower, upper) of the optimum: constraints <w, s dPsi> >= b - s dK - xi."""
    form = canonical(formulation, case.psi(), case.loss[case.y], case.y, C)
    rows = np.arange(len(case.y))
    b = form.b - form.s * (known[rows, case.y][:, None] - known)
    who, what = np.nonzero(form.wrong)
    a = (form.s[..., None] * form.dpsi)[who, what]
    cost = np.full(len(rows), Exact(C) / len(rows))
    squared = formulation.startswith("svm2")
    return Machine(a.astype(Exact), b[who, what].astype(Exact), who, cost, squared).bounds()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("formulation", SOFT)
def test_certificates_hold_the_optimum_of_the_quadratic_program(formulation, everything, dtype):
    case, known = random_case(seed=1), 2 * np.random.default_rng(5).normal(size=(12, 4))
    problem = known_problem(case, dtype, everything)
    solution = js.fit(
        problem, inputs_of(case, known), case.y, formulation, C,
        tolerance=1e-4 if dtype == "float32" else 1e-6,
    )  # fmt: skip
    low, high = optimum(formulation, case, known)
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
    solution = js.fit(problem, inputs_of(case, known), case.y, "svm1_margin", C, tolerance=1e-8)
    theta = problem.model.potentials(solution.weights, {"psi": case.psi()[0], "known": known[0]})
    np.testing.assert_allclose(theta, case.psi()[0] @ (flat(solution.weights) + v))
    margins = js.losses.mean_loss(
        js.losses.structured_hinge, problem, solution.weights, inputs_of(case, known), case.y
    )
    half = flat(solution.weights) @ flat(solution.weights) / 2
    assert half + C * margins == pytest.approx(solution.primal, rel=1e-6)


def test_a_start_of_another_c_and_parts_of_the_examples_end_at_the_same_optimum(tmp_path):
    case, known = random_case(seed=3), 2 * np.random.default_rng(6).normal(size=(12, 4))
    problem, inputs = known_problem(case), inputs_of(case, known)
    first = js.fit(problem, inputs, case.y, "svm1_slack", 0.1)
    warm = js.fit(problem, inputs, case.y, "svm1_slack", C, start=first, tolerance=1e-6)
    apart = js.fit_in_blocks(
        problem, inputs, case.y, "svm1_slack", C, blocks=3, folder=tmp_path, tolerance=1e-6
    )
    low, high = optimum("svm1_slack", case, known)
    for solution in (warm, apart):
        assert solution.status is js.Status.CONVERGED
        assert solution.dual <= high * (1 + 1e-9) and low * (1 - 1e-9) <= solution.primal
    proven = js.certify(problem, warm.weights, inputs, case.y, "svm1_slack", C)
    assert proven.primal == pytest.approx(warm.primal, rel=1e-9)


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
    report = js.check_problem(known_problem(case, everything=True), inputs_of(case, known), case.y)
    assert not report.faults
    again = js.make_problem(*known_problem(case)[:3])  # k is not added twice
    assert linear_part(again.model.potentials).func is not again.model.potentials.func
    one = {"psi": case.psi()[0], "known": np.ones(4)}
    np.testing.assert_array_equal(again.model.potentials(again.initial_weights, one), np.ones(4))
