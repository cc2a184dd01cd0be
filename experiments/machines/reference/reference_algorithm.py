"""Algorithms 2 and 3 as they are printed: one example at a time, the QP solved after every plane.

    repeat
        for i = 1, ..., n
            y = argmax_y H(y),   xi_i = max(0, max over S_i of H)
            if H(y) > xi_i + epsilon
                S_i <- S_i + {y}
                optimise the dual over S = union S_i   (variant "full", step 10a)
                              or over S_i alone        (variant "subspace", step 10b)
    until no S_i has changed in an epoch

(thesis, algorithms 2 and 3; JMLR, algorithm 1). `fit` reaches the same optimum in far less time: it
calls many examples at one w, adds their planes together, and lets multipliers lag. So its number of
constraints is not the papers'. This solver is for that number, and for the propositions about it.
The loop above is `_Run.pass_over`; what it calls follows below it, the QP is in `working_set_dual`.

What the text leaves open. "Optimise" is to `exactness` epsilon: no H(y) in S exceeds xi_i by more,
and none with a multiplier lags it by more (`working_set_dual`). The examples come in the order
given; ragged ones bucket after bucket. In variant "subspace" the dual over all of S is optimised
"much less frequently" (thesis 3.5.1): here at the end of an epoch that changed no S_i, and the run
ends with an epoch that follows one and changes nothing either.

Memory is |S|^2 numbers, time grows with |S|^2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.machines.reference.working_set_dual import WorkingSetDual
from jaxstruct.core.buckets import rows_of
from jaxstruct.core.checks import checked_size
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.problem import difference
from jaxstruct.core.status import Status
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.loop.host_loop import (
    Method,
    Progress,
    Round,
    Rules,
    RunState,
    StartCounters,
    begin,
    run_state_at,
    solve,
    statistics,
)
from jaxstruct.solvers.n_slack.task import Task, batches_of_class, fewest_batches
from jaxstruct.solvers.objective.certificate import (
    Certificate,
    ExampleTerms,
    certify,
    coordinate_norm,
    roundings,
)
from jaxstruct.solvers.objective.formulations import (
    Formulation,
    Objective,
    formulation_named,
    power_of_loss,
)
from jaxstruct.solvers.objective.most_violated import most_violated, oracle_for, terms_size
from jaxstruct.solvers.prepare import check_watching, checked_rules, prepare_examples
from jaxstruct.solvers.solution import Solution, solution_of_run
from jaxstruct.solvers.validation.oracle_rules import confirm

_FIRST_SLOTS = 8


def fit_reference(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    formulation: str | Formulation = "svm1_margin",
    C: float = 1.0,
    *,
    epsilon: float = 0.01,
    variant: str = "full",
    exactness: float = 1e-3,
    max_epochs: int = 1000,
    min_margin: float = 1e-3,
    look_ahead: int = 1,
    callback: Callable[[Progress], bool | None] | None = None,
) -> Solution:
    """Train a structural SVM by algorithm 2 or 3 as printed; see the module.

    The objectives are those of `fit`. The number of constraints is bounded: theorem 2 (SVM0),
    R^2 / (gamma epsilon)^2; theorem 3, for example (C Delta R^2 + n Delta) / epsilon^2 of
    svm2_margin, with R = max |delta Psi_i(y)| and Delta the largest loss (`most_constraints`).

    Args:
      problem, inputs, outputs, formulation, C, min_margin: as in `fit`.
      epsilon: a constraint is added where H(y) > xi_i + epsilon; the papers have 0.01 and 0.1.
      variant: "full", the QP over all of S after every constraint (step 10a), or "subspace", over
        S_i alone (step 10b).
      exactness: part of epsilon, below 1, to which a QP is solved.
      max_epochs: bound on the passes over the examples.
      look_ahead: examples called in one batch where nothing was added lately. Their answers count
        only while w stays as it is, so this changes the time alone.
      callback: called after each epoch with a `Progress`; a true answer stops the run.

    Returns:
      A Solution of the last epoch; its status is EPSILON at the regular end. Its statistics have
      as passes the epochs, the last one, which changed nothing, among them ("Iter" in the tables
      of the papers), as planes_kept the constraints |S| ("Const"). details: their `Course`.

    Raises:
      ValueError: an argument does not fit, or the problem breaks a rule on a few of the examples.

    Source: thesis, algorithms 2 and 3 (3.5.1, 3.7.3); JMLR 6:1453-1484, algorithm 1.
    """
    max_epochs = checked_size("max_epochs", max_epochs)
    look_ahead = checked_size("look_ahead", look_ahead)
    given = problem, formulation, C, None, epsilon, max_epochs, min_margin
    formulation, rules = checked_rules(*given)
    check_watching(callback, False)
    task, rows, _, sample = prepare_examples(
        Objective(problem, inputs, outputs, formulation, C),
        lambda counts: [batches_of_class(count, 1, 1, fewest_batches(1)) for count in counts],
    )  # fmt: skip
    sizes = map(rows_of, task.outputs)
    place = np.array([(b, row) for b, size in enumerate(sizes) for row in range(size)])
    run = _Run(
        problem, oracle_for(problem, formulation), task, formulation, rules, rows, place, variant,
        exactness * epsilon, min_margin, look_ahead,
    )  # fmt: skip
    start = begin()
    method = Method(partial(_step, run), partial(_certify_now, run))
    now, status = solve(method, run_state_at(run, run.w), rules, start, callback)
    status = confirm(status, problem, formulation, sample, now.best.weights)
    return _solution(run, now, start, status)


@dataclass
class _Run:
    """S with its planes, w, and what was noted of each constraint.

    Attributes:
      rows: [N] the example of each row, -1 where it is padding, which comes last in its bucket.
      place: [N, 2] bucket and row in it. allowed: of the QP, in the units of H.
      dual: S with its multipliers. w: of these. epoch: passes begun.
      answers: the last about each example. calls: of the oracle.
      hopeless: the QP was given up. repeated: rounding alone held a constraint of S violated.
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

    def __post_init__(self) -> None:
        """S without a constraint, at w = 0."""
        terms = self.task.terms
        cap, ridge = (np.asarray(leaf, np.float64) for leaf in (terms.cap, terms.ridge))
        self.dual, self.used = WorkingSetDual(cap, ridge), cap > 0
        self.real = np.flatnonzero(self.rows >= 0)
        self.sizes = np.bincount(self.place[self.real, 0], minlength=len(self.task.outputs))
        self.w = self.problem.initial_weights
        first = jax.tree.map(lambda leaf: leaf[:, None], self.task.outputs)
        self.slots = tuple(_widened(part, _FIRST_SLOTS) for part in first)
        self.filled = np.zeros(len(cap), np.int64)
        self.slot: list[int] = []
        self.scale: list[float] = []
        self.known: set[bytes] = set()
        self.noted: list[tuple[int, int, float, float, float]] = []
        self.answers: dict[int, _Answer] = {}
        self.calls = self.epoch = 0
        self.repeated = self.hopeless = False

    def pass_over(self) -> int:
        """The printed loop over the examples; how many S_i have changed."""
        changed = 0
        for i, answer in self.most_violated():
            violation = float(answer.value) - self.dual.largest()[i]
            if self.used[i] and violation > self.rules.epsilon and self.is_new(i, answer):
                before, loss = self.dual.value(), float(answer.loss)
                self.add(i, answer.output, loss)
                self.optimise(i if self.variant == "subspace" else None)
                rise = self.dual.value() - before
                self.noted.append((i, self.epoch, loss, violation, rise))
                changed += 1
            if self.hopeless:
                break
        return changed

    def most_violated(self) -> Iterator[tuple[int, _Answer]]:
        """Each example in turn with argmax H at the w of its turn.

        Where nothing was added lately some examples are called ahead of their turn, all at the
        current w; what they said is thrown away when S changes before it is their turn.
        """
        at, count = 0, 1
        while at < len(self.real):
            size, found = self._ask(self.real[at], count)
            count = self.look_ahead
            for part in range(size):
                i, before = int(self.real[at]), self.dual.size
                self.answers[i] = jax.tree.map(lambda leaf, part=part: leaf[part], found)
                self.calls, at = self.calls + 1, at + 1
                yield i, self.answers[i]
                if self.dual.size > before:
                    count = 1
                    break

    def is_new(self, i: int, answer: _Answer) -> bool:
        """Whether y is not in S_i; if it is, rounding alone says that it is violated."""
        leaves = jax.tree.leaves(answer.output)
        key = b"".join([np.int64(i).tobytes(), *(leaf.tobytes() for leaf in leaves)])
        known = key in self.known
        self.repeated |= known
        self.known.add(key)
        return not known

    def add(self, i: int, y: PyTree, loss: float) -> None:
        """S_i <- S_i + {y}: the constraint with its row of inner products."""
        form, (bucket, row), slot = self.formulation, self.place[i], int(self.filled[i]) + 1
        if slot == jax.tree.leaves(self.slots)[0].shape[1]:
            self.slots = tuple(_widened(part, 2 * slot) for part in self.slots)
        put = _put(self.slots[bucket], jnp.int32(row), jnp.int32(slot), y)
        self.slots = (*self.slots[:bucket], put, *self.slots[bucket + 1 :])
        scale, self.filled[i] = loss**form.scale_power, slot
        factor = jnp.asarray(scale, self.task.terms.cap.dtype)
        plane = _plane(self.problem, self.task, int(bucket), jnp.int32(row), y, factor)
        values = _values(self.problem, self.task, self.slots, plane)
        margins = np.concatenate([np.asarray(part, np.float64) for part in values])
        self.slot.append(slot)
        self.scale.append(scale)
        examples = np.append(self.dual.examples, i)
        self.dual.add(i, loss**form.bound_power, margins[examples, self.slot] * self.scale)

    def optimise(self, only: int | None = None) -> bool:
        """The dual over S, or over S_i of one example, and w; whether anything moved."""
        steps = self.dual.steps
        solved = self.dual.solve(self.allowed, only=only, least_margin=self.least_margin())
        self.hopeless = not solved
        if self.dual.steps > steps:
            self.w = self._weights()
        return self.dual.steps > steps

    def least_margin(self) -> float:
        """Of a hard margin: `min_margin` times the longest plane of S; else 0."""
        if not self.rules.hard or not self.dual.size:
            return 0.0
        return self.min_margin * float(np.sqrt(np.max(np.diag(self.dual.gram))))

    def _weights(self) -> PyTree:
        """W = sum over S of beta phi, by the outputs in the slots."""
        dual, dtype = self.dual, self.task.terms.cap.dtype
        coefficients = np.zeros((len(self.used), jax.tree.leaves(self.slots)[0].shape[1]))
        alpha = dual.multipliers * self.scale
        coefficients[dual.examples, self.slot] = -alpha
        np.add.at(coefficients[:, 0], dual.examples, alpha)
        ends = np.cumsum([rows_of(part) for part in self.task.outputs])[:-1]
        parts = tuple(jnp.asarray(part, dtype) for part in np.split(coefficients, ends))
        return _sum(self.problem, self.task, self.slots, parts)

    def _ask(self, first: int, count: int) -> tuple[int, _Answer]:
        """(examples answered, the oracle's answers) from the first one on, at the current w."""
        bucket, row = self.place[first]
        size = self.sizes[bucket]
        index = jnp.asarray(np.minimum(row + np.arange(count), size - 1), jnp.int32)
        found = _ask(self.problem, self.oracle, self.task, int(bucket), self.w, index)
        return min(count, size - row), jax.tree.map(np.asarray, jax.device_get(found))

    def certificate(self) -> tuple[Certificate, np.ndarray]:
        """(what the answers prove, all at one w, [N] slacks)."""
        dual, n = self.dual, len(self.used)

        def of_all(name: str) -> np.ndarray:
            parts = np.stack([getattr(self.answers[int(i)], name) for i in self.real])
            whole = np.zeros(n, parts.dtype)
            whole[self.real] = parts
            return whole

        value, bound, claim, size = map(of_all, _Answer._fields[2:])
        reach = np.zeros(n)
        np.maximum.at(reach, dual.examples, np.sqrt(np.maximum(np.diag(dual.gram), 0)))
        terms = ExampleTerms(
            worst=bound, value=value, slack=np.maximum(bound, 0), known=dual.largest(),
            bound=np.bincount(dual.examples, dual.multipliers * dual.bounds, n),
            product=dual.products(), multiplier_sum=dual.sums(), size=size, reach=reach,
            claim=claim,
        )  # fmt: skip
        inputs = zip(self.task.inputs, self.task.outputs, strict=True)
        off_by = np.concatenate([np.full(rows_of(y), roundings(x)) for x, y in inputs])
        length = coordinate_norm(self.problem, self.w, self.task.inputs[0])
        certificate = certify(
            self.formulation, self.task.terms, terms, coordinates=length, off_by=off_by
        )
        return certificate, terms.slack


def _step(run: _Run, _: RunState) -> tuple[_Run, Round]:
    """An epoch a round; certified where w did not move in it, and at the last."""
    run.epoch, before = run.epoch + 1, run.calls
    changed = run.pass_over()
    moved = changed > 0
    if not changed and not run.hopeless:
        moved = run.variant == "subspace" and run.optimise()
    last = run.hopeless or (moved and run.epoch >= run.rules.max_passes)
    if last:
        run.hopeless = False
        _look_again(run)
    certificate, slack = (None, None) if moved and not last else run.certificate()
    still = not moved or last  # the next epoch would be the same as this
    return run, Round(
        certificate=certificate,
        primal=np.inf if certificate is None else certificate.primal,
        dual=run.dual.value(),
        planes_added=changed,
        oracle_calls=run.calls - before,
        clock=run.rules.max_passes if still else run.epoch,
        seconds={},
        weights=run.w,
        slack=slack,
        least_margin=run.least_margin(),
        state=run,
    )


def _certify_now(run: _Run, _: RunState) -> tuple[_Run, Round]:
    before = run.calls
    _look_again(run)
    certificate, slack = run.certificate()
    return run, Round(
        certificate, certificate.primal, certificate.dual, 0, run.calls - before, run.epoch, {},
        run.w, slack, state=run,
    )  # fmt: skip


def _look_again(run: _Run) -> None:
    """All answers at the current w; no constraint is added."""
    for _ in run.most_violated():
        pass


class _Answer(NamedTuple):
    """What the oracle says of examples, all [B, ...], or of one."""

    output: PyTree
    loss: Array
    value: Array
    bound: Array
    claim: Array
    size: Array


@partial(program, static_argnums=(1, 3))
def _ask(
    problem: Problem, oracle: str, task: Task, bucket: int, w: PyTree, index: Array
) -> _Answer:
    """The most violated outputs of some examples of a bucket at w."""
    x, y_true = jax.tree.map(lambda leaf: leaf[index], (task.inputs[bucket], task.outputs[bucket]))
    theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
    found = jax.vmap(partial(most_violated, problem, oracle, task.terms))(theta, y_true)
    scale = power_of_loss(found.loss, task.terms.scale_power)
    bound = power_of_loss(found.loss, task.terms.bound_power)
    size = terms_size(scale, bound, jax.vmap(problem.model.score)(theta, y_true), found.bound)
    return _Answer(*found, size)


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


class Course(NamedTuple):
    """The constraints in the order in which they were added, m of them.

    Fields:
      example: [m] i. epoch: [m] 1 in the first. loss: [m] Delta(y_i, y).
      violation: [m] H(y) - xi_i when it was added, above epsilon.
      rise: [m] by how much the dual rose when it was optimised with the constraint.
      length: [m] |delta Psi_i(y)|.
      multiplier: [m] beta at the end; the thesis's alpha is s beta.
    """

    example: np.ndarray
    epoch: np.ndarray
    loss: np.ndarray
    violation: np.ndarray
    rise: np.ndarray
    length: np.ndarray
    multiplier: np.ndarray


def _course(run: _Run) -> Course:
    """What was noted, by the caller's numbers of the examples."""
    columns = np.array(run.noted, np.float64).reshape(-1, 5).T
    example, epoch = run.rows[columns[0].astype(np.int64)], columns[1].astype(np.int64)
    lengths = np.sqrt(np.maximum(np.diag(run.dual.gram), 0)) / np.asarray(run.scale)
    loss, violation, rise = columns[2:]
    multipliers = run.dual.multipliers.copy()
    return Course(example, epoch, loss, violation, rise, lengths, multipliers)


def _solution(run: _Run, now: RunState, start: StartCounters, status: Status) -> Solution:
    """What the end of a run says."""
    support = int(np.sum(run.dual.multipliers > 0))
    if status is Status.PASS_LIMIT and run.repeated:
        status = Status.ROUNDING
    counts = statistics(now, start, run.dual.size, support, int(np.max(run.filled)) + 1)
    return solution_of_run(
        now.best, status, counts, run.formulation.name, run.rules.C, run.rows, details=_course(run)
    )


def most_constraints(
    formulation: str | Formulation,
    C: float,
    n: int,
    epsilon: float,
    radius: float,
    loss: float = 1.0,
    variant: str = "full",
) -> float:
    """How many constraints algorithm 3 adds at most (theorem 3; JMLR, theorem 18).

    SVM1: max{2 n Delta / epsilon, 8 C Delta s^2 R^2 / epsilon^2}; SVM2: (C Delta s^2 R^2 + n Delta)
    / epsilon^2, where s^2 is Delta^2 (SVM1) or Delta (SVM2) of slack re-scaling and 1 of margin
    re-scaling. Without re-scaling Delta is 1. Of SVM2 this is proven for step 10a alone: after
    10b a constraint may raise the dual by a quarter of what propositions 14 and 15 say, so that the
    bound is four times as high.

    Args:
      formulation: any but svm0, whose bound is R^2 / (gamma epsilon)^2 (theorem 2).
      C, n, epsilon: of the run. radius: R = max_i,y |delta Psi_i(y)|.
      loss: Delta = max_i,y Delta(y_i, y), not read without re-scaling.
      variant: as in `fit_reference`.

    Raises:
      ValueError: the formulation is svm0.
    """
    form = formulation_named(formulation)
    if form.penalty == 0:
        raise ValueError("svm0 has the bound R^2 / (gamma epsilon)^2, of its margin gamma")
    delta = loss if form.bound_power else 1.0
    scaled_radius = delta ** (2 * form.scale_power) * radius**2
    if form.penalty == 1:
        return max(2 * n * delta / epsilon, 8 * C * delta * scaled_radius / epsilon**2)
    times = 4 if variant == "subspace" else 1
    return times * (C * delta * scaled_radius + n * delta) / epsilon**2
