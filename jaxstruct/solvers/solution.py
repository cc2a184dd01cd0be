"""What a run returns: weights, dual variables, certificate, status; and what it says of them."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.checks import kind_and_text_of, text_of
from jaxstruct.core.status import MESSAGES, Status
from jaxstruct.core.types import AnyArray, PyTree
from jaxstruct.solvers.loop.host_loop import Best, in_callers_order
from jaxstruct.solvers.loop.trace import Statistics, Trace
from jaxstruct.solvers.objective.certificate import Certificate

WIDTH = 100
"""Characters in a line of what `print` shows."""


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float)) else text_of(value)


class Solution(NamedTuple):
    """The result of a training: of `fit`, `fit_in_blocks` and the other solvers.

    Fields:
      weights: w of the best primal found. status, message: how it ended.
      primal, dual, gap: best P, best D and P - D; P >= optimum >= D given an exact oracle, up to
        certificate.rounding.
      certificate: of the last certified round. slack: [n] xi_i of the w that it speaks of (for SVM0
        before its scale).
      statistics: counts and times.
      formulation, C: what was solved.
      state: to go on from (dual variables, planes), None where the solver keeps none; the
        `SupportOutputs` alone in the solution_ of an estimator.
      details: what this solver alone says, such as `FitDetails`.
    """

    weights: PyTree
    status: Status
    message: str
    primal: float
    dual: float
    gap: float
    certificate: Certificate
    slack: np.ndarray
    statistics: Statistics
    formulation: str
    C: float
    state: Any = None
    details: Any = None

    def __repr__(self) -> str:
        """One line without the arrays."""
        numbers = (f"{name}={_number(getattr(self, name))}" for name in ("primal", "dual", "gap"))
        return (
            f"Solution(status={self.status}, formulation={self.formulation!r}, "
            f"C={_number(self.C)}, {', '.join(numbers)}, "
            f"passes={_number(self.statistics.passes)}, "
            f"planes={_number(self.statistics.planes_kept)})"
        )

    def __str__(self) -> str:
        """A few lines: how it ended, the certificate, counts and seconds by part."""
        counts = self.statistics
        relative = self.gap / abs(self.primal) if self.primal else 0.0
        parts = {name: value for name, value in counts.seconds.items() if name != "total"}
        ranked = sorted(parts.items(), key=lambda part: -part[1])
        spent = ", ".join(f"{value:.2f} {name}" for name, value in ranked)
        total = counts.seconds.get("total", sum(parts.values()))
        return "\n".join(
            [
                *textwrap.wrap(f"{self.status}: {self.message}", WIDTH),
                f"{self.formulation}, C = {_number(self.C)}, {len(self.slack)} examples",
                f"primal {_number(self.primal)}, dual {_number(self.dual)}, "
                f"gap {_number(self.gap)} (relative {relative:.1e})",
                f"{counts.passes} rounds, {counts.oracle_calls} oracle calls, "
                f"{counts.planes_kept} planes, {counts.support_planes} of them support planes",
                f"{total:.2f} seconds" + (f": {spent}" if spent else ""),
            ]
        )

    @property
    def trace(self) -> Trace:
        """The course of the training, a row a round, as a table; it can be printed and saved."""
        return self.statistics.history


class FitDetails(NamedTuple):
    """What `fit` says besides.

    Fields:
      rows: [N] the example of every row of the state, -1 where it is padding.
      fingerprint: the sha256 of the problem's functions and tables, by which a start is known.
    """

    rows: np.ndarray
    fingerprint: str


def solution_of_run(
    best: Best,
    status: Status,
    statistics: Statistics,
    formulation: str,
    C: float,
    rows: np.ndarray | None = None,
    **others: Any,
) -> Solution:
    """What a run has found whose best round is this one.

    Args:
      rows: [N] the example of each row of its slack; None where these are the examples in order.
      others: fields of the Solution, such as its state or a message of the solver's own.
    """
    certificate, slack = best.certificate, best.slack
    if certificate is None or slack is None:  # a `Method` must not leave it so
        raise RuntimeError("the run ended without a certificate")
    found = Solution(
        weights=best.weights,
        status=status,
        message=MESSAGES[status],
        primal=best.primal,
        dual=best.dual,
        gap=best.primal - best.dual,
        certificate=certificate,
        slack=slack if rows is None else in_callers_order(slack, rows),
        statistics=statistics,
        formulation=formulation,
        C=C,
    )
    return found._replace(**others)


def check_of_fit(name: str, solution: Any, why: str = "", *, whole: bool = True) -> None:
    """Raise ValueError unless it is a Solution of `fit`.

    Args:
      why: what only such a one can do. whole: whether it must have its dual variables.
    """
    if isinstance(solution, Solution) and isinstance(solution.details, FitDetails):
        if whole and (solution.state is None or isinstance(solution.state, SupportOutputs)):
            raise ValueError(
                f"{name} must have its dual variables, got the solution_ of an estimator, which "
                "keeps its support outputs at most: train with jaxstruct.fit instead"
            )
        return
    got = kind_and_text_of(solution)
    if isinstance(solution, Solution):
        got = f"one with {type(solution.details).__name__}, of another solver"
    raise ValueError(f"{name} must be a Solution of fit, got {got}{why}")


class SupportOutputs(NamedTuple):
    """The support vectors of a structural SVM: pairs (example, output) with alpha > 0.

    Fields:
      example: [M] positions in the training set.
      output: padded outputs, one pytree of [M, ...]; of a ragged training set that was padded in
        several length buckets one of [M_b, ...] a bucket, the M pairs being sorted by bucket.
      alpha: [M] dual variables of the thesis (s beta). loss: [M] Delta(y_i, y).
      slack: [M] xi_i of the example.
      buckets: how many there are.
    """

    example: np.ndarray
    output: PyTree
    alpha: np.ndarray
    loss: np.ndarray
    slack: np.ndarray
    buckets: int = 1


def support_outputs(solution: Solution) -> SupportOutputs:
    """Which outputs carry the solution, example by example (thesis 3.5: a sparse solution)."""
    if isinstance(solution.state, SupportOutputs):
        return solution.state
    if solution.state is None:
        raise ValueError(
            "solution has no support outputs: it is of a pickle or copy of an estimator, or of a "
            "solver that keeps none; take that of the estimator that was fitted, or of fit"
        )
    sets, rows = solution.state.sets, solution.details.rows
    row, slot = np.nonzero((np.asarray(sets.multipliers) > 0) & (rows >= 0)[:, None])
    example = rows[row]

    def pick(leaf: AnyArray) -> np.ndarray:
        return np.asarray(leaf)[row, slot]

    outputs = []
    for bucket, own in zip(sets.outputs, bucket_slices(sets.outputs), strict=True):
        inside = (row >= own.start) & (row < own.stop)
        at = (row[inside] - own.start, slot[inside])
        outputs.append(jax.tree.map(lambda leaf, at=at: np.asarray(leaf)[at], bucket))
    return SupportOutputs(
        example=example,
        output=outputs[0] if len(outputs) == 1 else tuple(outputs),
        alpha=pick(sets.multipliers) * pick(sets.scales),
        loss=pick(sets.losses),
        slack=solution.slack[example],
        buckets=len(outputs),
    )
