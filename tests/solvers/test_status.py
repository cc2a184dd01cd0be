"""How runs end, and that they say so."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jaxstruct import Status
from jaxstruct.core.status import MESSAGES
from jaxstruct.solvers.loop.host_loop import STILL_ROUNDS, Best, Round, Rules, improve, status_of
from jaxstruct.solvers.loop.trace import Entry
from jaxstruct.solvers.objective.certificate import Certificate
from tests.solvers.cases import GROWN, SUBSPACE, WAYS, of_slack, random_case
from tests.truth.quadratic_program import problem as enumerated
from tests.truth.quadratic_program import slacks

N, ONE_BY_ONE = 14, SUBSPACE._replace(group=1)
"""Examples for sixteen rows, and blocks one by one, with the sweeps of `test_certificate`."""


def run(case, formulation="svm1", C=10.0, **options):
    """A fit in float64 whose message is that of its status."""
    options = {"tolerance": 1e-8, "settings": GROWN} | options
    solution = case.fit(formulation, C, **options)
    assert solution.message == MESSAGES[solution.status]
    return solution


@pytest.mark.parametrize("settings, way", [(SUBSPACE, "grown"), (GROWN, "enumerated")])
def test_contradictions_are_not_separable(x64, settings, way):
    """The same input with two labels: no weights, whatever the margin."""
    case = random_case(0, separable=True)
    x, y = np.tile(case.x[:6], (2, 1)), np.concatenate([case.y[:6], (case.y[:6] + 1) % 4])
    clash = case._replace(x=x, y=y.astype(np.int32))
    assert not clash.truth("svm0", 1.0).feasible
    solution = run(clash, "svm0", settings=settings._replace(working_sets=way), tolerance=1e-6)
    assert solution.status == Status.NOT_SEPARABLE and not solution.status.solved
    assert solution.primal == np.inf


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_separable_data_is_never_called_inseparable(x64, seed):
    """margin_bound is an upper bound on 1 / |w*| in every round."""
    case = random_case(seed, separable=True)
    width, bounds = 1 / np.sqrt(2 * case.optimum("svm0", 1.0)), []
    solution = run(case, "svm0", callback=lambda p: bounds.append(p.info.certificate.margin_bound))
    assert solution.status == Status.CONVERGED and len(bounds) > 1
    assert min(bounds) >= width * (1 - 1e-9)
    assert bounds[-1] == pytest.approx(width, rel=1e-3)
    strict = run(case, "svm0", min_margin=10.0)
    assert strict.status == Status.NOT_SEPARABLE


def test_pass_limit(x64):
    solution = run(random_case(0), C=1000.0, max_passes=1)
    assert solution.status == Status.PASS_LIMIT and not solution.status.solved
    assert solution.statistics.passes == 1 and solution.gap > 0


def test_a_full_working_set_is_reported(x64):
    """Two planes an example cannot carry svm1 at a large C."""
    case = random_case(3, n=N)
    for settings in (GROWN, ONE_BY_ONE):
        small = settings._replace(capacity=3, max_capacity=3)
        solution = run(case, C=1000.0, settings=small, max_passes=200)
        assert solution.status == Status.WORKING_SET_FULL and solution.statistics.capacity == 3
        assert solution.gap > 1e-3 * solution.primal
        optimum = case.optimum("svm1", 1000.0)
        assert solution.dual <= optimum <= solution.primal


EPSILON_RUNS = [
    (SUBSPACE, "svm1"),
    (ONE_BY_ONE._replace(working_sets="enumerated"), "svm1_slack"),
    (GROWN._replace(warm_passes=1), "svm1_margin"),
    (ONE_BY_ONE._replace(cached_sweeps=1, certify_every=1000), "svm2"),
]


@pytest.mark.parametrize("settings, formulation", EPSILON_RUNS)
def test_the_epsilon_rule_is_the_papers(x64, formulation, settings):
    """No H(y) above xi_i + epsilon with xi_i from the working set; the gap is about C epsilon.

    A round is certified for it that has no turn of its own, and ends the run where it holds.
    """
    case, C, epsilon, seen = random_case(2, n=N), 10.0, 0.01, []
    options = {"settings": settings, "max_passes": 900, "callback": seen.append}
    solution = run(case, formulation, C, tolerance=None, epsilon=epsilon, **options)
    assert solution.status == Status.EPSILON and solution.status.solved
    for certificate in (passed.info.certificate for passed in seen[1:-1]):
        assert certificate is None or (
            certificate.violation > epsilon or certificate.relaxed_gap > C * epsilon
        )
    data = enumerated(formulation, case.psi(), case.loss[case.y], case.y, C)
    w = of_slack(solution)
    xi = slacks(data, w)
    sets = solution.state.sets
    H = data.b - data.s * (data.dpsi @ w)
    occupied = np.asarray(sets.occupied)[:N]
    known = np.where(occupied, H[np.arange(N)[:, None], np.asarray(sets.outputs[0])[:N]], 0.0)
    assert (xi - np.maximum(known.max(axis=1), 0.0)).max() <= epsilon * (1 + 1e-9)
    if formulation.startswith("svm1"):
        optimum = case.optimum(formulation, C)
        assert solution.primal - optimum <= 2.1 * C * epsilon
        assert solution.gap <= 2.1 * C * epsilon


def test_overflow_is_never_called_solved():
    """float32 cannot hold |x|^2 = 1e40; nor does a run go on that is hardly ever certified."""
    case = random_case(0, n=N)
    huge = case._replace(x=case.x * 1e20)
    for settings in (GROWN, ONE_BY_ONE._replace(certify_every=1000)):
        solution = huge.fit("svm1", 1.0, "float32", settings=settings, max_passes=5)
        assert solution.status in (Status.NOT_FINITE, Status.PASS_LIMIT)
        assert solution.dual <= 1.0 and not solution.primal < solution.dual


def test_statistics_add_up(x64):
    solution = run(random_case(1), C=100.0, settings=SUBSPACE, tolerance=1e-4)
    numbers, sets = solution.statistics, solution.state.sets
    assert numbers.planes_added == numbers.planes_kept + numbers.planes_evicted
    assert numbers.planes_kept == np.asarray(sets.occupied)[:12, 1:].sum()
    assert numbers.support_planes == (np.asarray(sets.multipliers)[:12] > 0).sum()
    course = numbers.history
    assert {len(column) for column in course} == {numbers.passes}
    primal, dual = course.primal, course.dual
    estimated, below = course.round_primal, course.round_dual
    assert (primal[1:] <= primal[:-1]).all() and (dual[1:] >= dual[:-1]).all()
    assert np.isfinite([estimated, below]).all()
    assert (estimated[-1], below[-1]) == (solution.certificate.primal, solution.certificate.dual)
    assert course.certified[-1] and course.certified.dtype == bool
    assert course.planes_added.sum() == numbers.planes_added
    assert course.oracle_calls.sum() == numbers.oracle_calls
    assert (np.diff(course.seconds) > 0).all() and course.seconds[-1] <= numbers.seconds["total"]
    assert numbers.seconds["total"] >= max(v for k, v in numbers.seconds.items() if k != "total")
    assert numbers.oracle_calls >= 12 * numbers.passes


def test_a_status_prints_its_name_and_a_solution_a_few_lines():
    solution = random_case(0).fit("svm1", 10.0, "float32", settings=GROWN)
    assert str(solution.status) == f"{solution.status}" == "CONVERGED"
    assert f"{Status.EPSILON:>9}" == "  EPSILON" and Status.CONVERGED == 0
    assert repr(solution).startswith("Solution(status=CONVERGED, formulation='svm1', C=10, primal=")
    *words, course, ends, rounds, _ = str(solution).splitlines()
    assert " ".join(words) == f"{solution.status}: {solution.message}"
    assert course == "svm1, C = 10, 12 examples" and f"gap {solution.gap:.6g}" in ends
    assert f"{solution.statistics.passes} rounds" in rounds


@pytest.mark.parametrize("way", WAYS)
def test_counts_after_a_start_are_of_the_run(x64, way):
    """kept at the end = kept at the start + added - evicted, through evictions too."""
    case = random_case(1)
    settings = WAYS[way]._replace(capacity=3, max_capacity=3)
    first = run(case, C=1.0, settings=settings, max_passes=6)
    again = run(case, C=50.0, settings=settings, start=first, max_passes=20)
    before, after = first.statistics, again.statistics
    assert before.planes_kept == before.planes_added - before.planes_evicted > 0
    assert after.planes_kept == before.planes_kept + after.planes_added - after.planes_evicted
    assert (after.planes_evicted > 0) == (way == "grown") and after.planes_added > 0
    sets = again.state.sets
    held = sets.last_used > 0 if way == "enumerated" else sets.occupied
    assert after.planes_kept == np.asarray(held)[:12, 1:].sum()
    assert after.planes_added < after.planes_kept + after.planes_evicted  # some were there before


def test_the_history_goes_on_where_the_problem_is_the_same(x64):
    case = random_case(1)
    first = run(case, C=100.0, settings=SUBSPACE, max_passes=2)
    more = run(case, C=100.0, settings=SUBSPACE, max_passes=3, start=first, tolerance=1e-9)
    other = run(case, C=50.0, settings=SUBSPACE, max_passes=3, start=first, tolerance=1e-9)
    before, course = first.statistics.history, more.statistics.history
    assert more.statistics.passes == 3 and len(course.seconds) == 5
    for old, new in zip(before, course, strict=True):
        np.testing.assert_array_equal(new[:2], old)
    assert (np.diff(course.seconds) > 0).all()
    assert (np.diff(course.processor_seconds) >= 0).all()
    assert (np.diff(course.compile_seconds) >= 0).all()
    assert course.oracle_calls[2:].sum() == more.statistics.oracle_calls
    assert course.planes_added[2:].sum() == more.statistics.planes_added
    assert len(other.statistics.history.seconds) == 3  # of another C: nothing to go on with


def _entry(primal: float, added: int) -> Entry:
    given = {"round_primal": primal, "round_dual": 1.0, "planes_added": added}
    return Entry(**dict.fromkeys(Entry._fields, 0) | given)


@pytest.mark.parametrize(
    "primals, added, best, expected",
    [
        ([1.5] * STILL_ROUNDS, 0, 1.0006, Status.ROUNDING),
        ([1.5] * (STILL_ROUNDS - 1), 0, 1.0006, None),
        ([1.4] + [1.5] * (STILL_ROUNDS - 1), 0, 1.0006, None),
        ([1.5] * STILL_ROUNDS, 0, 1.1, Status.ROUNDING),
        ([1.5] * STILL_ROUNDS, 1, 1.1, None),
    ],
)
def test_a_run_that_stands_still_ends_in_rounding(primals, added, best, expected):
    certificate = Certificate(**dict.fromkeys(Certificate._fields, 1.0))
    certificate = certificate._replace(primal=1.5, primal_found=1.5, rounding=9e-4, missed=0)
    found = Round(certificate, 1.5, 1.0, 0, 0, 7, {}, None, None)
    rules = Rules(1e-3, None, 500, 1.0, False, 1e-6)
    now = Best(best, 1.0, None, roundings=(9e-4, 9e-4))
    assert status_of(rules, now, found, [_entry(primal, added) for primal in primals]) is expected


@pytest.mark.parametrize(("violation", "expected"), [(0.01, Status.EPSILON), (0.011, None)])
def test_no_violation_is_above_epsilon(violation, expected):
    given = {"primal": 2.0, "primal_found": 2.0, "dual": 1.0, "violation": violation}
    certificate = Certificate(**dict.fromkeys(Certificate._fields, 0.0) | given)
    found = Round(certificate, 2.0, 1.0, 0, 0, 7, {}, None, None)
    rules, now = Rules(None, 0.01, 500, 1.0, False, 1e-6), Best(2.0, 1.0, None)
    assert status_of(rules, now, found, [_entry(2.0, 1)]) is expected


def test_the_best_primal_and_the_best_dual_stay_with_their_roundings():
    """Of rounds that are better in one of the two, or in none; the primal with its weights."""
    one = Certificate(**dict.fromkeys(Certificate._fields, 1.0))
    best = Best(math.inf, -math.inf, None)
    for primal, dual, rounding in ((5, 1, 0.1), (3, 0, 0.2), (4, 2, 0.3), (9, 1, 0.4)):
        certificate = one._replace(primal=primal, primal_found=primal, dual=dual, rounding=rounding)
        best = improve(best, Round(certificate, primal, dual, 0, 0, 7, {}, f"w of {primal}", None))
    assert (best.primal, best.weights, best.dual) == (3, "w of 3", 2)
    assert best.roundings == (0.2, 0.3) and best.primal_found == 3
    assert best.certificate == certificate  # the last one
