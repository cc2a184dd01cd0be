"""Conditional random fields by ascent in the dual, a few examples at a time.

    max_mu  D = C/n sum_i H(mu_i) - 1/2 |w(mu)|^2,    w(mu) = C/n sum_i (Psi(x_i, y_i) - E_mu_i Psi)

the dual of `conditional_random_field`. As in SDCA (Le Priol, Piche and Lacoste-Julien, "Adaptive
stochastic dual coordinate ascent for conditional random fields", UAI 2018) a step takes some
examples, asks for the marginals of P(. | x_i; w), and moves mu_i toward them by a line search. The
gap of an example is KL(mu_i | P(. | x_i; w)), which that call returns; all of them add up to P - D.

Here mu_i is kept as the distribution of the potentials theta_i in place of tables of marginals, and
moves along theta_i + gamma (A_i w - theta_i), as exponentiated gradient does (Collins, Globerson,
Koo, Carreras and Bartlett, JMLR 9, 2008). Then

    H(mu_i) = log Z(theta_i) - <theta_i, mu_i>

is exact with log Z alone, for chains, classes, trees and graphs alike, and D is a lower bound of
the optimum at every iterate. A mixture of marginals would need a table of pairs at every position,
and the entropy of a junction tree for every structure.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.machines.field_multipliers import (
    FieldExamples,
    Multipliers,
    collect,
    first_multipliers,
    log_losses,
    visit_groups,
)
from experiments.machines.row_blocks import row_blocks
from jaxstruct.baselines.conditional_log_likelihood import Block
from jaxstruct.baselines.examples import (
    first_weights,
    labels_of,
    on_device,
    without_gram,
)
from jaxstruct.baselines.field_certificate import (
    FieldSums,
    block_sums,
    dual_of,
    ending,
    field_sums,
    precision_of,
    primal_of,
)
from jaxstruct.baselines.kernel_coordinates import Coordinates, in_coordinates, lifted
from jaxstruct.baselines.perceptron import epoch_order
from jaxstruct.core.buckets import Buckets, rows_at, rows_of
from jaxstruct.core.checks import checked_number, checked_size
from jaxstruct.core.contract import Problem
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.status import Status
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.objective.certificate import proven
from jaxstruct.solvers.validation.checks import check_certifiable, checked_buckets

MESSAGES = {
    Status.CONVERGED: "the relative duality gap is within the tolerance",
    Status.PASS_LIMIT: "max_passes was reached first: raise it, or loosen tolerance",
    Status.NOT_FINITE: "the iterate is not finite: check the scale of the inputs, or use float64",
    Status.ROUNDING: (
        "no step raises the dual, or the dtype rounds more of P away than tolerance allows: loosen "
        "tolerance, center the features, or use float64"
    ),
    Status.STOPPED: "the callback asked to stop",
}
CERTAINTIES = (4.0, 8.0)
"""Of the first distributions: theta_i has one of them at the parts of y_i and 0 elsewhere, that of
the larger D. 4 suits OCR words, 8 Spanish sentences: 8 and 12 passes to 1e-4, from uniform
distributions 10 and 18."""
PROVEN_TOGETHER = 512
"""Labels in a block of the proof. D takes what rounds in the sums of a block in first order, and
the blocks are added in float64; fewer would ship w to the host more often than a pass takes."""
_GROUPS = 8  # in one call of the program


class DualProgress(NamedTuple):
    """What a callback of `dual_random_field` sees after each pass.

    Fields:
      passes: so far. primal, dual, gap: the last certified ones.
      estimate: the sum of the gaps that its examples met in this pass, relative to the last D.
      seconds: since the start, compiling included. weights: w.
    """

    passes: int
    primal: float
    dual: float
    gap: float
    estimate: float
    seconds: float
    weights: PyTree


class DualRandomField(NamedTuple):
    """The result of `dual_random_field`.

    Fields:
      weights: w(mu). status, message: how the run ended.
      primal: P(w). dual: D(mu), at most the optimum, up to rounding.
      rounding: by how much both together may be off because the run's dtype rounds; see
        `field_certificate`. The optimum lies in [dual - rounding, primal + rounding].
      passes: over the examples. oracle_calls: examples whose log Z and marginals were asked for.
      seconds: wall seconds, compiling included.
      history: [certificates, 4] seconds, passes, primal, dual; the first row is the start.
    """

    weights: PyTree
    status: Status
    message: str
    primal: float
    dual: float
    passes: int
    oracle_calls: int
    seconds: float
    history: np.ndarray
    rounding: float

    @property
    def gap(self) -> float:
        """P - D."""
        return self.primal - self.dual


class _Proof(NamedTuple):
    """Weights of the given problem with what is proven of them and of mu."""

    weights: PyTree
    primal: float
    dual: float
    rounding: float

    def status(self, tolerance: float) -> Status | None:
        """CONVERGED, ROUNDING, or None where more passes may prove the gap."""
        if not (math.isfinite(self.primal) and math.isfinite(self.dual)):
            return Status.NOT_FINITE
        allowance = tolerance * max(abs(self.primal), abs(self.dual))
        within = proven(self.primal - self.dual, self.rounding, allowance)
        if within is False:
            return None
        return Status.CONVERGED if within else Status.ROUNDING


class _Ascent:
    """The state of a run on the host: w, the multipliers of all buckets, and what was counted."""

    def __init__(
        self,
        given: Problem,
        examples: tuple[Buckets, Buckets],
        own: Coordinates,
        scale: float,
        positions: int,
    ) -> None:
        problem, (inputs, outputs) = own.problem, examples
        dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))

        def fixed(problem: Problem, inputs: Buckets) -> list[FieldExamples]:
            ratio = jnp.asarray(scale, dtype)
            return [
                FieldExamples(problem, ratio, *on_device((without_gram(x), y), dtype))
                for x, y in zip(inputs.parts, outputs.parts, strict=True)
            ]

        self.problem = problem
        self.index = outputs.index
        self.scale = scale
        self.squared_norm = own.squared_norm
        self.fixed = fixed(problem, own.inputs)
        self.given = self.fixed if given is problem else fixed(given, inputs)
        self.blocks = [row_blocks(y, positions) for y in outputs.parts]
        self.proven = [row_blocks(y, min(positions, PROVEN_TOGETHER)) for y in outputs.parts]
        labels = [
            len(rows[0]) * labels_of(y) for rows, y in zip(self.proven, outputs.parts, strict=True)
        ]
        self.precision = precision_of(inputs, max(labels), dtype)
        self.weights = problem.initial_weights
        self.multipliers: list[Multipliers] = []
        self.calls = 0

    def begin(self, weights: PyTree, certainty: float) -> None:
        """The first distributions, and the w that belongs to them."""
        at = jnp.asarray(certainty, self.fixed[0].scale.dtype)
        self.multipliers = [
            _joined(first_multipliers(own, weights, at, rows) for rows in blocks)
            for own, blocks in zip(self.fixed, self.blocks, strict=True)
        ]
        self.calls += sum(map(len, self.index))
        self.refresh()

    def refresh(self) -> None:
        """w(mu) anew, without what rounding has added up."""
        self.weights = self._collected(self.fixed)

    def _collected(self, fixed: list[FieldExamples]) -> PyTree:
        w = jax.tree.map(jnp.zeros_like, fixed[0].problem.initial_weights)
        for own, multipliers, rows in self._rows(fixed, self.blocks):
            w = collect(own, multipliers, w, rows)
        return w

    def prove(self) -> _Proof:
        """P and D of w(mu) as weights of the given problem, their terms added in float64."""
        w = self.weights if self.given is self.fixed else self._collected(self.given)
        problem, of_scores = self.given[0].problem, float(self.precision.scores)
        self.calls += 2 * sum(map(len, self.index))

        def sums(at_mu: bool) -> FieldSums:
            return field_sums(
                block_sums(problem, w, block, self.precision, theta if at_mu else None)
                for block, theta in self._blocks_of_given()
            )

        with np.errstate(over="ignore", invalid="ignore"):  # a run that is not finite says so
            primal, above = primal_of(sums(False), self.squared_norm, w, self.scale, of_scores)
            dual, below = dual_of(sums(True), self.squared_norm, self.scale, of_scores)
        rounding = above + below
        return _Proof(w, primal, dual, rounding if math.isfinite(rounding) else math.inf)

    def _blocks_of_given(self) -> Iterator[tuple[Block, list[Array]]]:
        for own, multipliers, rows in self._rows(self.given, self.proven):
            at = jnp.maximum(rows, 0)
            x, y = rows_at((own.inputs, own.outputs), at)
            yield Block(x, y, rows >= 0), rows_at(multipliers.theta, at)

    def dual(self) -> float:
        """D(mu), summed in float64; w must be w(mu)."""
        terms = [
            np.asarray(own.conjugate[: len(index)], np.float64).sum()
            for own, index in zip(self.multipliers, self.index, strict=True)
        ]
        return -self.scale * sum(terms) - _squared_norm(self.weights) / 2

    def primal(self) -> float:
        """P(w), summed in float64."""
        losses = [
            np.asarray(log_losses(own, self.weights, rows), np.float64).sum()
            for own, _, rows in self._rows(self.fixed, self.blocks)
        ]
        self.calls += sum(map(len, self.index))
        return _squared_norm(self.weights) / 2 + self.scale * sum(losses)

    def sweep(self, group: int, seed: int, number: int) -> tuple[float, float]:
        """(the gap that the groups of a pass met, what D gained)."""
        met = []
        for bucket, rows in epoch_order(self.index, group * _GROUPS, seed, number):
            self.weights, self.multipliers[bucket], sums = visit_groups(
                self.fixed[bucket], self.weights, self.multipliers[bucket],
                rows.reshape(_GROUPS, group),
            )  # fmt: skip
            met.append(sums)
        gap, gain, calls = np.asarray(met, np.float64).sum(axis=0)
        self.calls += int(calls)
        return float(gap), float(gain)

    def _rows(
        self, fixed: list[FieldExamples], blocks: list[list[Array]]
    ) -> Iterator[tuple[FieldExamples, Multipliers, Array]]:
        """All blocks of rows with their bucket."""
        for own, multipliers, of_bucket in zip(fixed, self.multipliers, blocks, strict=True):
            for rows in of_bucket:
                yield own, multipliers, rows


def _joined(parts: Iterator[Multipliers]) -> Multipliers:
    """Blocks of rows as one; rows beyond the examples stay, and are never read."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _squared_norm(w: PyTree) -> float:
    leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(w)]
    return float(sum(leaf @ leaf for leaf in leaves))


class _Row(NamedTuple):
    """One row of `DualRandomField.history`."""

    seconds: float
    passes: int
    primal: float
    dual: float

    @property
    def relative_gap(self) -> float:
        return (self.primal - self.dual) / max(abs(self.primal), abs(self.dual), 1e-300)


def _start(ascent: _Ascent, start: PyTree | None) -> None:
    """The first multipliers: those of the given weights, or of the certainty of the largest D."""
    if start is not None:
        ascent.begin(start, 0.0)
        return
    duals = []
    for certainty in CERTAINTIES:
        ascent.begin(ascent.problem.initial_weights, certainty)
        duals.append(ascent.dual())
    best = CERTAINTIES[int(np.argmax(np.nan_to_num(duals, nan=-np.inf)))]
    if best != CERTAINTIES[-1]:
        ascent.begin(ascent.problem.initial_weights, best)


def _status(row: _Row, tolerance: float) -> Status | None:
    if not (math.isfinite(row.primal) and math.isfinite(row.dual)):
        return Status.NOT_FINITE
    if row.relative_gap < -tolerance:
        return Status.ROUNDING
    return Status.CONVERGED if row.relative_gap <= tolerance else None


def _check(C: float, tolerance: float, counts: dict[str, int], dtype: jnp.dtype) -> None:
    for name, value in (("C", C), ("tolerance", tolerance)):
        checked_number(name, value, strict=True)
    check_certifiable("tolerance", tolerance, dtype)
    for name, value in counts.items():
        checked_size(name, value, 0 if name == "seed" else 1)


def _is_due(passes: int, last: int) -> bool:
    """Whether a pass is certified for the record: those after about half as many again."""
    return passes >= last + max(1, last // 2)


def _asks_to_stop(
    callback: Callable[[DualProgress], bool | None] | None,
    ascent: _Ascent,
    row: _Row,
    passes: int,
    estimate: float,
    began: float,
) -> bool:
    """Whether the callback answers so."""
    if callback is None:
        return False
    weights = jax.tree.map(jnp.copy, ascent.weights)  # the run goes on in place
    seconds = time.perf_counter() - began
    numbers = (row.primal, row.dual, row.primal - row.dual, estimate, seconds, weights)
    return bool(callback(DualProgress(passes, *numbers)))


def _ascend(
    ascent: _Ascent,
    tolerance: float,
    max_passes: int,
    group: int,
    seed: int,
    callback: Callable[[DualProgress], bool | None] | None,
    began: float,
) -> tuple[Status, list[_Row], int, _Proof]:
    """(the status, the certificates, how many passes, what is proven at the end)."""

    log, passes = [], 0

    def certified() -> tuple[Status | None, _Proof | None]:
        primal, dual = ascent.primal(), ascent.dual()
        log.append(_Row(time.perf_counter() - began, passes, primal, dual))
        status, proof = _status(log[-1], tolerance), None
        if status is Status.CONVERGED:
            proof = ascent.prove()
            status = proof.status(tolerance)
        return status, proof

    status, proof = certified()
    while status is None:
        gap, gain = ascent.sweep(group, seed, passes)
        passes += 1
        estimate = gap / max(abs(log[-1].dual), 1e-300)
        stopped = _asks_to_stop(callback, ascent, log[-1], passes, estimate, began)
        ends = stopped or passes >= max_passes or not gain > 0
        if ends or estimate <= 2 * tolerance or _is_due(passes, log[-1].passes):
            ascent.refresh()
            status, proof = certified()
        if status is None and ends:
            limit = Status.PASS_LIMIT if passes >= max_passes else Status.ROUNDING
            status = Status.STOPPED if stopped else limit
    return status, log, passes, proof or ascent.prove()


def dual_random_field(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    C: float = 1.0,
    *,
    tolerance: float = 1e-4,
    max_passes: int = 200,
    group: int = 8,
    seed: int = 0,
    positions: int = 1 << 13,
    start: PyTree | None = None,
    callback: Callable[[DualProgress], bool | None] | None = None,
) -> DualRandomField:
    """Train a conditional random field in its dual until the duality gap is closed.

    The objective is that of `fit_random_field`; see the module for the dual. `predict` of jaxstruct
    decodes with the weights.

    Args:
      problem, inputs, outputs, C, positions: as in `fit_random_field`.
      tolerance: stop when P - D, with its rounding, is within tolerance max(|P|, |D|); float32
        certifies 1e-5 at best.
      max_passes: a bound. A pass visits every example once, in an order drawn from seed.
      group: examples that a step moves together. One by one needs the fewest passes, more keep the
        processor busy.
      start: weights whose marginals are the first mu, such as those of `fit_random_field`; None:
        the truth, as certain as D likes best.
      callback: called after each pass with a `DualProgress`; a true answer stops the run.

    Returns:
      A DualRandomField; look at its status before its weights.

    Raises:
      ValueError: an argument does not fit, or the problem's log loss is not convex.

    Source: Le Priol, Piche and Lacoste-Julien, UAI 2018; Collins et al., JMLR 9, 2008.
    """
    began = time.perf_counter()
    inputs, outputs = checked_buckets(problem, inputs, outputs, None)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    counts = dict(max_passes=max_passes, group=group, positions=positions, seed=seed)
    _check(C, tolerance, counts, dtype)
    checked_inference(problem, "log_loss")
    if not problem.inference.facts.convex:
        raise ValueError("problem's log loss is not convex and has no dual: take fit_random_field")
    group = min(group, max(map(rows_of, outputs.parts)))
    scale = C / sum(map(len, outputs.index))
    first = None if start is None else first_weights(problem, start)
    own = in_coordinates(problem, inputs)
    callback = lifted(callback, own.lift, "weights")
    ascent = _Ascent(problem, (inputs, outputs), own, scale, positions)
    _start(ascent, None if first is None else own.lower(first))
    ends = _ascend(ascent, tolerance, max_passes, group, seed, callback, began)
    status, log, passes, proof = ends
    message = ending(MESSAGES[status], proof.primal - proof.dual, proof.rounding)
    return DualRandomField(
        weights=proof.weights, status=status, message=message,
        primal=proof.primal, dual=proof.dual, passes=passes, oracle_calls=ascent.calls,
        seconds=time.perf_counter() - began, history=np.asarray(log, np.float64),
        rounding=proof.rounding,
    )  # fmt: skip
