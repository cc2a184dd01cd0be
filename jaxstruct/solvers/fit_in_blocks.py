"""`fit_in_blocks`: training on more examples than memory holds, a block of them at a time.

The dual is a sum over examples and one squared norm of w = sum beta phi. A block's examples with
their planes are read, the round of `fit` is made of them with all other multipliers as they are,
and w is handed on: block coordinate ascent, of which no step loses.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets
from jaxstruct.core.checks import checked_example_weights, checked_size, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.blocks import Block, Blocks
from jaxstruct.solvers.certificate import (
    Certificate,
    ExampleTerms,
    block_gaps,
    certify,
    coordinate_norm,
)
from jaxstruct.solvers.checks import (
    check_callback,
    check_inputs,
    check_is_problem,
    check_run,
    examples_in,
    rounding,
)
from jaxstruct.solvers.cost_model import calls_foretold, capacity_of, efforts_of
from jaxstruct.solvers.cutting_plane import enumerated_program, is_done, own_weights, roundings_of
from jaxstruct.solvers.formulations import Formulation, Penalty, formulation_named, penalty_numbers
from jaxstruct.solvers.host_loop import (
    Method,
    Progress,
    Round,
    Rules,
    Standing,
    begin,
    last_certificate,
    solve,
    standing_at,
    statistics,
    told_of_rounds,
)
from jaxstruct.solvers.memory import BLOCK_BYTES, Memory, blocks_within, memory
from jaxstruct.solvers.most_violated import oracle_for
from jaxstruct.solvers.oracle_rules import Sample, check_oracle, confirm, sample_of
from jaxstruct.solvers.packed_sets import Shelf, pack, unpack, unpack_enumerated
from jaxstruct.solvers.processes import ALONE
from jaxstruct.solvers.programs import time_part
from jaxstruct.solvers.progress import check_verbose, training_progress
from jaxstruct.solvers.rounds import (
    Round as Visit,
)
from jaxstruct.solvers.rounds import call_all, enumerated_round, grown_round, named_slots, round_of
from jaxstruct.solvers.settings import Settings, check_settings, choice_of, enumerates
from jaxstruct.solvers.solution import description, summary
from jaxstruct.solvers.state import Info, State
from jaxstruct.solvers.status import MESSAGES, Status
from jaxstruct.solvers.sweeps import SweptRoom
from jaxstruct.solvers.thresholds import primal_of, threshold_of, wants_growth, worth_certifying
from jaxstruct.solvers.trace import Statistics, Trace
from jaxstruct.solvers.working_sets import WorkingSets, empty_working_sets

DEFAULTS = Settings()


class BlockSolution(NamedTuple):
    """The result of `fit_in_blocks`; the fields are those of `Solution`, without its state.

    Fields:
      weights: w of the best primal found. status, message: how it ended.
      primal, dual, gap: best P, best D and P - D.
      certificate: of the last certified round, over all examples. slack: [n] its xi_i.
      blocks: how many there were. memory: what was foretold.
      statistics: counts and times. formulation, C: what was solved.
    """

    weights: PyTree
    status: Status
    message: str
    primal: float
    dual: float
    gap: float
    certificate: Certificate
    slack: np.ndarray
    blocks: int
    memory: Memory
    statistics: Statistics
    formulation: str
    C: float

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


class BlockState(NamedTuple):
    """What a callback sees of a run; multipliers and planes lie on its shelf.

    Fields:
      weights: w of the dual variables. clock: rounds so far. capacity: slots an example.
    """

    weights: PyTree
    clock: int
    capacity: int


class _Counts(NamedTuple):
    """Of a round: planes that were added, examples without a slot for one, oracle calls."""

    added: int = 0
    overflow: int = 0
    calls: int = 0


class _Run:
    """The blocks of a run, its planes at rest, and the last oracle call of each example."""

    def __init__(
        self,
        problem: Problem,
        blocks: Blocks,
        formulation: Formulation,
        rules: Rules,
        shelf: Shelf,
        example_weights: np.ndarray | None,
        min_margin: float,
    ) -> None:
        """Nothing is read yet."""
        self.problem, self.blocks, self.formulation = problem, blocks, formulation
        self.settings, self.rules, self.shelf = blocks.settings, rules, shelf
        self.min_margin, self.room = min_margin, SweptRoom()
        self.dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
        self.enumerated = enumerates(problem, self.settings)
        n, C = blocks.n, rules.C
        given = np.ones(n) if example_weights is None else np.asarray(example_weights, np.float64)
        numbers = penalty_numbers(formulation, C, given, n)
        self.penalty = Penalty(*(np.asarray(each, self.dtype) for each in numbers))
        self.examples = int(np.sum(self.penalty.cap > 0))
        self.terms = ExampleTerms(*(np.zeros(n, self.dtype) for _ in ExampleTerms._fields))
        self.off_by, self.shapes_of_input = np.zeros(n, np.float32), None

    def look(self) -> Sample | None:
        """Look at every block once; the sample on which the problem's rules are tried."""
        sample = None
        for number in range(self.blocks.count):
            inputs, outputs = self.blocks.look(number)
            if number == 0:
                count = choice_of(self.settings.checked_examples)
                sample = sample_of(self.problem, inputs, outputs, count)
        return sample

    def begin(self) -> BlockState:
        """Where the run begins, its effort chosen by the shapes of the first block."""
        problem, task = self.problem, self.blocks.read(0).task
        calls = calls_foretold(self.rules.tolerance, self.rules.max_passes) * self.blocks.count
        oracle = oracle_for(problem, self.formulation)
        efforts = efforts_of(problem, self.settings, oracle, task, calls)
        self.settings = self.settings._replace(effort=efforts)
        capacity = capacity_of(problem, self.settings, task.outputs, self.dtype.itemsize)
        return BlockState(own_weights(problem), 0, capacity)

    def _sets(self, number: int, block: Block, capacity: int) -> WorkingSets:
        """The working sets of a block as its last visit left them."""
        packed, task = self.shelf.take(number), block.task
        if self.enumerated:
            efforts: Any = self.settings.effort
            sets = enumerated_program(
                self.problem, task.terms, task.inputs, task.outputs, effort=efforts.oracle
            )
            return sets if packed is None else unpack_enumerated(packed, sets)
        if packed is None:
            return empty_working_sets(task.outputs, capacity, str(self.dtype))
        return unpack(packed, task.outputs, capacity, str(self.dtype))

    def _opened(
        self, number: int, state: BlockState, seconds: dict[str, float]
    ) -> tuple[Block, WorkingSets, Visit]:
        """A block, its working sets, and the fixed side of a visit to it."""
        block = time_part(seconds, "reading", lambda: self.blocks.read(number))
        sets = time_part(seconds, "planes", lambda: self._sets(number, block, state.capacity))
        visit = round_of(
            self.problem, block.task, self.settings, self.formulation, state.clock, self.room, True
        )
        random = np.random.default_rng([self.settings.seed, state.clock, number])
        if self.shapes_of_input is None:
            self.shapes_of_input = jax.eval_shape(lambda: block.task.inputs[0])
        return block, sets, visit._replace(random=(random,), seconds=seconds)

    def _close(
        self, number: int, block: Block, sets: WorkingSets, terms: ExampleTerms, visit: Visit
    ) -> None:
        """Put the working sets on the shelf and note what the oracle calls said."""
        real = block.rows >= 0
        for whole, own in zip(self.terms, terms, strict=True):
            whole[block.rows[real]] = np.asarray(own)[real]
        self.off_by[block.rows[real]] = roundings_of(block.task)[real]
        time_part(visit.seconds, "planes", lambda: self.shelf.put(number, pack(sets)))

    def visit(
        self, number: int, state: BlockState, epsilon: np.ndarray, seconds: dict[str, float]
    ) -> tuple[PyTree, _Counts]:
        """The round of one block: oracle calls at the w they meet, sweeps over its planes."""
        block, sets, visit = self._opened(number, state, seconds)
        calls = int(np.sum(np.asarray(block.task.terms.cap) > 0))
        if not calls:  # examples without weight have no multipliers
            return state.weights, _Counts()
        if not self.enumerated:
            given = State(state.weights, sets, None, 0.0, state.clock, None)
            w, sets, moved = grown_round(visit, given, epsilon)
            self._close(number, block, sets, moved.terms, visit)
            return w, _Counts(moved.added, moved.overflow, moved.calls)
        before = int(self.shelf.planes[number])
        sets, report, _ = call_all(visit, "oracle", state.weights, sets, epsilon)
        gaps = block_gaps(self.formulation, block.task.terms, report.terms)
        slots = report.slots if named_slots(self.settings, sets) else None
        given = State(state.weights, sets, None, 0.0, state.clock, gaps, slots)
        w, sets = enumerated_round(visit, given)
        self._close(number, block, sets, report.terms, visit)
        return w, _Counts(int(self.shelf.planes[number]) - before, 0, calls)

    def pass_over(self, state: BlockState, epsilon: np.ndarray, seconds: dict[str, float]) -> tuple:
        """A visit to every block in a random order: (state, counts)."""
        total = _Counts()
        order = np.random.default_rng([self.settings.seed, state.clock]).permutation
        for number in order(self.blocks.count):
            w, counts = self.visit(int(number), state, epsilon, seconds)
            state = state._replace(weights=w)
            total = _Counts(*map(sum, zip(total, counts, strict=True)))
        return state, total

    def certify(
        self, state: BlockState, epsilon: np.ndarray, seconds: dict[str, float]
    ) -> tuple[Certificate, _Counts]:
        """One oracle call an example at w; the planes that they meet enter."""
        total = _Counts(calls=self.examples)
        for number in range(self.blocks.count):
            block, sets, visit = self._opened(number, state, seconds)
            sets, report, counts = call_all(visit, "certify", state.weights, sets, epsilon)
            added, overflow = int(counts.added), int(counts.overflow)
            self._close(number, block, sets, report.terms, visit)
            total = total._replace(added=total.added + added, overflow=total.overflow + overflow)
        norm = coordinate_norm(self.problem, state.weights, self.shapes_of_input)
        of_terms = self.formulation, self.penalty, self.terms
        return certify(*of_terms, coordinates=norm, off_by=self.off_by), total

    def estimate(self) -> Certificate:
        """What the last calls say together, each at the w it met: proof of nothing."""
        return certify(self.formulation, self.penalty, self.terms)

    def method(self) -> Method:
        """Block coordinate ascent as the host loop runs it."""

        def step(now: Standing) -> tuple[BlockState, Round]:
            seconds: dict[str, float] = {}
            state = now.state._replace(clock=now.state.clock + 1)
            threshold = threshold_of(self.rules, primal_of(now))
            worth = worth_certifying(self.rules, primal_of(now), threshold, now.state.clock)
            epsilon = np.asarray(threshold, self.dtype)
            state, counts = self.pass_over(state, epsilon, seconds)
            estimate = self.estimate()
            if state.clock % self.settings.certify_every and not is_done(estimate, *worth):
                return state, self._round(state, None, estimate, counts, seconds)
            certificate, met = self.certify(state, epsilon, seconds)
            counts = _Counts(counts.added + met.added, met.overflow, counts.calls + met.calls)
            return state, self._round(state, certificate, certificate, counts, seconds)

        def certified(now: Standing) -> tuple[BlockState, Round]:
            seconds: dict[str, float] = {}
            threshold = threshold_of(self.rules, primal_of(now))
            epsilon = np.asarray(threshold, self.dtype)
            certificate, counts = self.certify(now.state, epsilon, seconds)
            return now.state, self._round(now.state, certificate, certificate, counts, seconds)

        def adapt(state: BlockState, found: Round) -> BlockState:
            most = self.settings.max_capacity
            if state.capacity >= most or not wants_growth(found.info, self.blocks.n):
                return state
            return state._replace(capacity=min(2 * state.capacity, most))

        return Method(step, certified, adapt)

    def _round(
        self,
        state: BlockState,
        certificate: Certificate | None,
        shown: Certificate,
        counts: _Counts,
        seconds: dict[str, float],
    ) -> Round:
        """A round as the host loop sees it."""
        slack = None if certificate is None else np.array(self.terms.slack)
        info = Info(certificate, shown, *counts[:2], counts.calls, seconds, slack)
        full = not self.enumerated and state.capacity >= self.settings.max_capacity
        reach = float(np.max(self.terms.reach, initial=0.0)) if self.rules.hard else 0.0
        cheap = self.problem.oracles.cheap is not None  # whose answers bound nothing
        return Round(
            certificate=certificate,
            primal=shown.primal_found if cheap else shown.primal,
            dual=shown.dual,
            planes_added=counts.added,
            oracle_calls=counts.calls,
            clock=state.clock,
            seconds=seconds,
            weights=state.weights,
            slack=slack,
            stuck=bool(full and counts.overflow and not counts.added),
            least_margin=self.min_margin * reach,
            info=info,
            state=state,
        )


def _check_variant(settings: Settings) -> None:
    if settings.variant == "full":
        raise ValueError(
            'settings.variant is "full", but a block of the examples has no Newton step over all '
            'working sets: use "auto" or "subspace", or fit, where memory allows'
        )


def fit_in_blocks(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    formulation: str | Formulation = "svm1_margin",
    C: float = 1.0,
    *,
    blocks: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    folder: str | os.PathLike | None = None,
    tolerance: float | None = 1e-3,
    epsilon: float | None = None,
    example_weights: np.ndarray | None = None,
    settings: Settings = DEFAULTS,
    max_passes: int = 500,
    min_margin: float = 1e-3,
    callback: Callable[[Progress], bool | None] | None = None,
    verbose: bool | str = False,
) -> BlockSolution:
    """Train a structural SVM on more examples than memory holds.

    The problem is that of `fit`, and so are optimum and certificate:

        min_w 1/2 |w|^2 + (C/n) sum_i v_i xi_i   (SVM1; SVM2 and SVM0 as in `fit`).

    A round reads every block once, in a random order. Its examples are padded as their whole bucket
    would be, so that all blocks share the programs; their planes come off the shelf, the round of
    `fit` is made of them (an oracle call an example, then sweeps), planes go back, w is handed on.
    Each block maximises the dual over its own multipliers, so that D never falls. A certificate is
    a pass over all blocks at one w: the terms of all n examples are summed, wherever they were
    made. Only block ascent is there: hard margins and very large C take many rounds.

    Args:
      problem: the structure.
      inputs, outputs: of n examples, as `fit` takes them; arrays and the rows of `Ragged` stores
        may be memory-mapped (`jaxstruct.open_store`) and are read block by block.
      formulation, C: as in `fit`.
      blocks: into how many parts; None for as few as let the arrays of one take `block_bytes`.
      block_bytes: of padded examples, working sets and batches of a block, and once more of planes
        at rest.
      folder: where planes at rest go once they take more than `block_bytes`, in files of their own,
        which are removed at the end; None for the system's folder of temporary files.
      tolerance, epsilon, example_weights, max_passes, min_margin, callback, verbose: as in `fit`;
        the state that a callback sees has weights, no planes. With `verbose` the first line is the
        memory that it will take.
      settings: as in `fit`, but for `variant`, which must not be "full".

    Returns:
      A BlockSolution; look at its status before its weights. `predict` and `trained` take it.

    Raises:
      OSError: planes cannot be written.
      ValueError: an argument does not fit, or the problem breaks a rule on a few of the examples;
        the message names it.
    """
    check_is_problem(problem)
    formulation = formulation_named(formulation)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    check_run(C, tolerance, epsilon, max_passes, min_margin, dtype)
    check_settings(settings)
    _check_variant(settings)
    check_callback(callback)
    check_verbose(verbose)
    if isinstance(inputs, Buckets) or isinstance(outputs, Buckets):
        raise ValueError(
            "inputs and outputs are in buckets already: give the examples as they are, arrays or "
            "Ragged stores, of which blocks are made here"
        )
    n = examples_in(inputs, outputs)
    check_inputs(inputs)
    checked_example_weights(example_weights, n)
    count = _checked_count(problem, inputs, outputs, settings, blocks, block_bytes, n)
    foretold = memory(problem, inputs, outputs, settings, blocks=count, block_bytes=block_bytes)
    if verbose:
        sys.stderr.write(f"{count} blocks of {n} examples; memory {foretold}\n")
    rules = Rules(
        tolerance, epsilon, max_passes, float(C), formulation.penalty == 0, rounding(dtype)
    )
    of_blocks = problem, inputs, outputs, formulation, C, example_weights, settings, count
    words = f"{formulation.name}, C = {float(C):g}"
    with (
        tempfile.TemporaryDirectory(prefix="jaxstruct_planes_", dir=folder) as own_folder,
        training_progress(max_passes, words, verbose, tolerance) as show,
    ):
        shelf = Shelf(count, own_folder, block_bytes)
        run = _Run(
            problem, Blocks(*of_blocks), formulation, rules, shelf, example_weights, min_margin
        )
        sample = run.look()
        check_oracle(problem, formulation, sample)
        state, beginning = run.begin(), begin()
        told, standing = told_of_rounds(ALONE, show, callback), standing_at(state, state.weights)
        now, status = solve(run.method(), standing, rules, beginning, told)
        status = confirm(status, problem, formulation, sample, now.best.weights)
        certificate, slack = last_certificate(now.best)
        kept, support = int(shelf.planes.sum()), int(shelf.carrying.sum())
        counts = statistics(now, beginning, kept, support, now.state.capacity)
    best = now.best
    return BlockSolution(
        best.weights, status, MESSAGES[status], best.primal, best.dual, best.primal - best.dual,
        certificate, slack, count, foretold, counts, formulation.name, rules.C,
    )  # fmt: skip


def _checked_count(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    settings: Settings,
    blocks: Any,
    block_bytes: Any,
    n: int,
) -> int:
    """How many blocks there are.

    Raises:
      ValueError: blocks or block_bytes are no such numbers, or there are more blocks than examples.
    """
    checked_size("block_bytes", block_bytes)
    if blocks is None:
        return blocks_within(problem, inputs, outputs, settings, block_bytes)
    if checked_size("blocks", blocks) > n:
        raise ValueError(f"blocks is {text_of(blocks)}, but there are {n} examples: give fewer")
    return int(blocks)
