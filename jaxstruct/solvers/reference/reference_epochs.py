"""An epoch of algorithm 3 as printed: working sets, their planes, w. See `reference_algorithm`."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import rows_of
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.problem import difference
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.loop.host_loop import Rules
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.objective.certificate import (
    Certificate,
    ExampleTerms,
    certify,
    coordinate_norm,
    roundings,
)
from jaxstruct.solvers.objective.formulations import Formulation, power_of_loss
from jaxstruct.solvers.objective.most_violated import most_violated, terms_size
from jaxstruct.solvers.reference.working_set_dual import WorkingSetDual

MOST_STEPS = 10**6
"""Of one optimisation of the dual."""
_FIRST_SLOTS = 8


class Answer(NamedTuple):
    """What the oracle says of examples, all [B, ...]."""

    output: PyTree
    loss: Array
    value: Array
    bound: Array
    claim: Array
    size: Array


@partial(program, static_argnums=(1, 3))
def _ask(problem: Problem, oracle: str, task: Task, bucket: int, w: PyTree, index: Array) -> Answer:
    """The most violated outputs of some examples of a bucket at w."""
    x, y_true = jax.tree.map(lambda leaf: leaf[index], (task.inputs[bucket], task.outputs[bucket]))
    theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
    found = jax.vmap(partial(most_violated, problem, oracle, task.terms))(theta, y_true)
    scale = power_of_loss(found.loss, task.terms.scale_power)
    bound = power_of_loss(found.loss, task.terms.bound_power)
    size = terms_size(scale, bound, jax.vmap(problem.model.score)(theta, y_true), found.bound)
    return Answer(*found, size)


@partial(program, static_argnums=2)
def _plane(
    problem: Problem, task: Task, bucket: int, row: Array, y: PyTree, scale: Array
) -> PyTree:
    """phi = s delta Psi_i(y), shaped as the weights."""
    x, y_true = jax.tree.map(lambda leaf: leaf[row], (task.inputs[bucket], task.outputs[bucket]))
    zero = problem.initial_weights
    u = difference(problem, problem.model.potentials(zero, x), y_true, y)
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (x, scaled(u, scale)))
    return problem.space.add(zero, *one)


@program
def _values(problem: Problem, task: Task, slots: tuple[PyTree, ...], w: PyTree) -> list[Array]:
    """[N_b, K] F(x_i, y_i; w) - F(x_i, y; w) of the outputs in the slots, one a bucket."""
    found = []
    for x, outputs in zip(task.inputs, slots, strict=True):
        scores = problem.space.plane_values(w, x, outputs)
        found.append(scores[:, :1] - scores)
    return found


@program
def _sum(
    problem: Problem, task: Task, slots: tuple[PyTree, ...], coefficients: tuple[Array, ...]
) -> PyTree:
    """w = sum_i sum_k c_ik Psi(x_i, y_ik)."""
    w = problem.initial_weights
    for x, outputs, c in zip(task.inputs, slots, coefficients, strict=True):
        w = problem.space.add_planes(w, x, outputs, c)
    return w


@program
def _put(slots: PyTree, row: Array, slot: Array, y: PyTree) -> PyTree:
    """The slots of a bucket with an output more."""
    return jax.tree.map(lambda leaf, one: leaf.at[row, slot].set(one), slots, y)


@partial(jax.jit, static_argnums=1)
def _widened(slots: PyTree, count: int) -> PyTree:
    """Slots [N, K, ...] as [N, count, ...]; new ones hold the true output, as slot 0 does."""

    def wide(leaf: Array) -> Array:
        new = leaf.shape[0], count - leaf.shape[1], *leaf.shape[2:]
        rest = jnp.broadcast_to(leaf[:, :1], new)
        return jnp.concatenate([leaf, rest], axis=1)

    return jax.tree.map(wide, slots)


class Fixed(NamedTuple):
    """What stays as it is during a run.

    Fields:
      rows: [N] the example of each row, -1 where it is padding, which comes last in its bucket.
      place: [N, 2] bucket and row in it. allowed: of the QP, in the units of H.
    """

    problem: Problem
    oracle: str
    task: Task
    formulation: Formulation
    rules: Rules
    rows: np.ndarray
    place: np.ndarray
    variant: str
    allowed: float
    min_margin: float
    look_ahead: int


class Run:
    """S with its planes, w, and what was noted of each constraint."""

    def __init__(self, fixed: Fixed) -> None:
        """S without a constraint, at w = 0."""
        terms = fixed.task.terms
        cap, ridge = (np.asarray(leaf, np.float64) for leaf in (terms.cap, terms.ridge))
        self.fixed, self.dual = fixed, WorkingSetDual(cap, ridge)
        self.used = cap > 0
        self.sizes = np.bincount(fixed.place[fixed.rows >= 0, 0], minlength=len(fixed.task.outputs))
        self.w = fixed.problem.initial_weights
        first = jax.tree.map(lambda leaf: leaf[:, None], fixed.task.outputs)
        self.slots = tuple(_widened(part, _FIRST_SLOTS) for part in first)
        self.filled = np.zeros(len(cap), np.int64)
        self.slot: list[int] = []
        self.scale: list[float] = []
        self.known: set[bytes] = set()
        self.noted: list[tuple[int, int, float, float, float]] = []
        self.epoch, self.calls, self.repeated, self.hopeless = 0, 0, False, False

    def ask(self, first: int, count: int) -> tuple[int, Answer]:
        """(examples answered, the oracle's answers) from the first one on, at the current w."""
        bucket, row = self.fixed.place[first]
        size = self.sizes[bucket]
        real = min(count, size - row)
        index = jnp.asarray(np.minimum(row + np.arange(count), size - 1), jnp.int32)
        found = _ask(
            self.fixed.problem, self.fixed.oracle, self.fixed.task, int(bucket), self.w, index
        )
        return real, jax.tree.map(np.asarray, jax.device_get(found))

    def visit(self, i: int, answer: Answer, at: int) -> bool:
        """Lines 7 to 13 for one example; whether S_i has changed."""
        value, slack = float(answer.value[at]), self.dual.largest()[i]
        violation = value - slack
        if not self.used[i] or not violation > self.fixed.rules.epsilon:
            return False
        y = jax.tree.map(lambda leaf: leaf[at], answer.output)
        key = b"".join([np.int64(i).tobytes(), *(leaf.tobytes() for leaf in jax.tree.leaves(y))])
        if key in self.known:  # rounding alone says that it is violated
            self.repeated = True
            return False
        self.known.add(key)
        before, loss = self.dual.value(), float(answer.loss[at])
        self._add(i, y, loss)
        only = i if self.fixed.variant == "subspace" else None
        self.optimise(only)
        self.noted.append((i, self.epoch, loss, violation, self.dual.value() - before))
        return True

    def _add(self, i: int, y: PyTree, loss: float) -> None:
        """The constraint of y with its row of inner products."""
        fixed, form = self.fixed, self.fixed.formulation
        (bucket, row), slot = fixed.place[i], int(self.filled[i]) + 1
        if slot == jax.tree.leaves(self.slots)[0].shape[1]:
            self.slots = tuple(_widened(part, 2 * slot) for part in self.slots)
        put = _put(self.slots[bucket], jnp.int32(row), jnp.int32(slot), y)
        self.slots = (*self.slots[:bucket], put, *self.slots[bucket + 1 :])
        scale, self.filled[i] = loss**form.scale_power, slot
        dtype = fixed.task.terms.cap.dtype
        plane = _plane(
            fixed.problem, fixed.task, int(bucket), jnp.int32(row), y, jnp.asarray(scale, dtype)
        )
        margins = np.concatenate([
            np.asarray(part, np.float64)
            for part in _values(fixed.problem, fixed.task, self.slots, plane)
        ])  # fmt: skip
        self.slot.append(slot)
        self.scale.append(scale)
        examples = np.append(self.dual.examples, i)
        self.dual.add(i, loss**form.bound_power, margins[examples, self.slot] * self.scale)

    def optimise(self, only: int | None = None) -> bool:
        """The dual over S, or over S_i of one example, and w; whether anything moved."""
        steps = self.dual.steps
        solved = self.dual.solve(
            self.fixed.allowed, only=only, least_margin=self.least_margin(),
            most_steps=MOST_STEPS,
        )  # fmt: skip
        self.hopeless = not solved
        if self.dual.steps > steps:
            self.w = self._weights()
        return self.dual.steps > steps

    def least_margin(self) -> float:
        """Of a hard margin: `min_margin` times the longest plane of S; else 0."""
        if not self.fixed.rules.hard or not self.dual.size:
            return 0.0
        return self.fixed.min_margin * float(np.sqrt(np.max(np.diag(self.dual.gram))))

    def _weights(self) -> PyTree:
        dual, fixed = self.dual, self.fixed
        coefficients = np.zeros((len(self.used), jax.tree.leaves(self.slots)[0].shape[1]))
        alpha = dual.multipliers * self.scale
        coefficients[dual.examples, self.slot] = -alpha
        np.add.at(coefficients[:, 0], dual.examples, alpha)
        ends = np.cumsum([rows_of(part) for part in fixed.task.outputs])[:-1]
        dtype = fixed.task.terms.cap.dtype
        parts = tuple(jnp.asarray(part, dtype) for part in np.split(coefficients, ends))
        return _sum(fixed.problem, fixed.task, self.slots, parts)

    def pass_over(self, add: bool) -> tuple[int, list[Answer]]:
        """(S_i changed, the last answer about each example); add: whether constraints enter.

        Where nothing was added lately some examples are called ahead of their turn, all at the
        current w; what they said is thrown away when w moves before it is their turn.
        """
        order = np.flatnonzero(self.fixed.rows >= 0)
        changed, found, count, at = 0, [], 1, 0
        while at < len(order) and not self.hopeless:
            real, answers = self.ask(order[at], count)
            for seen in range(real):
                added = add and self.visit(int(order[at + seen]), answers, seen)
                changed += added
                if added:
                    break
            self.calls += seen + 1
            found.append(jax.tree.map(lambda leaf, end=seen + 1: leaf[:end], answers))
            at, count = at + seen + 1, 1 if added else self.fixed.look_ahead
        return changed, found

    def terms(self, answers: list[Answer]) -> ExampleTerms:
        """The terms of the certificate from an epoch in which w did not move."""
        dual, n = self.dual, len(self.used)

        def joined(name: str) -> np.ndarray:
            parts = np.concatenate([getattr(answer, name) for answer in answers])
            whole = np.zeros(n, parts.dtype)
            whole[self.fixed.rows >= 0] = parts
            return whole

        value, bound, claim, size = map(joined, Answer._fields[2:])
        reach = np.zeros(n)
        np.maximum.at(reach, dual.examples, np.sqrt(np.maximum(np.diag(dual.gram), 0)))
        return ExampleTerms(
            worst=bound, value=value, slack=np.maximum(bound, 0), known=dual.largest(),
            bound=np.bincount(dual.examples, dual.multipliers * dual.bounds, n),
            product=dual.products(), multiplier_sum=dual.sums(), size=size, reach=reach,
            claim=claim,
        )  # fmt: skip


def certificate_of(run: Run, answers: list[Answer]) -> tuple[Certificate, np.ndarray]:
    """(what the answers at one w prove, [N] slacks)."""
    fixed, terms = run.fixed, run.terms(answers)
    off_by = np.concatenate([
        np.full(rows_of(y), roundings(x))
        for x, y in zip(fixed.task.inputs, fixed.task.outputs, strict=True)
    ])  # fmt: skip
    length = coordinate_norm(fixed.problem, run.w, fixed.task.inputs[0])
    certificate = certify(
        fixed.formulation, fixed.task.terms, terms, coordinates=length, off_by=off_by
    )
    return certificate, terms.slack
