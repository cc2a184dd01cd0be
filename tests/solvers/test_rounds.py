"""Rounds take over the working sets that they are given, where they may."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct import Settings, fit
from jaxstruct.solvers.n_slack import cutting_plane
from tests.solvers.cases import random_case

WAYS = ("grown", "enumerated")


def _used_up(state):
    return [leaf.is_deleted() for leaf in jax.tree.leaves(state.sets)]


@pytest.mark.parametrize("way", WAYS)
def test_a_step_uses_up_its_state_where_told(x64, way):
    """It is the same step; without the word the old state stays."""
    settings = Settings(working_sets=way, effort="quick")
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
    settings = Settings(working_sets=way, variant="subspace", effort="quick")

    def trained(**options):
        return fit(case.problem(), case.x, case.y, max_passes=4, settings=settings, **options)

    def hold(progress):
        states.append(progress.state)

    first = trained(C=1.0)
    again = trained(C=2.0, start=first)
    watched = trained(C=2.0, start=first, callback=hold)
    assert again.statistics.passes == len(states) > 1
    jax.tree.map(np.testing.assert_array_equal, again.weights, watched.weights)
    for state in (first.state, again.state, *states):
        assert not any(_used_up(state))
