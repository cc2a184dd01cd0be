"""Block coordinate ascent over the blocks of a training set, of which one is in memory at a time.

The dual is a sum over examples and one squared norm of w = sum beta phi. A block's examples with
their planes are read, the round of `fit` is made of them with all other multipliers as they are,
and w is handed on; no step loses. Cached sweeps go over the rows of the largest gaps of all blocks
(see `gathered_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import checked_example_weights
from jaxstruct.core.compiling import time_part
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.block_state import BlockState
from jaxstruct.solvers.loop.host_loop import Method, Rules
from jaxstruct.solvers.n_slack.ascent import Ascent, method_of
from jaxstruct.solvers.n_slack.cutting_plane import (
    cached_sweeps,
    enumerated_round,
    grown_round,
    is_done,
)
from jaxstruct.solvers.n_slack.oracle_pass import OracleReport
from jaxstruct.solvers.n_slack.rounds import OpenRound, call_all, open_round
from jaxstruct.solvers.n_slack.run import (
    Info,
    OneDevice,
    Run,
    State,
    named_slots,
    own_weights,
    resolved_settings,
)
from jaxstruct.solvers.n_slack.sweeps import SweepBuffers
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.n_slack.working_sets import (
    WorkingSets,
    empty_working_sets,
    enumerated_program,
)
from jaxstruct.solvers.objective.certificate import (
    Certificate,
    ExampleTerms,
    certify,
    coordinate_norm,
    roundings,
)
from jaxstruct.solvers.objective.formulations import Penalty, penalty_numbers
from jaxstruct.solvers.objective.most_violated import oracle_for
from jaxstruct.solvers.objective.scaling import Scaled, least_multiple, multiple, ray_of
from jaxstruct.solvers.out_of_core.blocks import Block, Blocks
from jaxstruct.solvers.out_of_core.gathered_rows import GatheredRows
from jaxstruct.solvers.out_of_core.plane_cache import PlaneCache, pack, unpack, unpack_enumerated
from jaxstruct.solvers.settings import Settings, examples_to_check
from jaxstruct.solvers.validation.oracle_rules import check_oracle, sample_of


class _Counts(NamedTuple):
    """Of a round: planes that were added, examples without a slot for one, oracle calls."""

    added: int = 0
    overflow: int = 0
    calls: int = 0


class _Opened(NamedTuple):
    """A block that is visited. sets: as its last visit left them. visit: what all parts share."""

    number: int
    block: Block
    sets: WorkingSets
    visit: OpenRound


def _note(whole: ExampleTerms, block: Block, report: OracleReport) -> None:
    """What oracle calls said of the examples of a block, among all examples."""
    real = block.rows >= 0
    for to, leaf in zip(whole, ExampleTerms.of_columns(report.numbers), strict=True):
        to[block.rows[real]] = leaf[real]


class BlockAscent:
    """The blocks of a run, its planes at rest, and the last oracle call of each example."""

    def __init__(
        self,
        blocks: Blocks,
        rules: Rules,
        cache: PlaneCache,
        example_weights: np.ndarray | None,
        min_margin: float,
    ) -> None:
        """Nothing is read yet."""
        self.problem, self.blocks = blocks.problem, blocks
        self.formulation = blocks.objective.formulation
        self.rules, self.cache, self.min_margin = rules, cache, min_margin
        self.dtype = jnp.result_type(*jax.tree.leaves(self.problem.initial_weights))
        given = checked_example_weights(example_weights, blocks.n)
        numbers = penalty_numbers(self.formulation, rules.C, given, blocks.n)
        self.penalty = Penalty(*(np.asarray(each, self.dtype) for each in numbers))
        self.examples = int(np.sum(self.penalty.cap > 0))
        self.terms, self.off_by = self._empty_terms(), np.zeros(blocks.n, np.float32)

    def _empty_terms(self) -> ExampleTerms:
        n = self.blocks.n
        return ExampleTerms(*(np.zeros(n, self.dtype) for _ in ExampleTerms._fields))

    def open(self, settings: Settings, see: Callable[[PyTree, PyTree], object]) -> None:
        """Look at every block once, try the oracle, and choose what settings leave open.

        Args:
          see: is shown the padded inputs and outputs of each block in turn.

        Raises:
          ValueError: an example does not fit, or the oracle breaks a rule.
        """
        problem, formulation, sample = self.problem, self.formulation, None
        checked = examples_to_check(problem, settings)
        for number in range(self.blocks.count):
            inputs, outputs = self.blocks.look(number)
            see(inputs.parts, outputs.parts)
            for part, own in zip(inputs.parts, inputs.index, strict=True):
                self.off_by[own] = roundings(part)
            if number == 0:
                sample = sample_of(problem, inputs, outputs, checked)
        check_oracle(problem, formulation, sample)
        task, rows = self.blocks.read(0)
        self.settings = resolved_settings(problem, settings, task, self.blocks.sizes, checked)
        place = OneDevice(problem, task, self.blocks.sizes)
        oracle = oracle_for(problem, formulation)
        self.run = Run(
            problem, formulation, self.settings, task, place, rows, oracle, sample, SweepBuffers()
        )

    def begin(self) -> BlockState:
        """Where the run begins."""
        return BlockState(own_weights(self.problem), 0, self.settings.capacity)

    def _sets(self, number: int, block: Block, capacity: int) -> WorkingSets:
        """The working sets of a block as its last visit left them."""
        packed, task = self.cache.take(number), block.task
        if self.settings.enumerated:
            sets = enumerated_program(self.problem, task.terms, task.inputs, task.outputs)
            return sets if packed is None else unpack_enumerated(packed, sets)
        if packed is None:
            return empty_working_sets(task.outputs, capacity, str(self.dtype))
        return unpack(packed, task.outputs, capacity, str(self.dtype))

    def _opened(
        self, numbers: Sequence[int], state: BlockState, seconds: dict[str, float]
    ) -> Iterator[_Opened]:
        """Some blocks in turn; waiting for them is reading."""
        blocks = self.blocks.in_turn(numbers)
        for number in numbers:
            block = time_part(seconds, "reading", partial(next, blocks))
            sets = time_part(seconds, "planes", partial(self._sets, number, block, state.capacity))
            visit = open_round(self._run_of(block.task, number), state.clock, True)
            yield _Opened(number, block, sets, visit._replace(seconds=seconds))

    def _run_of(self, task: Task, *seed: int) -> Run:
        """The run over the examples of a block."""
        place = OneDevice(self.problem, task, self.blocks.sizes, (seed,))
        return self.run._replace(task=task, placement=place)

    def _close(self, own: _Opened, sets: WorkingSets, report: OracleReport) -> None:
        """Put the working sets in the cache and note what the oracle calls said."""
        _note(self.terms, own.block, report)
        time_part(own.visit.seconds, "planes", lambda: self.cache.put(own.number, pack(sets)))

    def visit(
        self, own: _Opened, state: BlockState, epsilon: np.ndarray, gathered: GatheredRows | None
    ) -> tuple[PyTree, _Counts]:
        """The round of one block: oracle calls at the w they meet, sweeps over its planes.

        Where rows of other blocks are at hand, cached sweeps are over these and its own.
        """
        visit, task = own.visit, own.block.task
        counts = _Counts(calls=visit.run.placement.examples)
        if not counts.calls:  # examples without weight have no multipliers
            return state.weights, counts
        given = State(state.weights, own.sets, None, 0.0, state.clock, None)
        if self.settings.enumerated:
            sets, report, _ = call_all(visit, "oracle", state.weights, own.sets, epsilon)
            gaps = visit.gaps(ExampleTerms.of_columns(report.numbers))
            slots = report.slots if named_slots(self.settings, sets) else None
            w, sets = enumerated_round(
                visit, given._replace(sets=sets, block_gaps=gaps, slots=slots)
            )
        else:
            w, sets, moved = grown_round(visit, given, epsilon, cached=gathered is None)
            report, gaps = moved.report, moved.gaps
            counts = _Counts(moved.added, moved.overflow, counts.calls)
        self._close(own, sets, report)
        if gathered is not None:
            mine = task, sets, report.slots, gaps
            time_part(visit.seconds, "gathering", lambda: gathered.take(own.number, *mine))
            if (rows := gathered.at_hand) is not None:
                now = visit._replace(run=self._run_of(rows.task))
                w, moved = cached_sweeps(now, w, rows.sets, rows.gaps, rows.slots)
                gathered.moved(moved)
        return w, counts

    def pass_over(
        self, state: BlockState, epsilon: np.ndarray, seconds: dict[str, float]
    ) -> tuple[BlockState, _Counts]:
        """A visit to every block in a random order: (state, counts)."""
        total, before = _Counts(), self.cache.planes.sum()
        gathered = GatheredRows(self.blocks.count) if self.blocks.count > 1 else None
        order = np.random.default_rng([self.settings.seed, state.clock]).permutation
        for own in self._opened(order(self.blocks.count).tolist(), state, seconds):
            w, counts = self.visit(own, state, epsilon, gathered)
            state = state._replace(weights=w)
            total = _Counts(*map(sum, zip(total, counts, strict=True)))
        if gathered is not None:
            time_part(seconds, "gathering", lambda: gathered.give_back(self.cache))
        if self.settings.enumerated:
            total = total._replace(added=int(self.cache.planes.sum() - before))
        return state, total

    def step(
        self, state: BlockState, threshold: float, *, goal: float, settled: float
    ) -> tuple[BlockState, Info]:
        """A round, as `cutting_plane.step` makes one."""
        seconds: dict[str, float] = {}
        state = state._replace(clock=state.clock + 1)
        state, counts = self.pass_over(state, np.asarray(threshold, self.dtype), seconds)
        estimate = certify(self.formulation, self.penalty, self.terms)
        if state.clock % self.settings.certify_every and not is_done(estimate, goal, settled):
            return self._with_planes(state), Info(None, estimate, *counts, seconds, None)
        return self.certify(state, threshold, seconds, counts)

    def certify(
        self,
        state: BlockState,
        threshold: float,
        seconds: dict[str, float] | None = None,
        before: _Counts = _Counts(),  # noqa: B008
    ) -> tuple[BlockState, Info]:
        """One oracle call an example at w; the planes that they meet enter.

        before: what the round has counted so far.
        """
        seconds, epsilon = {} if seconds is None else seconds, np.asarray(threshold, self.dtype)
        total = before._replace(overflow=0, calls=before.calls + self.examples)
        for own in self._opened(range(self.blocks.count), state, seconds):
            sets, report, counts = call_all(own.visit, "certify", state.weights, own.sets, epsilon)
            added, overflow = int(counts.added), int(counts.overflow)
            self._close(own, sets, report)
            total = total._replace(added=total.added + added, overflow=total.overflow + overflow)
        proved = self._proved(state.weights, self.terms)
        ray = ray_of(self.formulation, self.penalty, self.terms)
        info = Info(proved, proved, *total, seconds, np.array(self.terms.slack), ray)
        return self._with_planes(state), info

    def _with_planes(self, state: BlockState) -> BlockState:
        """The state with what the cache holds now, where checkpoints may ask for it."""
        return state._replace(planes=self.cache.contents if self.cache.lasting else ())

    def _proved(self, w: PyTree, terms: ExampleTerms, *products: np.ndarray) -> Certificate:
        """What the oracle calls at w prove; products: as `certify` takes them."""
        norm = coordinate_norm(self.problem, w, self.run.task.inputs[0])
        return certify(
            self.formulation, self.penalty, terms, *products, coordinates=norm, off_by=self.off_by
        )

    def search(
        self, state: BlockState, info: Info, wanted: float
    ) -> tuple[BlockState, list[Scaled], dict[str, float]]:
        """Certificates of multiples of the w that `certify` has been at; no plane enters."""
        seconds: dict[str, float] = {}
        if (ray := info.ray) is None:
            return state, [], seconds
        none_enters = np.asarray(np.inf, self.dtype)

        def at(c: float) -> Scaled:
            c = float(self.dtype.type(c))
            w, terms = multiple(state.weights, c), self._empty_terms()
            for own in self._opened(range(self.blocks.count), state, seconds):
                _, report, _ = call_all(own.visit, "certify", w, own.sets, none_enters)
                _note(terms, own.block, report)
            certificate = self._proved(w, terms, *ray.products(c))._replace(scale=c)
            return Scaled(c, certificate, terms, terms.slack)

        return state, least_multiple(ray, at, wanted), seconds

    def method(self) -> Method:
        """Block coordinate ascent as the host loop runs it."""
        return method_of(
            Ascent(
                rules=self.rules,
                min_margin=self.min_margin,
                settings=self.settings,
                n=self.blocks.n,
                weighted=self.examples,
                step=self.step,
                certify=self.certify,
                search=self.search,
                prove=None,
                capacity=lambda state: state.capacity,
                grow=lambda state, capacity: state._replace(capacity=capacity),
                reach=lambda state: float(np.max(self.terms.reach, initial=0.0)),
            )
        )
