"""Sweeps: over whole working sets, one after the other, and cut down to a few slots."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import Settings
from jaxstruct.core.buckets import rows_at
from jaxstruct.core.contract import of_planes
from jaxstruct.solvers.n_slack import cutting_plane
from jaxstruct.solvers.n_slack import sweeps as sweep_programs
from jaxstruct.solvers.n_slack.oracle_pass import Batch, look_up_planes
from jaxstruct.solvers.n_slack.sweeps import Plan, SweepBuffers, rebuilt_weights, sweeps_program
from jaxstruct.solvers.n_slack.working_sets import (
    WorkingSets,
    active_slots,
    bucket_of,
    insert,
    join_buckets,
    merge_multipliers,
    propose,
    restrict,
)
from jaxstruct.solvers.settings import VisitOptions
from tests.solvers.cases import SUBSPACE, dense_beta, flat, one_sweep, random_case
from tests.truth.quadratic_program import dual_value

N, K, ACTIVE, C, MOST = 16, 7, 4, 6.0, 5
SETS = ("grown", "enumerated")
CAPPED_AND_RIDGED = ("svm1_margin", "svm1_slack", "svm2_margin", "svm2_slack", "svm0")


_sweeps = jax.jit(sweep_programs.sweeps_pass, static_argnums=1)
_restricted = jax.jit(restrict)


@partial(jax.jit, static_argnums=1)
def _faded(problem, options, fading, task, w, sets, plan):
    """Sweeps over all slots, one program of every part at which they end."""
    options = options._replace(fading=fading)
    return sweep_programs.sweeps_pass(problem, options, task, w, sets, plan, [])


@jax.jit
def _entered(problem, task, sets, y, loss):
    """Working sets with one more output of every example."""
    own, every = bucket_of(sets, 0), jnp.arange(N)
    x, y_true = task.inputs[0], task.outputs[0]
    theta = jax.vmap(problem.model.potentials, (None, 0))(problem.initial_weights, x)
    _, met = look_up_planes(problem, own, Batch(every, x, y_true, theta), y, x)
    place = jax.vmap(lambda *of_one: propose(task.terms, *of_one))
    found = place(rows_at(own, every), met, y, loss, jnp.ones(N, bool))
    return join_buckets([insert(own, every, found, jnp.int32(1))])


def case_of(formulation):
    return random_case(seed=3, n=N, d=8, k=K, separable=formulation == "svm0")


def grown_sets(case, run, random):
    """Grown working sets with every output but one of each example, in a random order of slots."""
    problem, task, sets = run.problem, run.task, cutting_plane.init(run).sets
    order = np.array([random.permutation(np.delete(np.arange(K), y)) for y in case.y])
    for y in order[:, : K - 2].T:
        sets = _entered(problem, task, sets, y.astype(np.int32), case.loss[case.y, y])
    return sets


class Start:
    """Random feasible multipliers on random working sets, and random slots, 0 first.

    In a quarter of the places 0 stands for no slot.
    """

    def __init__(self, formulation, way, seed=0):
        random = np.random.default_rng(seed)
        self.case, self.formulation = case_of(formulation), formulation
        self.run = self.case.run(formulation, C, Settings(working_sets=way, capacity=K))
        self.problem, self.task = self.run.problem, self.run.task
        if way == "grown":
            sets = grown_sets(self.case, self.run, random)
        else:
            sets = cutting_plane.init(self.run).sets
        planes = np.asarray(sets.occupied) & (np.arange(K) > 0)
        beta = random.gamma(0.5, size=(N, K)) * planes * (random.random((N, K)) < 0.6)
        cap = np.asarray(self.task.terms.cap)
        full = np.where(np.isfinite(cap), cap, 0.3) * random.choice([0.0, 0.7, 1.0], N)
        beta *= (full / np.maximum(beta.sum(axis=1), 1e-300))[:, None]
        self.sets = sets._replace(multipliers=jax.device_put(beta))
        self.slots = np.zeros((N, ACTIVE), np.int32)
        for row in self.slots:
            row[1:] = 1 + random.permutation(K - 1)[: ACTIVE - 1]
        self.slots *= random.random(self.slots.shape) < 0.75
        orders, _ = self.run.placement.every_batch
        self.w = sweep_programs.rebuilt_weights(self.problem, self.task, self.sets, orders)
        self.scratch = None

    def dual(self, sets):
        """D of the whole by the slow truth, which also says whether it is feasible."""
        beta = dense_beta(sets, N, K)
        value = dual_value(
            self.formulation, beta, self.case.psi(), self.case.loss[self.case.y], self.case.y, C
        )
        assert value.feasible, value.violation
        return value.value

    def swept(self, sets, slots, sweeps=1):
        """(w, sets) after sweeps of groups of four over these slots."""
        options = VisitOptions(4, 10)
        order = np.arange(N, dtype=np.int32)
        orders = (np.tile(order, (1 if sweeps == 1 else MOST, 1)),)  # one program for 2 and 5
        groups = (np.int32(N // 4),)
        plan = sweep_programs.Plan(orders, groups, np.int32(sweeps), slots, np.int32(9))
        planes = of_planes(self.problem, 4)
        if self.scratch is None:  # the same of all slots, and slow to lay out
            self.scratch = sweep_programs.SweepBuffers().take(
                planes, self.task, sets, slots, jnp.zeros
            )
        w, multipliers, last_used, *_ = _sweeps(
            planes, options, self.task, self.w, sets, plan, self.scratch
        )
        return w, sets._replace(multipliers=multipliers, last_used=last_used)

    def part(self, slots):
        """(terms, working sets) cut down to these slots."""
        sets = bucket_of(self.sets, 0)
        return _restricted(self.task.terms, sets, np.arange(N), slots)


def at(leaf, slots):
    return np.take_along_axis(np.asarray(leaf), slots, axis=1)


@pytest.mark.parametrize("way", SETS)
@pytest.mark.parametrize("formulation", CAPPED_AND_RIDGED)
def test_a_part_is_the_same_dual_seen_from_fewer_slots(x64, formulation, way):
    """Outputs, Gram, gradient and reservoir of the part are those of the whole."""
    start = Start(formulation, way)
    sets, slots, terms = start.sets, start.slots, start.task.terms
    part_terms, part = start.part(slots)
    for name in ("losses", "scales", "multipliers", "norms", "last_used"):
        np.testing.assert_array_equal(getattr(part, name), at(getattr(sets, name), slots))
    real = (slots > 0) | (np.arange(ACTIVE) == 0)
    assert not real.all()
    np.testing.assert_array_equal(part.occupied, at(sets.occupied, slots) & real)
    np.testing.assert_array_equal(part.outputs, at(sets.outputs[0], slots))
    if way == "grown":
        pairs = np.arange(N)[:, None, None], slots[:, :, None], slots[:, None]
        np.testing.assert_array_equal(part.gram, np.asarray(sets.gram[0])[pairs])
    else:
        assert part.gram.shape == (N, 0, 0)
    terms = jax.tree.map(np.asarray, terms)
    mass, of_part = (np.sum(np.asarray(s.multipliers), axis=1) for s in (sets, part))
    planes, pull = np.arange(K) > 0, (terms.ridge * mass)[:, None]
    gradient = np.asarray(sets.bounds) - planes * pull
    part_pull = (terms.ridge * of_part)[:, None]
    part_gradient = np.asarray(part.bounds) - planes[:ACTIVE] * part_pull
    np.testing.assert_allclose(part_gradient[real], at(gradient, slots)[real], atol=1e-12)
    finite = np.isfinite(terms.cap)
    room, part_room = terms.cap - mass, np.asarray(part_terms.cap) - of_part
    np.testing.assert_allclose(part_room[finite], room[finite], atol=1e-15)
    np.testing.assert_array_equal(np.asarray(part_terms.cap)[~finite], np.inf)
    assert (mass > of_part).any() and (of_part > 0).any()  # some mass is frozen, some is not


@pytest.mark.parametrize("way", SETS)
@pytest.mark.parametrize("formulation", CAPPED_AND_RIDGED)
def test_an_ascent_of_the_part_is_one_of_the_whole(x64, formulation, way):
    """One sweep cuts each visit down, several cut the working sets down once."""
    sweeps = 1 + SETS.index(way)
    start = Start(formulation, way, seed=1)
    before = start.dual(start.sets)
    w, after = start.swept(start.sets, start.slots, sweeps=sweeps)
    assert start.dual(after) > before + 1e-3 * abs(before)  # feasible, and much better
    frozen = np.ones((N, K), bool)
    np.put_along_axis(frozen, start.slots, False, axis=1)
    np.testing.assert_array_equal(
        np.asarray(after.multipliers)[frozen], np.asarray(start.sets.multipliers)[frozen]
    )
    moved = np.asarray(after.multipliers) != np.asarray(start.sets.multipliers)
    assert moved.any() and not moved[:, 0].any()
    wanted = np.where(np.asarray(after.multipliers) > 0, 9, start.sets.last_used)
    np.testing.assert_array_equal(after.last_used, wanted)
    orders, _ = start.run.placement.every_batch
    rebuilt = sweep_programs.rebuilt_weights(start.problem, start.task, after, orders)
    np.testing.assert_allclose(flat(w), flat(rebuilt), atol=1e-12)


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("formulation", CAPPED_AND_RIDGED)
def test_what_visits_promise(x64, formulation, group):
    """At least what the dual gains, and at most twice that where blocks are solved."""
    start = Start(formulation, "grown", seed=2)
    options = VisitOptions(group, 10_000)
    order = (np.arange(N, dtype=np.int32),)
    _, multipliers, promised = one_sweep(
        start.problem, options, start.task, start.w, start.sets, order, (np.int32(N // group),)
    )
    gain = start.dual(start.sets._replace(multipliers=multipliers)) - start.dual(start.sets)
    assert 0 < gain <= promised * (1 + 1e-9) and promised <= 2 * gain * (1 + 1e-9)


def test_no_slots_named_are_all_slots(x64):
    start, none = Start("svm2_margin", "grown"), np.zeros((N, 0), np.int32)
    sets = bucket_of(start.sets, 0)
    terms, part = restrict(start.task.terms, sets, np.arange(N), none)
    assert terms is start.task.terms
    jax.tree.map(np.testing.assert_array_equal, part, sets)
    assert merge_multipliers(sets.multipliers, part.norms, none) is part.norms


def ranked(occupied, multipliers, gradient, active):
    """The slots in their order of importance, written out for one example.

    0 stands in the place of one that carries nothing and lies too far below all that do.
    """
    steepest = gradient[occupied].max()

    def rank(k):
        if k == 0:
            return (0, 0.0)
        if not occupied[k]:
            return (4, 0.0)
        if gradient[k] == steepest:
            return (1, 0.0)
        return (2, gradient[k] - steepest) if multipliers[k] > 0 else (3, steepest - gradient[k])

    lowest = gradient[(multipliers > 0) | (np.arange(len(gradient)) == 0)].min()
    useful = occupied & ((multipliers > 0) | (gradient >= 2 * lowest - steepest))
    return [k * useful[k] for k in sorted(range(len(gradient)), key=rank)[:active]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_slots_that_matter_most(x64, dtype):
    """0, the steepest, carriers by how much they lag it, then others by their gradient."""
    random, cases = np.random.default_rng(0), 3000
    gradient = random.normal(size=(cases, K)) * 10.0 ** random.integers(-3, 3, (cases, 1))
    occupied = random.random((cases, K)) < 0.7
    occupied[:, 0] = True
    beta = random.random((cases, K)) * occupied * (random.random((cases, K)) < 0.5)
    gradient[:, 0], beta[:, 0] = 0, 0
    gradient[:50] = 0  # as at w = 0
    gradient = gradient.astype(dtype)
    blank = np.zeros((cases, K), dtype)
    others = {name: blank for name in WorkingSets._fields}
    own = WorkingSets(**others | {"multipliers": beta.astype(dtype), "occupied": occupied})
    for active in (3, 5):
        found = np.asarray(jax.jit(active_slots, static_argnums=2)(own, gradient, active))
        wanted = [ranked(*of_one, active) for of_one in zip(occupied, beta, gradient, strict=True)]
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == np.int32 and (found[:, 1:] == 0).any()
    assert active_slots(own, gradient, 0).shape == (cases, 0)


GROUP, MOST_SWEEPS = 4, 20


class Whole:
    """w = 0 and enumerated sets of 16 examples, the last four never visited."""

    def __init__(self):
        case = random_case(seed=6, n=N, k=4)
        self.problem, self.task = case.problem(), case.task("svm1_margin", 3.0)
        self.state = cutting_plane.init(case.run("svm1_margin", 3.0))
        solved = 200  # steps: a visit that is cut short depends on how ties are rounded
        self.options = VisitOptions(GROUP, solved)
        self.none = np.zeros((N, 0), np.int32)
        random = np.random.default_rng(0)
        rows = np.tile(np.arange(N, dtype=np.int32), (MOST_SWEEPS, 1))
        self.orders = np.hstack([random.permuted(rows[:, :12], axis=1), rows[:, 12:]])
        self.groups = (np.int32(12 // GROUP),)

    def swept(self, most):
        """(w, multipliers, last_used) after at most so many sweeps."""
        plan = Plan((self.orders,), self.groups, np.int32(most), self.none, np.int32(7))
        given = self.options.fading, self.task, self.state.weights, self.state.sets, plan
        return _faded(self.problem, self.options, *given)[:3]

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
    start = Whole()
    w, multipliers, last_used = start.swept(most)
    wanted_w, wanted, _ = start.passed(most)
    np.testing.assert_allclose(flat(w), flat(wanted_w), rtol=0, atol=1e-12)
    np.testing.assert_allclose(multipliers, wanted, rtol=0, atol=1e-12)
    sets = start.state.sets._replace(multipliers=multipliers)
    rebuilt = rebuilt_weights(start.problem, start.task, sets, (np.arange(N)[None],))
    np.testing.assert_allclose(flat(w), flat(rebuilt), rtol=0, atol=1e-12)
    multipliers = np.asarray(multipliers)
    np.testing.assert_array_equal(last_used, np.where(multipliers > 0, 7, 0))
    assert multipliers[:12].any() == (most > 0) and not multipliers[12:].any()


def test_one_program_serves_every_number_of_sweeps(x64):
    start = Whole()
    one, before = start.swept(1), _faded._cache_size()
    twenty = start.swept(MOST_SWEEPS)
    assert _faded._cache_size() == before
    assert np.max(np.abs(flat(twenty[0]) - flat(one[0]))) > 1e-3


def test_sweeps_fade(x64):
    """They end with the first one that predicts no more than its part of what the first one did."""
    start = Whole()
    gains = np.array(start.passed(6)[2])
    assert np.all(np.diff(gains) < 0)
    given = start.task, start.state.weights, start.state.sets
    plan = Plan((start.orders,), start.groups, np.int32(MOST_SWEEPS), start.none, np.int32(7))
    for number in (2, 4):
        part = gains[number - 1] / gains[0]
        for fading, ends in ((1.001 * part, number), (0.999 * part, number + 1)):
            w, multipliers, *_ = _faded(start.problem, start.options, fading, *given, plan)
            wanted_w, wanted, _ = start.passed(ends)
            np.testing.assert_allclose(multipliers, wanted, rtol=0, atol=1e-12)
            np.testing.assert_allclose(flat(w), flat(wanted_w), rtol=0, atol=1e-12)
            further = start.passed(ends + 1)[1]
            assert np.max(np.abs(np.asarray(further) - np.asarray(multipliers))) > 1e-9


def test_the_room_of_sweeps_is_used_again(x64):
    """Whatever it holds, and what is not visited in it, sweeps over a few slots are the same."""
    start = Whole()
    planes = of_planes(start.problem, GROUP)
    task, sets, slots = start.task, start.state.sets, np.tile(np.arange(3, dtype=np.int32), (N, 1))
    plan = Plan((start.orders,), start.groups, np.int32(2), slots, np.int32(7))

    def swept(scratch):
        return sweeps_program(
            planes, start.options, task, start.state.weights, sets, plan, scratch,
        )  # fmt: skip

    held = SweepBuffers()
    first = held.take(planes, task, sets, slots, jnp.zeros)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(first))
    *wanted, scratch = swept(first)
    assert np.asarray(wanted[1])[:12].any() and all(
        leaf.is_deleted() for leaf in jax.tree.leaves(first)
    )
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
    assert fewer[0].sets.norms.shape == (N, 2)
    assert (
        held.take(planes, task, sets, slots, jnp.zeros) is not after
    )  # it holds one scratch at most


def test_the_dual_never_falls(x64):
    """Pass by pass, of examples that pull at three features, at small C and at large."""
    case = random_case(1, n=N, d=3)
    case = case._replace(x=np.pad(case.x, ((0, 0), (0, 2))))  # as wide as the others
    settings = SUBSPACE._replace(certify_every=1)
    for formulation in ("svm1", "svm2"):
        for C in (0.05, 5000.0):
            duals = [0.0]

            def note(progress, duals=duals):
                duals.append(progress.info.certificate.dual)

            case.fit(formulation, C, settings=settings, max_passes=10, callback=note)
            assert (np.diff(duals) >= -1e-10 * duals[-1]).all() and duals[-1] > 0
