"""Rounds take over the working sets that they are given, where they may, and ask nothing twice."""

from __future__ import annotations

import collections
import pathlib
import sys

import jax
import numpy as np
import pytest

import jaxstruct
from jaxstruct import Settings, fit, ragged
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.solvers.n_slack import cutting_plane
from tests.solvers.cases import random_case

WAYS = ("grown", "enumerated")


def _used_up(state):
    return [leaf.is_deleted() for leaf in jax.tree.leaves(state.sets)]


@pytest.mark.parametrize("way", WAYS)
def test_a_step_uses_up_its_state_where_it_may(x64, way):
    """It is the same step; otherwise the old state stays."""
    settings = Settings(working_sets=way)
    run = random_case(seed=5).run("svm1_margin", 1.0, settings)

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
    case, states = random_case(seed=5), []
    settings = Settings(working_sets=way, variant="subspace")

    def trained(**options):
        return case.fit(max_passes=4, settings=settings, **options)

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
    random = np.random.default_rng(0)
    lengths = random.integers(3, 9, 40)
    x = chain_inputs(ragged([random.normal(size=(n, 5)).astype(np.float32) for n in lengths]))
    y = ragged([random.integers(0, 3, n).astype(np.int32) for n in lengths])
    calls, package = collections.Counter(), str(pathlib.Path(jaxstruct.__file__).parent)

    def count(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(package):
            calls[frame.f_code.co_name] += 1

    for profile in (None, count):
        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            found = fit(chain(5, 3), x, y, C=10.0, tolerance=1e-5, max_passes=11)
        finally:
            sys.setprofile(before)
    assert found.statistics.passes == 10 and calls["resolved_settings"] == 1
    assert calls["open_run"] == 1
    assert calls["open_round"] in (10, 11)  # a search among multiples of w opens one
    assert calls.total() < 2500
