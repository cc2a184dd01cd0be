"""What a run returns: weights, dual variables, certificate, status; and what it says of them."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.checks import text_of
from jaxstruct.core.types import AnyArray, PyTree
from jaxstruct.solvers.loop.status import Status
from jaxstruct.solvers.loop.trace import Statistics, Trace
from jaxstruct.solvers.n_slack.state import State
from jaxstruct.solvers.objective.certificate import Certificate

WIDTH = 100
"""Characters in a line of what `print` shows."""


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float)) else text_of(value)


def summary(solution: Any, passes: int, planes: int) -> str:
    """A solution of any of the solvers in one line, without its arrays."""
    numbers = (f"{name}={_number(getattr(solution, name))}" for name in ("primal", "dual", "gap"))
    return (
        f"{type(solution).__name__}(status={solution.status}, "
        f"formulation={solution.formulation!r}, C={_number(solution.C)}, {', '.join(numbers)}, "
        f"passes={_number(passes)}, planes={_number(planes)})"
    )


def description(solution: Any) -> str:
    """A solution with `statistics` in a few lines, without its arrays: what `print` shows."""
    counts = solution.statistics
    relative = solution.gap / abs(solution.primal) if solution.primal else 0.0
    parts = {name: value for name, value in counts.seconds.items() if name != "total"}
    ranked = sorted(parts.items(), key=lambda part: -part[1])
    spent = ", ".join(f"{value:.2f} {name}" for name, value in ranked)
    total = counts.seconds.get("total", sum(parts.values()))
    return "\n".join(
        [
            *textwrap.wrap(f"{solution.status}: {solution.message}", WIDTH),
            f"{solution.formulation}, C = {_number(solution.C)}, {len(solution.slack)} examples",
            f"primal {_number(solution.primal)}, dual {_number(solution.dual)}, "
            f"gap {_number(solution.gap)} (relative {relative:.1e})",
            f"{counts.passes} rounds, {counts.oracle_calls} oracle calls, "
            f"{counts.planes_kept} planes, {counts.support_planes} of them support planes",
            f"{total:.2f} seconds" + (f": {spent}" if spent else ""),
        ]
    )


class Solution(NamedTuple):
    """The result of `fit`.

    Fields:
      weights: w of the best primal found. status, message: how it ended.
      primal, dual, gap: best P, best D and P - D; P >= optimum >= D given an exact oracle, up to
        certificate.rounding.
      certificate: of the last certified round. slack: [n] its xi_i.
      rows: [N] the example of every row of the state, -1 where it is padding.
      statistics: counts and times.
      formulation, C: what was solved. state: to go on from (dual variables and working sets).
      fingerprint: the sha256 of the problem's functions and tables, by which a start is known.
    """

    weights: PyTree
    status: Status
    message: str
    primal: float
    dual: float
    gap: float
    certificate: Certificate
    slack: np.ndarray
    rows: np.ndarray
    statistics: Statistics
    formulation: str
    C: float
    state: State
    fingerprint: str

    def __repr__(self) -> str:
        """One line without the arrays."""
        return summary(self, self.statistics.passes, self.statistics.planes_kept)

    def __str__(self) -> str:
        """A few lines: how it ended, the certificate, counts and seconds by part."""
        return description(self)

    @property
    def trace(self) -> Trace:
        """The course of the training, a row a round, as a table; it can be printed and saved."""
        return self.statistics.history


class SupportOutputs(NamedTuple):
    """The support vectors of a structural SVM: pairs (example, output) with alpha > 0.

    Fields:
      example: [M] positions in the training set.
      output: padded outputs, one pytree of [M, ...]; of a ragged training set that was padded in
        several length buckets one of [M_b, ...] a bucket, the M pairs being sorted by bucket.
      alpha: [M] dual variables of the thesis (s beta). loss: [M] Delta(y_i, y).
      slack: [M] xi_i of the example.
    """

    example: np.ndarray
    output: PyTree
    alpha: np.ndarray
    loss: np.ndarray
    slack: np.ndarray


def support_outputs(solution: Solution) -> SupportOutputs:
    """Which outputs carry the solution, example by example (thesis 3.5: a sparse solution)."""
    sets, rows = solution.state.sets, solution.rows
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
    )
