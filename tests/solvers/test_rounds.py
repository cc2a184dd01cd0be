"""Steps that use up their state, and when the full variant takes over, round by round."""

from __future__ import annotations

import collections
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct
from jaxstruct import Settings, fit
from jaxstruct.solvers.n_slack import cutting_plane
from jaxstruct.solvers.n_slack.cutting_plane import (
    FEW_INTEGERS,
    STALL_ROUNDS,
    may_solve_fully,
    solves_fully,
    with_gap,
)
from jaxstruct.solvers.n_slack.working_sets import is_enumerated
from tests.solvers.cases import random_case
from tests.solvers.test_size_classes import OUTPUT_TYPES

WAYS = ("grown", "enumerated")
CASE = random_case(seed=5, n=16)
"""Its examples fill a batch, in `fit` as in runs made by hand."""


def _used_up(state):
    return [leaf.is_deleted() for leaf in jax.tree.leaves(state.sets)]


@pytest.mark.parametrize("way", WAYS)
def test_a_step_uses_up_its_state_where_it_may(x64, way):
    """It is the same step; otherwise the old state stays."""
    run = CASE.run("svm1_margin", 1.0, Settings(working_sets=way, capacity=4))

    def stepped(state, takes_over):
        return cutting_plane.step(run, state, 1e-9, takes_over=takes_over)[0]

    kept, taken = (cutting_plane.init(run) for _ in range(2))
    for _ in range(2):
        after, same = stepped(kept, False), stepped(taken, True)
        jax.tree.map(np.testing.assert_array_equal, after, same)
        assert not any(_used_up(kept)) and any(_used_up(taken))
        kept, taken = after, same


@pytest.mark.parametrize("way", WAYS)
def test_fit_leaves_what_others_hold(x64, way):
    """The solution that it starts from, and the states that a callback sees."""
    states, settings = [], Settings(working_sets=way, variant="subspace", capacity=4)

    def trained(**options):
        return CASE.fit(max_passes=4, settings=settings, **options)

    def hold(progress):
        states.append(progress.state)

    first = trained(C=1.0)
    again = trained(C=50.0, start=first)
    watched = trained(C=50.0, start=first, callback=hold)
    assert again.statistics.passes == len(states) > 1
    jax.tree.map(np.testing.assert_array_equal, again.weights, watched.weights)
    for state in (first.state, again.state, *states):
        assert not any(_used_up(state))


def test_a_run_asks_once_what_stays_as_it_is():
    """Calls of functions of the package in a fit of ten rounds whose programs are there."""
    examples = OUTPUT_TYPES["chains"](0, 12, 8)
    calls, package = collections.Counter(), str(pathlib.Path(jaxstruct.__file__).parent)

    def count(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(package):
            calls[frame.f_code.co_name] += 1

    for profile in (None, count):
        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            found = fit(*examples, C=1000.0, tolerance=1e-5, max_passes=10)
        finally:
            sys.setprofile(before)
    assert found.statistics.passes == 10 and calls["resolved_settings"] == 1
    assert calls["open_run"] == 1
    assert calls["open_round"] in (10, 11)  # a search among multiples of w opens one
    assert calls.total() < 2500


EXAMPLES = 100
HALF = 0.5 ** (1 / (STALL_ROUNDS - 1))
"""What a round leaves of the gap where the oldest remembered one is halved just so."""


class Run:
    """The rounds of a run, each given its relative gap and how many planes it found."""

    def __init__(self, way="grown", formulation="svm1_margin", **settings):
        settings = Settings(working_sets=way, **settings)
        run = CASE.run(formulation, 1.0, settings, dtype="float32")
        self.settings, self.formulation = run.settings, run.formulation
        self.state = cutting_plane.init(run)

    def fully(self, gap, added=0):
        """Whether the next round is a full one; it ends with this gap."""
        state = self.state._replace(clock=self.state.clock + 1)
        found = solves_fully(self.settings, self.formulation, state)
        self.state = with_gap(state, gap, added, EXAMPLES)
        return found

    def first_full(self, rate, rounds=60, added=lambda clock: 0):
        """The number of the first full round where each leaves `rate` of the gap, or None."""
        for clock in range(1, rounds + 1):
            if self.fully(rate**clock, added(clock)):
                return clock
        return None


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_halves_its_gap_goes_on(way):
    assert Run(way).first_full(0.999 * HALF) is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rate", [1.001 * HALF, 1.0, 1.1])
def test_a_run_that_does_not_changes_over(way, rate):
    """As soon as there are gaps of ten rounds to compare, so in the eleventh."""
    assert Run(way).first_full(rate) == STALL_ROUNDS + 1


@pytest.mark.parametrize("way", WAYS)
def test_a_run_may_stall_late(way):
    run = Run(way)
    gaps = [0.5**clock for clock in range(40)]
    assert not any(run.fully(gap) for gap in gaps)
    found = [run.fully(gaps[-1]) for _ in range(STALL_ROUNDS)]
    assert found == [False] * (STALL_ROUNDS - 1) + [True]


def test_of_rounds_that_find_many_planes_every_second_one_counts():
    """Planes may be what lacks then. Many are more than one for a tenth of the examples."""
    many = EXAMPLES // 10 + 1
    assert Run().first_full(1.0, added=lambda clock: many - 1) == STALL_ROUNDS + 1
    assert Run().first_full(1.0, added=lambda clock: many) == 2 * STALL_ROUNDS + 1
    assert Run().first_full(0.999 * HALF**0.5, added=lambda clock: many) is None
    once = Run().first_full(1.0, added=lambda clock: many if clock == 7 else 0)
    assert once == STALL_ROUNDS + 2
    at_hand = Run("enumerated").first_full(1.0, added=lambda clock: EXAMPLES)
    assert at_hand == STALL_ROUNDS + 1


def test_gaps_that_are_infinite_say_nothing():
    run = Run()
    assert not any(run.fully(np.inf) for _ in range(3 * STALL_ROUNDS))
    assert run.first_full(1.0) == STALL_ROUNDS + 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("warm", [0, 1, 4])
def test_a_hard_margin_changes_over_after_the_warm_rounds(way, warm):
    run = Run(way, "svm0", warm_passes=warm)
    assert run.first_full(0.1) == warm + 1
    assert Run(way, "svm0", warm_passes=warm, variant="subspace").first_full(1.0) is None


@pytest.mark.parametrize("way", WAYS)
def test_a_variant_of_the_settings_wins(way):
    assert Run(way, variant="subspace").first_full(1.0) is None
    assert Run(way, variant="full", warm_passes=3).first_full(0.1) == 4


def test_a_run_that_changed_over_stays():
    run = Run()
    run.state = run.state._replace(full=1)
    assert all(run.fully(0.1**clock) for clock in range(3))


def _sets(way, n, slots, length=()):
    """The shapes of working sets; nothing is computed."""
    outputs = (jax.ShapeDtypeStruct((n, slots, *length), jnp.int32),)
    gram = (slots, slots) if way == "grown" else (0, 0)
    of_slots = jax.ShapeDtypeStruct((n, slots), jnp.float32)
    state = Run(way).state.sets
    own = jax.tree.map(lambda leaf: of_slots, state._replace(outputs=(), gram=()))
    sets = own._replace(outputs=outputs, gram=(jax.ShapeDtypeStruct((n, *gram), jnp.float32),))
    assert is_enumerated(sets) == (way == "enumerated")
    return sets


@pytest.mark.parametrize(
    "way, largest, larger",
    [
        ("enumerated", (2**14, 16), (2**14 + 1, 16)),
        ("enumerated", (2**12, 64), (2**12, 65)),
        ("grown", (2**16, 16), (2**16 + 1, 16)),
        ("grown", (2**13, 64, (8,)), (2**13, 64, (9,))),
    ],
)
def test_large_sets_never_change_over(way, largest, larger):
    """2^18 slots of enumerated sets; of grown ones 2^16 integers a slot, whatever their slots."""
    for size, wanted in ((largest, True), (larger, False)):
        sets = _sets(way, *size)
        assert may_solve_fully(Settings(), sets) == wanted
        assert not may_solve_fully(Settings(variant="subspace"), sets)
        assert may_solve_fully(Settings(variant="full"), sets)
        for formulation in ("svm1_margin", "svm0"):
            run = Run(way, formulation)
            run.state = run.state._replace(sets=sets)
            assert (run.first_full(1.0) is not None) == wanted


@pytest.mark.parametrize("more, gap, full", [(0, 2e-3, True), (1, 2e-3, False), (1, 0.4, True)])
def test_large_grown_sets_change_over_far_from_the_end_alone(more, gap, full):
    run = Run()
    run.state = run.state._replace(sets=_sets("grown", FEW_INTEGERS + more, 2))
    assert any([run.fully(gap) for _ in range(STALL_ROUNDS + 1)]) is full


def test_a_step_follows_the_rule(x64):
    """The step after ten equal gaps is a Newton step, and so are those after it."""
    run = CASE.run("svm1_margin", 1.0, Settings(working_sets="grown", capacity=4))

    def stepped(state):
        return cutting_plane.step(run, state, 1e-9)

    state, info = stepped(cutting_plane.init(run))
    assert "newton" not in info.seconds and not state.full
    stalled = state._replace(gaps=np.ones(STALL_ROUNDS))
    for goes_on in (stalled._replace(gaps=np.linspace(1, 0.4, STALL_ROUNDS)), stalled):
        after, info = stepped(goes_on)
        assert ("newton" in info.seconds) == bool(after.full) == (goes_on is stalled)
        gap = cutting_plane.relative_gap(info.estimate)
        wanted = with_gap(goes_on, gap, info.planes_added, len(CASE.y)).gaps
        np.testing.assert_array_equal(after.gaps, wanted)
    _, info = stepped(after._replace(gaps=np.linspace(1, 0.1, STALL_ROUNDS)))
    assert "newton" in info.seconds
