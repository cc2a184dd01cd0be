"""What runs claim, and what may be claimed of weights, against a plain evaluation of P and D."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import jaxstruct as js
from jaxstruct import Settings, Status, certify, fit, joint_feature, ragged
from jaxstruct.chains import chain, chain_inputs
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass
from jaxstruct.solvers.loop.host_loop import LEFT
from jaxstruct.solvers.objective.certificate import ExampleTerms
from jaxstruct.solvers.objective.formulations import FORMULATIONS, penalty_numbers
from jaxstruct.solvers.objective.scaling import PASSES, ray_of
from jaxstruct.solvers.out_of_core.fit_in_blocks import fit_in_blocks
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.solvers.cases import (
    GROWN,
    case_for,
    dense_beta,
    enumerated_problem,
    flat,
    of_slack,
    random_case,
)
from tests.solvers.certificate_runs import run
from tests.solvers.test_planted_mistakes import UNCHECKED, X, Y, structure
from tests.solvers.test_size_classes import OUTPUT_TYPES
from tests.truth.quadratic_program import dual_value, primal_value, problem, slacks

N, K = 14, 4
"""Examples for sixteen rows, with groups and one by one: all variants share their programs."""
EVERY = Settings(variant="subspace", working_sets="grown", certify_every=1, capacity=4)
VARIANTS = {
    "subspace": EVERY,
    "full": GROWN,
    "growing": EVERY._replace(capacity=3, max_capacity=4),
    "enumerated": Settings(variant="subspace", working_sets="enumerated"),
    "evicting": EVERY._replace(capacity=3, max_capacity=3),
    "full evicting": GROWN._replace(capacity=3, max_capacity=3),
    "narrow": Settings(variant="subspace", working_sets="enumerated", active=3),
}


EACH = [
    *zip(FORMULATIONS, VARIANTS, strict=True),
    *(("svm1_slack", "evicting"), ("svm0", "full"), ("svm2_margin", "narrow")),
]
"""Every formulation; every variant; some with a hard margin or ridges."""


@pytest.mark.parametrize(("formulation", "variant"), thorough_after(7, dict.fromkeys(EACH)))
def test_every_round_states_the_truth(x64, formulation, variant):
    """Primal, dual, slack and violation of each round, from its weights and multipliers alone."""
    case = case_for(formulation, seed=1, n=N)
    weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], len(case.y))
    C, seen = 20.0, []
    optimum = case.optimum(formulation, C, weights)
    given = *case.listed(), C, weights
    data = problem(formulation, *given)

    def check(progress):
        certificate, state = progress.info.certificate, progress.state
        w = flat(state.weights)
        beta = dense_beta(state.sets, len(case.y), 4)
        dual = dual_value(formulation, beta, *given)
        assert dual.feasible, dual.violation
        assert certificate.dual == pytest.approx(dual.value, rel=1e-10, abs=1e-12)
        assert certificate.dual <= optimum * (1 + 1e-10)
        if np.isfinite(certificate.primal):
            primal = primal_value(formulation, certificate.scale * w, *given)
            assert certificate.primal == pytest.approx(primal, rel=1e-10)
        assert certificate.primal >= optimum * (1 - 1e-9)
        used = weights > 0
        xi = slacks(data, (1 if formulation == "svm0" else certificate.scale) * w)[used]
        np.testing.assert_allclose(progress.info.slack[: len(used)][used], xi, atol=1e-10)
        assert certificate.mean_slack == pytest.approx(xi.mean(), abs=1e-12)
        assert progress.primal >= progress.dual - 1e-9 * abs(progress.dual)
        seen.append(certificate)

    options = {"settings": VARIANTS[variant], "example_weights": weights, "callback": check}
    solution = case.fit(formulation, C, tolerance=1e-6, max_passes=60, **options)
    assert len(seen) == solution.statistics.passes == len(solution.statistics.history.primal)
    assert solution.primal == min(one.primal for one in seen)
    assert solution.dual == max(one.dual for one in seen)
    assert solution.gap == solution.primal - solution.dual
    exact = primal_value(formulation, flat(solution.weights), *given)
    assert exact == pytest.approx(solution.primal, rel=1e-9)


def linear(case):
    return case.problem(), case.x


def kernel(case):
    problem = kernel_multiclass(
        len(case.y), 4, output_features=case.output_features, loss=case.loss, dtype="float64"
    )
    return problem, kernel_inputs(case.x @ case.x.T)


@pytest.mark.parametrize("make", [linear, enumerated_problem])
@pytest.mark.parametrize("output_features", [0, 3])
def test_joint_feature_is_the_transpose_of_scoring(x64, make, output_features):
    """<w, Psi(x, y)> = F(x, y; w) for random w, and Psi = Phi (x) Lambda."""
    case = random_case(3, output_features=output_features)
    problem, inputs = make(case)
    random, every = np.random.default_rng(4), np.arange(4, dtype=np.int32)
    w = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), problem.initial_weights)

    def of(x, y):
        return joint_feature(problem, x, y), problem.model.score(problem.model.potentials(w, x), y)

    found = jax.jit(jax.vmap(jax.vmap(of, (None, 0)), (0, None)))(inputs, every)
    psi, scores = (np.concatenate([np.reshape(leaf, (len(case.y), 4, -1)) for leaf in leaves], -1)
                   for leaves in map(jax.tree.leaves, found))  # fmt: skip
    np.testing.assert_allclose(psi, case.psi(), atol=1e-13)
    np.testing.assert_allclose(psi @ flat(w), scores[..., 0], atol=1e-12)


@pytest.mark.parametrize("output_features", [0, 3])
def test_joint_features_of_a_kernel_have_the_joint_kernel_as_inner_product(x64, output_features):
    """F(x_j, z; Psi(x_i, y)) = K(x_i, x_j) L(y, z) (4.12)."""
    case = random_case(3, output_features=output_features)
    problem, inputs = kernel(case)
    rows = np.eye(4) if case.output_features is None else case.output_features
    joint = np.einsum("ij,yz->iyjz", case.x @ case.x.T, rows @ rows.T)

    def scores(x, y):
        return jax.vmap(problem.model.potentials, (None, 0))(joint_feature(problem, x, y), inputs)

    rows, labels = np.array([0, 1, 11]), np.array([0, 3, 2], np.int32)
    found = jax.jit(jax.vmap(scores))(jax.tree.map(lambda leaf: leaf[rows], inputs), labels)
    np.testing.assert_allclose(found, joint[rows, labels], atol=1e-12)


FALSE_ONCE = [
    ("weston_watkins", 66), ("joint", 23), ("field", 66), ("fit", 10),
    ("weston_watkins", 697), ("field", 256),
]  # fmt: skip
"""Runs that ended CONVERGED beside the optimum, or with a primal below that of their weights."""


@pytest.mark.parametrize(("solver", "number"), thorough_after(4, FALSE_ONCE))
def test_converged_intervals_hold_the_optimum(solver, number):
    _, verdict = run(1, number, solver)
    false = verdict.outside or verdict.above or not verdict.decided
    assert verdict.status != "CONVERGED" or not false


SWEPT = Settings(variant="subspace", working_sets="grown", capacity=4, cached_sweeps=1)
SELDOM = SWEPT._replace(certify_every=1000)


def watched(case, formulation="svm1_margin", C=20.0, **options):
    """(solution, what the callback saw)."""
    seen = []
    options = {"tolerance": 1e-6, "settings": SWEPT, "max_passes": 60} | options
    solution = case.fit(formulation, C, callback=seen.append, **options)
    return solution, seen


def values(case, formulation, C, state, scale=1.0):
    """(P, D) of a state by the slow truth; D says that the multipliers are feasible."""
    of_case = case.psi(), case.loss[case.y], case.y, C
    dual = dual_value(formulation, dense_beta(state.sets, len(case.y), K), *of_case)
    assert dual.feasible, dual.violation
    return primal_value(formulation, scale * flat(state.weights), *of_case), dual.value


@pytest.mark.parametrize("formulation", ["svm1_margin", "svm2_slack", "svm0"])
def test_rounds_without_a_certificate_claim_nothing(x64, formulation):
    """Best primal and dual stay as they were, although the dual variables go on rising."""
    case, every = random_case(1, n=N, separable=formulation == "svm0"), 3
    settings = SWEPT._replace(certify_every=every)
    solution, seen = watched(case, formulation, settings=settings, tolerance=1e-9, max_passes=11)
    primal, dual, real, last = math.inf, -math.inf, 0.0, None
    for passed in seen:
        info = passed.info
        scale = 1.0 if info.certificate is None else info.certificate.scale
        exact, now = values(case, formulation, 20.0, passed.state, scale)
        assert now >= real - 1e-10 * abs(real)
        assert passed.passes % every == 0 or info.certificate is None or passed is seen[-1]
        if info.certificate is None:
            assert info.slack is None and info.estimate is not None
            assert (passed.primal, passed.dual) == (primal, dual)
        else:
            last = info
            assert info.estimate is info.certificate and info.slack is not None
            assert info.certificate.dual == pytest.approx(now, rel=1e-10)
            if math.isfinite(info.certificate.primal) and (formulation != "svm0" or scale == 1):
                assert info.certificate.primal == pytest.approx(exact, rel=1e-10)
        primal, dual, real = passed.primal, passed.dual, now
    rounds = [passed.info.certificate is not None for passed in seen]
    assert rounds == [n % every == 0 or n == 11 for n in range(1, 12)]
    assert solution.certificate == last.certificate
    np.testing.assert_array_equal(solution.slack, last.slack[:N])


@pytest.mark.parametrize("formulation", ["svm1_margin", "svm2_slack", "svm0"])
def test_an_estimate_that_is_small_enough_is_proved_at_once(x64, formulation):
    """Without a turn of its own, a certificate comes where the estimate is within the goal."""
    case = random_case(2, n=N, separable=formulation == "svm0")
    often, _ = watched(
        case, formulation, settings=SWEPT._replace(certify_every=1), tolerance=1e-5, max_passes=900
    )
    seldom, seen = watched(case, formulation, settings=SELDOM, tolerance=1e-5, max_passes=900)
    assert often.status == seldom.status == Status.CONVERGED
    optimum = case.optimum(formulation, 20.0)
    assert seldom.dual <= optimum * (1 + 1e-9) and seldom.primal >= optimum * (1 - 1e-9)
    assert seldom.statistics.passes < 2 * often.statistics.passes + 10
    proved = [p for p in seen if p.info.certificate is not None]
    assert 1 <= len(proved) < len(seen) / 2
    for passed in proved:
        assert passed.primal < math.inf


def test_only_examples_with_a_weight_are_counted_as_oracle_calls(x64):
    """Fourteen examples in sixteen rows, four of them of weight 0: ten calls a pass."""
    case = random_case(3, n=N)
    weights = np.where(np.arange(N) % 4 == 0, 0.0, 1.0)
    for given, n in ((None, N), (weights, 10)):
        solution, seen = watched(
            case, settings=SWEPT._replace(certify_every=3), example_weights=given, max_passes=7
        )
        calls = [p.info.oracle_calls for p in seen]
        assert calls == [2 * n if p.info.certificate else n for p in seen] and n in calls
        assert solution.statistics.oracle_calls == sum(calls)
    solution, seen = watched(case, settings=GROWN, example_weights=weights, max_passes=4)
    calls = [p.info.oracle_calls for p in seen]  # the last with a search among multiples of w
    assert calls[:3] == [10] * 3 and calls[3] in range(10, 10 * (1 + PASSES) + 1, 10)
    assert solution.statistics.oracle_calls == sum(calls)


@pytest.mark.parametrize("stop_at", [1, 4])
def test_what_a_callback_stops_is_certified(x64, stop_at):
    """A round without a certificate gets one when it is the last; w stays as it was."""
    case, seen = random_case(1, n=N), []

    def stop(passed):
        seen.append(passed)
        return passed.passes == stop_at

    solution = case.fit("svm1_margin", 20.0, settings=SELDOM, tolerance=1e-9, callback=stop)
    assert solution.status == Status.STOPPED and len(seen) == stop_at
    assert all(passed.info.certificate is None for passed in seen)
    primal, dual = values(case, "svm1_margin", 20.0, seen[-1].state)
    assert solution.primal == solution.certificate.primal == pytest.approx(primal, rel=1e-10)
    assert solution.dual == solution.certificate.dual == pytest.approx(dual, rel=1e-10)
    np.testing.assert_array_equal(flat(solution.weights), of_slack(solution))
    xi = slacks(
        problem("svm1_margin", case.psi(), case.loss[case.y], case.y, 20.0), flat(solution.weights)
    )
    np.testing.assert_allclose(solution.slack, xi, atol=1e-10)
    calls = sum(passed.info.oracle_calls for passed in seen)
    numbers, sets = solution.statistics, solution.state.sets
    assert numbers.oracle_calls == calls + N and numbers.seconds["certify"] > 0
    assert numbers.planes_added - numbers.planes_evicted == numbers.planes_kept
    assert numbers.planes_kept == np.asarray(sets.occupied)[:N, 1:].sum()
    assert numbers.planes_added >= sum(passed.info.planes_added for passed in seen)


C, TOLERANCE = 20.0, 1e-3
WIDE = Settings(working_sets="grown", capacity=4)


def weights_of(case, w):
    """The pytree of a flat vector."""
    return ravel_pytree(case.problem().initial_weights)[1](w)


OF_WEIGHTS = [*((Settings(), name) for name in FORMULATIONS), (WIDE, "svm0"), (WIDE, "svm2_slack")]


@pytest.mark.parametrize(("settings", "formulation"), OF_WEIGHTS)
def test_against_a_quadratic_program(x64, formulation, settings):
    case = case_for(formulation, n=N)
    weights = None if formulation == "svm0" else np.linspace(0, 2, len(case.y))  # one is left out
    truth, of_case = case.truth(formulation, C, weights), (case.psi(), case.loss[case.y], case.y)
    data = problem(formulation, *of_case, C, weights)
    shift = np.random.default_rng(0).normal(size=len(truth.w)) * np.linalg.norm(truth.w)
    for part in (0.0, 1e-3, 0.1, 3.0):
        w = truth.w + part * shift
        found = certify(
            case.problem(), weights_of(case, w), case.x, case.y, formulation, C,
            tolerance=TOLERANCE, example_weights=weights, settings=settings,
        )  # fmt: skip
        scale = found.certificate.scale
        primal = primal_value(formulation, scale * w, *of_case, C, weights)
        if formulation == "svm0" and not np.isfinite(found.primal):
            margins = np.einsum("iyd,d->iy", data.dpsi, w)[data.wrong]
            assert part >= 0.1 and margins.min() <= 0
        else:
            assert found.primal == pytest.approx(primal, rel=1e-10)
        if formulation != "svm0":
            np.testing.assert_allclose(found.slack[1:], slacks(data, w)[1:], atol=1e-8)
        optimum, within = truth.objective, found.gap <= TOLERANCE * found.primal < np.inf
        assert found.dual <= optimum * (1 + 1e-9) <= found.attained * (1 + 2e-9)
        assert found.dual >= optimum * (1 - TOLERANCE) and found.attained <= found.primal
        assert (found.status is Status.CONVERGED) == within
        assert found.status in (Status.CONVERGED, Status.NOT_OPTIMAL)
        assert found.gap >= found.primal - optimum * (1 + 1e-9)
        if found.primal <= optimum * (1 + TOLERANCE / 2):
            assert within
        if found.primal >= optimum * (1 + 2 * TOLERANCE):
            assert found.status is Status.NOT_OPTIMAL and "NOT_OPTIMAL" in str(found)
        assert part or within


def test_a_solution_of_fit_in_buckets_has_the_primal_that_fit_says():
    machine, *examples = OUTPUT_TYPES["chains"](0, 12, 8)
    given = *examples, "svm1_margin", 1.0
    solution = fit(machine, *given)
    found = certify(machine, solution.weights, *given)
    assert found.status is Status.CONVERGED
    assert abs(found.primal - solution.primal) <= found.certificate.rounding
    np.testing.assert_allclose(found.slack, solution.slack, atol=1e-4)


def test_a_wrong_oracle_proves_nothing():
    """It finds too little at w: P would be too small."""
    truth = fit(structure(), X, Y, "svm1_margin", C, settings=UNCHECKED)
    for name, code in (("contenders", 1), ("contenders", 5), ("loss", 4)):
        wrong = structure(name, code)
        found = certify(wrong, truth.weights, X, Y, "svm1_margin", C, settings=UNCHECKED)
        assert found.status is Status.WRONG_ORACLE


def test_what_cannot_be_certified():
    machine, zero = structure(), structure().initial_weights
    for weights, change, match in (
        (zero[:2], {}, "weights must be .* as problem.initial_weights"),
        (zero, dict(tolerance=None), "tolerance must be a number greater than 0, got None"),
        (zero, dict(C=-1.0), "C must be"),
        (zero, dict(formulation="svm3"), "formulation is 'svm3'"),
    ):
        refused(match, certify, machine, weights, X, Y, **change)
    gram = (X @ X.T).astype(np.float32)
    kernel = kernel_multiclass(len(X), 4)
    with refused("no coordinates"):
        certify(kernel, kernel.initial_weights, js.multiclass.kernel_inputs(gram), Y)
    lost = certify(machine, zero * np.nan, X, Y, settings=UNCHECKED, max_passes=3)
    assert lost.status is Status.NOT_FINITE
    limited = certify(machine, zero, X, Y, "svm1_margin", C, settings=UNCHECKED, max_passes=1)
    assert limited.status in (Status.PASS_LIMIT, Status.NOT_OPTIMAL) and limited.gap > 0
    assert jax.tree.leaves(limited.slack)[0].shape == Y.shape


SELDOM_PROVED = SWEPT._replace(certify_every=3)


def terms_at(c, bounds, margins, product):
    """What a pass at c w says of examples whose outputs have these b and m [n, k]."""
    values = bounds - c * margins
    best = np.argmax(values, axis=1)[:, None]
    value, bound = (np.take_along_axis(each, best, axis=1)[:, 0] for each in (values, bounds))
    rest = np.zeros((4, len(value)))
    return ExampleTerms(
        value, value, np.maximum(value, 0), rest[0], rest[1], product, rest[2], rest[3], rest[0],
        bound_found=bound,
    )  # fmt: skip


@pytest.mark.parametrize("formulation", ["svm1_margin", "svm2_margin"])
def test_the_model_ends_at_the_least_multiple(formulation):
    """Lines of a few passes against P(c w) on a fine grid; an example of weight 0 says nothing."""
    random, form = np.random.default_rng(3), FORMULATIONS[formulation]
    bounds, margins = random.random((30, 6)), random.normal(0.7, 0.5, (30, 6))
    bounds[:, 0] = margins[:, 0] = 0
    weights = np.arange(30) % 5 > 0.0
    numbers = penalty_numbers(form, 40.0, weights.astype(float), 30)
    squares = random.random(30) / 10

    def primal(c):
        slack = (bounds - c * margins).max(axis=1)
        cost = numbers.cap * slack if form.penalty == 1 else slack**2 * 40.0 / 60
        return c**2 * squares.sum() / 2 + cost[weights].sum()

    grid = np.linspace(0.5, 2, 15001)
    least = min(map(primal, grid))
    ray = ray_of(form, numbers, terms_at(1.0, bounds, margins, squares))
    assert ray is not None
    lows = []
    for _ in range(8):
        c, low = ray.lowest()
        assert low <= least * (1 + 1e-9)
        lows.append(low)
        ray = ray.met(c, terms_at(c, bounds, margins, squares))
    assert (np.diff(lows) >= -1e-9).all() and lows[0] < least * (1 - 1e-6)
    assert 0.6 < c < 1.9
    assert primal(c) == pytest.approx(least, rel=1e-6)


def test_a_multiple_of_w_ends_the_run(x64):
    """Its P, slack and certificate are those of the weights that are returned."""
    case, formulation, seen = random_case(7, n=N), "svm2_slack", []
    given = case.problem(), case.x, case.y, formulation, 100.0
    options = {"settings": SELDOM_PROVED, "tolerance": 1e-2, "max_passes": 300}
    found = fit(*given, callback=seen.append, **options)
    of_case = case.psi(), case.loss[case.y], case.y, 100.0
    w, last = flat(found.weights), flat(found.state.weights)
    c = w @ last / (last @ last)
    assert found.status is Status.CONVERGED and c > 1.001
    np.testing.assert_allclose(w, c * last, rtol=1e-12)
    assert found.certificate.primal == found.primal
    assert found.primal == pytest.approx(primal_value(formulation, w, *of_case), rel=1e-10)
    assert found.primal < primal_value(formulation, last, *of_case) - 10 * found.gap / 100
    optimum = case.truth(formulation, 100.0).objective
    assert found.dual <= optimum * (1 + 1e-9) <= found.primal * (1 + 1e-8)
    xi = slacks(problem(formulation, *of_case), w)
    np.testing.assert_allclose(found.slack, xi, atol=1e-9)
    assert found.certificate.mean_slack == pytest.approx(xi.mean())
    calls = [passed.info.oracle_calls for passed in seen]
    assert sum(calls) == found.statistics.oracle_calls and max(calls) <= (2 + PASSES) * N
    assert seen[-1].info.certificate == found.certificate
    assert found.certificate.scale == pytest.approx(c)


def test_a_run_that_ends_unproven_has_the_best_multiple_of_its_w(x64):
    case, options = random_case(7, n=N), {"settings": SELDOM_PROVED, "max_passes": 12}
    found = fit(case.problem(), case.x, case.y, "svm2_margin", 100.0, **options)
    of_case = case.psi(), case.loss[case.y], case.y, 100.0
    w, last = flat(found.weights), flat(found.state.weights)
    assert found.status is Status.PASS_LIMIT and found.certificate.scale != 1
    np.testing.assert_allclose(w, found.certificate.scale * last, rtol=1e-12)
    assert found.primal == pytest.approx(primal_value("svm2_margin", w, *of_case), rel=1e-10)
    assert found.gap <= (primal_value("svm2_margin", last, *of_case) - found.dual) * LEFT


@pytest.mark.thorough
def test_blocks_search_too(x64):
    case = random_case(3, n=2 * N)
    options = {"settings": SELDOM_PROVED, "tolerance": 1e-2, "max_passes": 300, "blocks": 2}
    seen = []
    found = fit_in_blocks(
        case.problem(), case.x, case.y, "svm1", C, callback=seen.append, **options
    )
    assert found.status is Status.CONVERGED
    exact = primal_value("svm1", flat(found.weights), *case.listed(), C)
    assert found.primal == pytest.approx(exact, rel=1e-10)
    assert found.dual <= case.optimum("svm1", C) * (1 + 1e-9)
    assert any(passed.info.oracle_calls > 2 * len(case.y) for passed in seen)


@pytest.mark.thorough
def test_a_row_of_many_planes_is_swept_whole(x64):
    """One sequence of 10 tokens, 4 labels, C = 100: with 8 slots at a time 150 rounds left .016."""
    random = np.random.default_rng(0)
    x, y = ragged([np.eye(10)]), ragged([random.integers(0, 4, 10).astype(np.int32)])
    settings = Settings(variant="subspace", working_sets="grown", capacity=64, active=8)
    given = chain(10, 4, dtype="float64"), chain_inputs(x), y
    found = fit(*given, C=100.0, settings=settings, max_passes=60)
    assert found.status is Status.CONVERGED and found.statistics.support_planes > 8
