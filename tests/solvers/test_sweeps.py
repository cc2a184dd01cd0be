"""How many sweeps there are is a number: one program, and each sweep the pass of before."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.compiling import programs_traced
from jaxstruct.core.contract import of_planes
from jaxstruct.solvers.n_slack import cutting_plane
from jaxstruct.solvers.n_slack.sweeps import (
    Plan,
    SweepBuffers,
    rebuilt_weights,
    sweeps_program,
)
from jaxstruct.solvers.settings import VisitOptions
from tests.solvers.cases import flat, one_sweep, random_case

N, K, GROUP, MOST = 16, 4, 4, 20


class Start:
    """w = 0 and enumerated sets of 16 examples, the last four never visited."""

    def __init__(self, fading=0.0):
        case = random_case(seed=6, n=N, k=K)
        self.problem, self.task = case.problem(), case.task("svm1_margin", 3.0)
        self.state = cutting_plane.init(case.run("svm1_margin", 3.0))
        solved = 200  # steps: a visit that is cut short depends on how ties are rounded
        self.options = VisitOptions(GROUP, solved, fading)
        self.none = jnp.zeros((N, 0), jnp.int32)
        random = np.random.default_rng(0)
        rows = np.tile(np.arange(N, dtype=np.int32), (MOST, 1))
        self.orders = np.hstack([random.permuted(rows[:, :12], axis=1), rows[:, 12:]])
        self.groups = (np.int32(12 // GROUP),)

    def swept(self, most):
        """(w, multipliers, last_used) after at most so many sweeps."""
        plan = Plan((self.orders,), self.groups, np.int32(most))
        given = self.problem, self.task, self.state.sets, self.none
        scratch = SweepBuffers().take(*given, jnp.zeros)
        return sweeps_program(
            self.problem, self.options, self.task, self.state.weights, self.state.sets,
            self.none, plan, np.int32(7), scratch,
        )[:3]  # fmt: skip

    def passed(self, count):
        """(w, multipliers, predicted gains) of so many passes, one call each."""
        w, sets, gains = self.state.weights, self.state.sets, []
        for order in self.orders[:count]:
            w, multipliers, gain = one_sweep(
                self.problem, self.options, self.task, w, sets, (order,), self.groups
            )
            sets = sets._replace(multipliers=multipliers)
            gains.append(float(gain))
        return w, sets.multipliers, gains


@pytest.mark.parametrize("most", [0, 1, 2, 5])
def test_sweeps_are_passes_one_after_the_other(x64, most):
    """Each in its own order, as many as the number says."""
    start = Start()
    w, multipliers, last_used = start.swept(most)
    wanted_w, wanted, _ = start.passed(most)
    np.testing.assert_allclose(flat(w), flat(wanted_w), rtol=0, atol=1e-12)
    np.testing.assert_allclose(multipliers, wanted, rtol=0, atol=1e-12)
    sets = start.state.sets._replace(multipliers=multipliers)
    rebuilt = rebuilt_weights(start.problem, start.task, sets, (jnp.arange(N)[None],))
    np.testing.assert_allclose(flat(w), flat(rebuilt), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(last_used, np.where(np.asarray(multipliers) > 0, 7, 0))
    assert np.any(multipliers[:12]) == (most > 0) and not np.any(multipliers[12:])


def test_one_program_serves_every_number_of_sweeps(x64):
    start = Start()
    one, before = start.swept(1), programs_traced()
    twenty = start.swept(MOST)
    assert programs_traced() == before
    assert np.max(np.abs(flat(twenty[0]) - flat(one[0]))) > 1e-3


def test_sweeps_fade(x64):
    """They end with the first one that predicts no more than its part of what the first one did."""
    gains = np.array(Start().passed(6)[2])
    assert np.all(np.diff(gains) < 0)
    for number in (2, 4):
        part = gains[number - 1] / gains[0]
        for fading, ends in ((1.001 * part, number), (0.999 * part, number + 1)):
            w, multipliers, _ = Start(fading).swept(MOST)
            wanted_w, wanted, _ = Start().passed(ends)
            np.testing.assert_allclose(multipliers, wanted, rtol=0, atol=1e-12)
            np.testing.assert_allclose(flat(w), flat(wanted_w), rtol=0, atol=1e-12)
            further = Start().passed(ends + 1)[1]
            assert np.max(np.abs(np.asarray(further) - np.asarray(multipliers))) > 1e-9


def test_the_room_of_sweeps_is_used_again(x64):
    """Whatever it holds, and what is not visited in it, sweeps over a few slots are the same."""
    start = Start()
    planes = of_planes(start.problem, GROUP)
    task, sets, slots = start.task, start.state.sets, jnp.tile(jnp.arange(3), (N, 1))
    plan = Plan((start.orders,), start.groups, np.int32(2))

    def swept(scratch):
        return sweeps_program(
            planes, start.options, task, start.state.weights, sets, slots, plan,
            np.int32(7), scratch,
        )  # fmt: skip

    held = SweepBuffers()
    first = held.take(planes, task, sets, slots, jnp.zeros)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(first))
    *wanted, scratch = swept(first)
    assert np.any(wanted[1][:12]) and all(leaf.is_deleted() for leaf in jax.tree.leaves(first))
    held.give_back(scratch)
    assert (
        held.take(planes, task, sets, start.none, jnp.zeros) == []
    )  # which leaves the scratch there
    assert held.take(planes, task, sets, slots, jnp.zeros) is scratch
    spoiled = [np.full(leaf.shape, -1, leaf.dtype) for leaf in jax.tree.leaves(scratch)]
    spoiled = [leaf * np.nan if leaf.dtype == float else leaf for leaf in spoiled]
    *found, after = swept(jax.tree.unflatten(jax.tree.structure(scratch), spoiled))
    jax.tree.map(np.testing.assert_array_equal, found, wanted)
    held.give_back(after)
    fewer = held.take(planes, task, sets, slots[:, :2], jnp.zeros)
    assert fewer[0].sets.losses.shape == (N, 2)
    assert (
        held.take(planes, task, sets, slots, jnp.zeros) is not after
    )  # it holds one scratch at most
