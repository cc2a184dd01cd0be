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

What the text leaves open. "Optimise" is to `exactness` epsilon: no H(y) in S exceeds xi_i by more,
and none with a multiplier lags it by more (`working_set_dual`). The examples come in the order
given; ragged ones bucket after bucket. In variant "subspace" the dual over all of S is optimised
"much less frequently" (thesis 3.5.1): here at the end of an epoch that changed no S_i, and the run
ends with an epoch that follows one and changes nothing either.

Memory is |S|^2 numbers, time grows with |S|^2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import checked_number, checked_size, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.loop.host_loop import (
    Method,
    Progress,
    Round,
    Rules,
    RunState,
    StartCounters,
    begin,
    in_callers_order,
    last_certificate,
    run_state_at,
    solve,
    statistics,
)
from jaxstruct.solvers.loop.status import MESSAGES, Status
from jaxstruct.solvers.loop.trace import Statistics, Trace
from jaxstruct.solvers.n_slack.task import batches_of_class, fewest_batches, make_task, row_index
from jaxstruct.solvers.objective.certificate import (
    Certificate,
)
from jaxstruct.solvers.objective.formulations import Formulation, formulation_named
from jaxstruct.solvers.objective.most_violated import oracle_for
from jaxstruct.solvers.reference.reference_epochs import Fixed, Run, certificate_of
from jaxstruct.solvers.solution import description, summary
from jaxstruct.solvers.validation.checks import (
    check_callback,
    check_is_problem,
    check_run,
    checked_buckets,
    rounding,
)
from jaxstruct.solvers.validation.oracle_rules import check_oracle, confirm, sample_of

VARIANTS = ("full", "subspace")
CHECKED_EXAMPLES = 4


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


class LetterSolution(NamedTuple):
    """The result of `fit_reference`.

    Fields:
      weights: w of the last epoch. status, message: how it ended.
      primal, dual, gap: P, D and P - D; certificate: of the last epoch.
      slack: [n] max(0, max_y H(y)), in the order of the examples.
      constraints: |S|, the number that the tables of the papers print as "Const".
      epochs: passes over the examples, the last one, which changed nothing, among them: "Iter".
      course: what each constraint did.
      statistics: counts and times; passes are epochs, planes are constraints.
      formulation, C: what was solved.
    """

    weights: PyTree
    status: Status
    message: str
    primal: float
    dual: float
    gap: float
    certificate: Certificate
    slack: np.ndarray
    constraints: int
    epochs: int
    course: Course
    statistics: Statistics
    formulation: str
    C: float

    def __repr__(self) -> str:
        """One line without the arrays."""
        return summary(self, self.epochs, self.constraints)

    def __str__(self) -> str:
        """A few lines: how it ended, the certificate, counts and seconds by part."""
        return description(self)

    @property
    def trace(self) -> Trace:
        """The course of the training, a row a round, as a table; it can be printed and saved."""
        return self.statistics.history


def _method(fixed: Fixed) -> Method:
    """An epoch a round; certified where w did not move in it, and at the last."""

    def step(now: RunState) -> tuple[Run, Round]:
        run: Any = now.state
        run.epoch, before = run.epoch + 1, run.calls
        changed, answers = run.pass_over(add=True)
        moved = changed > 0
        if not changed and not run.hopeless:
            moved = fixed.variant == "subspace" and run.optimise()
        last = run.hopeless or (moved and run.epoch >= fixed.rules.max_passes)
        if last:
            run.hopeless = False
            _, answers = run.pass_over(add=False)
        dual = run.dual.value()
        certificate, slack = (None, None) if moved and not last else certificate_of(run, answers)
        still = not moved or last  # the next epoch would be the same as this
        return run, Round(
            certificate=certificate,
            primal=np.inf if certificate is None else certificate.primal,
            dual=dual,
            planes_added=changed,
            oracle_calls=run.calls - before,
            clock=fixed.rules.max_passes if still else run.epoch,
            seconds={},
            weights=run.w,
            slack=slack,
            least_margin=run.least_margin(),
            state=run,
        )

    def certify_now(now: RunState) -> tuple[Run, Round]:
        run: Any = now.state
        before = run.calls
        _, answers = run.pass_over(add=False)
        certificate, slack = certificate_of(run, answers)
        return run, Round(
            certificate, certificate.primal, certificate.dual, 0, run.calls - before, run.epoch,
            {}, run.w, slack, state=run,
        )  # fmt: skip

    return Method(step, certify_now)


def most_constraints(
    formulation: str | Formulation,
    C: float,
    n: int,
    epsilon: float,
    radius: float,
    loss: float = 1.0,
) -> float:
    """How many constraints algorithm 3 adds at most (theorem 3; JMLR, theorem 18).

    SVM1: max{2 n Delta / epsilon, 8 C Delta s^2 R^2 / epsilon^2}; SVM2: (C Delta s^2 R^2 + n Delta)
    / epsilon^2, where s^2 is Delta^2 (SVM1) or Delta (SVM2) of slack re-scaling and 1 of margin
    re-scaling. Without re-scaling Delta is 1.

    Args:
      formulation: any but svm0, whose bound is R^2 / (gamma epsilon)^2 (theorem 2).
      C, n, epsilon: of the run. radius: R = max_i,y |delta Psi_i(y)|.
      loss: Delta = max_i,y Delta(y_i, y), not read without re-scaling.

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
    return (C * delta * scaled_radius + n * delta) / epsilon**2


def _course(run: Run, rows: np.ndarray) -> Course:
    """What was noted, by the caller's numbers of the examples."""
    columns = np.array(run.noted, np.float64).reshape(-1, 5).T
    example, epoch = rows[columns[0].astype(np.int64)], columns[1].astype(np.int64)
    lengths = np.sqrt(np.maximum(np.diag(run.dual.gram), 0)) / np.asarray(run.scale)
    loss, violation, rise = columns[2:]
    multipliers = run.dual.multipliers.copy()
    return Course(example, epoch, loss, violation, rise, lengths, multipliers)


def _solution(
    fixed: Fixed, now: RunState, start: StartCounters, status: Status, rows: np.ndarray
) -> LetterSolution:
    """What the end of a run says."""
    best, run = now.best, now.state
    certificate, slack = last_certificate(best)
    support = int(np.sum(run.dual.multipliers > 0))
    if status is Status.PASS_LIMIT and run.repeated:
        status = Status.ROUNDING
    return LetterSolution(
        weights=best.weights,
        status=status,
        message=MESSAGES[status],
        primal=best.primal,
        dual=best.dual,
        gap=best.primal - best.dual,
        certificate=certificate,
        slack=in_callers_order(slack, rows),
        constraints=run.dual.size,
        epochs=run.epoch,
        course=_course(run, rows),
        statistics=statistics(now, start, run.dual.size, support, int(np.max(run.filled)) + 1),
        formulation=fixed.formulation.name,
        C=fixed.rules.C,
    )


def _check_choices(variant: str, exactness: float) -> None:
    if variant not in VARIANTS:
        raise ValueError(f"variant is {text_of(variant)}; choose one of {VARIANTS}")
    if checked_number("exactness", exactness, strict=True) >= 1:
        raise ValueError(f"exactness is a part of epsilon, between 0 and 1, got {exactness}")


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
    example_weights: np.ndarray | None = None,
    max_epochs: int = 1000,
    min_margin: float = 1e-3,
    look_ahead: int = 1,
    callback: Callable[[Progress], bool | None] | None = None,
) -> LetterSolution:
    """Train a structural SVM by algorithm 2 or 3 as printed; see the module.

    The objectives are those of `fit`. The number of constraints is bounded: theorem 2 (SVM0),
    R^2 / (gamma epsilon)^2; theorem 3, for example (C Delta R^2 + n Delta) / epsilon^2 of
    svm2_margin, with R = max |delta Psi_i(y)| and Delta the largest loss.

    Args:
      problem, inputs, outputs, formulation, C, example_weights, min_margin: as in `fit`.
      epsilon: a constraint is added where H(y) > xi_i + epsilon; the papers have 0.01 and 0.1.
      variant: "full", the QP over all of S after every constraint (step 10a), or "subspace", over
        S_i alone (step 10b).
      exactness: part of epsilon to which a QP is solved.
      max_epochs: bound on the passes over the examples.
      look_ahead: examples called in one batch where nothing was added lately. Their answers count
        only while w stays as it is, so this changes the time alone.
      callback: called after each epoch with a `Progress`; a true answer stops the run.

    Returns:
      A LetterSolution; look at its status before its weights. It is EPSILON at the regular end.

    Raises:
      ValueError: an argument does not fit, or the problem breaks a rule on a few of the examples.

    Source: thesis, algorithms 2 and 3 (3.5.1, 3.7.3); JMLR 6:1453-1484, algorithm 1.
    """
    check_is_problem(problem)
    formulation = formulation_named(formulation)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    max_epochs = checked_size("max_epochs", max_epochs)
    look_ahead = checked_size("look_ahead", look_ahead)
    check_run(C, None, epsilon, max_epochs, min_margin, dtype)
    check_callback(callback)
    _check_choices(variant, exactness)
    inputs, outputs = checked_buckets(problem, inputs, outputs, example_weights)
    shapes = [batches_of_class(len(own), 1, 1, fewest_batches(1)) for own in outputs.index]
    task = make_task(problem, inputs, outputs, formulation, C, example_weights, shapes)
    rows = row_index(outputs.index, shapes)
    sample = sample_of(problem, inputs, outputs, CHECKED_EXAMPLES)
    check_oracle(problem, formulation, sample)
    hard = formulation.penalty == 0
    rules = Rules(None, epsilon, max_epochs, float(C), hard, rounding(dtype))
    place = np.array([(b, row) for b, (size, _) in enumerate(shapes) for row in range(size)])
    fixed = Fixed(
        problem, oracle_for(problem, formulation), task, formulation, rules, rows, place, variant,
        exactness * epsilon, min_margin, look_ahead,
    )  # fmt: skip
    run, start = Run(fixed), begin()
    now, status = solve(_method(fixed), run_state_at(run, run.w), rules, start, callback)
    status = confirm(status, problem, formulation, sample, now.best.weights)
    return _solution(fixed, now, start, status, rows)
