"""Meetings of shards: the exact line search along what each of them would do alone."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct import Settings
from jaxstruct.core.contract import of_planes
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass
from jaxstruct.solvers.n_slack import cutting_plane
from jaxstruct.solvers.n_slack.sweeps import Plan, sweeps_pass
from jaxstruct.solvers.placement.mesh import sweeps_shards_program
from jaxstruct.solvers.prepare import prepare_run
from tests.solvers.cases import flat, random_case

N, K, C = 12, 4, 200.0
SETTINGS = Settings(
    variant="subspace", working_sets="enumerated", group=2, oracle_batch=2, cached_sweeps=1,
    synchronisations=1,
)  # fmt: skip


class Stand:
    """Two shards after a few rounds; each example is there twice, once in each of them."""

    def __init__(self, formulation, kernel, rounds=1):
        case = random_case(4, n=N // 2, d=3)
        case = case._replace(x=np.repeat(case.x, 2, axis=0), y=np.repeat(case.y, 2))
        inputs = kernel_inputs(case.x @ case.x.T) if kernel else case.x
        self.case = case
        self.problem = case.problem()
        if kernel:
            self.problem = kernel_multiclass(N, K, loss=case.loss, dtype="float64")
        mesh = jax.make_mesh((2,), ("shards",), devices=jax.devices()[:2])
        given = self.problem, inputs, case.y, formulation, C
        run = prepare_run(*given, settings=SETTINGS, mesh=mesh)
        self.rows, self.shards = run.rows, run.placement
        state = cutting_plane.init(run)
        for _ in range(rounds):
            state, _ = cutting_plane.step(run, state, 1e-9)
        self.state = state
        self.visits = run.settings.visits
        self.planes = of_planes(self.problem, self.visits.group)

    def plan(self):
        rows = np.arange(len(self.rows) // 2, dtype=np.int32)[None]
        return (rows,), (np.int32(rows.size // 2),)

    def together(self, synchronisations):
        state, shards = self.state, self.shards
        slots = shards.put(np.zeros((len(self.rows), 0), np.int32))
        plan = Plan(*shards.join([self.plan()] * 2), np.int32(1), slots, np.int32(3))
        w, beta, *_ = sweeps_shards_program(
            self.planes, self.visits, shards.mesh, synchronisations, shards.task, state.weights,
            state.sets, plan, [],
        )  # fmt: skip
        return jax.tree.map(np.asarray, w), np.asarray(beta)

    def alone(self):
        """[2] what each shard does by itself: (w, multipliers)."""
        found, half = [], len(self.rows) // 2
        sweep = jax.jit(sweeps_pass, static_argnums=1)
        w = jax.tree.map(np.asarray, self.state.weights)
        for number, part in enumerate(self.shards.parts):
            own = slice(number * half, (number + 1) * half)
            sets = jax.tree.map(lambda leaf, own=own: np.asarray(leaf)[own], self.state.sets)
            slots = np.zeros((half, 0), np.int32)
            plan = Plan(*self.plan(), np.int32(1), slots, np.int32(3))
            moved, beta, *_ = sweep(self.planes, self.visits, part, w, sets, plan, [])
            found.append((jax.tree.map(np.asarray, moved), np.asarray(beta)))
        return found

    def total(self, beta):
        """sum beta phi from planes written down; rows in the order of the shards."""
        sets = jax.tree.map(np.asarray, self.state.sets)
        rows, psi, y = self.rows[self.shards._order], self.case.psi(), self.case.y
        total = np.zeros(psi.shape[2])
        for row, example in enumerate(rows):
            if example >= 0:
                other = sets.outputs[0][row]
                own = psi[example, y[example]] - psi[example, other]
                total += (sets.scales[row] * beta[row]) @ own
        return total

    def dual(self, beta):
        """D of it."""
        total, ridge = self.total(beta), np.asarray(self.shards.task.terms.ridge)
        of_bounds = np.sum(beta * np.asarray(self.state.sets.bounds))
        return of_bounds - total @ total / 2 - np.sum(ridge * beta.sum(axis=1) ** 2) / 2


@pytest.mark.parametrize(
    ("formulation", "kernel", "rounds"), [("svm1_margin", False, 0), ("svm2_slack", True, 2)]
)
def test_the_best_step_along_what_shards_do_alone(x64, formulation, kernel, rounds):
    """s is the exact maximiser of the dual on [0, 1]; multipliers and w follow it."""
    stand = Stand(formulation, kernel, rounds)
    w, beta = stand.together(synchronisations=1)
    old, start = np.asarray(stand.state.sets.multipliers), flat(stand.state.weights)
    alone = stand.alone()
    target = np.concatenate([one for _, one in alone])
    move = sum(flat(one) - start for one, _ in alone)
    duals = [stand.dual(old + s * (target - old)) for s in (0.0, 0.5, 1.0)]
    curvature = 4 * (duals[0] - 2 * duals[1] + duals[2])
    slope = duals[2] - duals[0] - curvature / 2
    step = np.clip(-slope / curvature, 0, 1)
    assert step > 0.01 and (rounds or step < 0.99)  # the shards did get in each other's way
    np.testing.assert_allclose(beta, old + step * (target - old), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(flat(w), start + step * move, rtol=1e-7, atol=1e-9)
    assert stand.dual(beta) > duals[0]


def test_any_number_of_meetings_ascends(x64):
    """More synchronisations than groups; w stays what the multipliers make."""
    stand = Stand("svm1_margin", False)
    w, beta = stand.together(synchronisations=50)
    assert stand.dual(beta) > stand.dual(np.asarray(stand.state.sets.multipliers))
    assert (beta >= 0).all()
    cap = np.asarray(stand.shards.task.terms.cap)
    assert (beta.sum(axis=1) <= cap * (1 + 1e-12)).all()
    np.testing.assert_allclose(flat(w), stand.total(beta), atol=1e-8)
