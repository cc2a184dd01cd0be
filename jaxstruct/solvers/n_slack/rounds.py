"""The rounds that move w: sweeps over enumerated working sets, exact passes, Newton steps.

Variant b of algorithm 3 is the exact pass with its cached sweeps, variant a a proximal Newton step
on the dual over all working sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, SupportsFloat, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.compile_clock import time_part
from jaxstruct.core.contract import Problem, of_planes
from jaxstruct.core.device import zeros_to_take_over
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.n_slack.batch_orders import (
    by_size,
    examples_of_bucket,
    in_order,
    used_batches,
    whole,
)
from jaxstruct.solvers.n_slack.cheap_oracles import Spans, asked_again, first_asked, quiet
from jaxstruct.solvers.n_slack.cost_model import efforts_of
from jaxstruct.solvers.n_slack.oracle_pass import (
    Calls,
    OracleOptions,
    OracleReport,
    PassCounts,
    empty_report,
    oracle_program,
)
from jaxstruct.solvers.n_slack.placement import Placement
from jaxstruct.solvers.n_slack.proximal_newton import newton_program
from jaxstruct.solvers.n_slack.state import State
from jaxstruct.solvers.n_slack.sweeps import Plan, SweepBuffers, rebuilt_weights, sweeps_program
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.n_slack.variants import named_slots
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, is_enumerated
from jaxstruct.solvers.objective.certificate import Certificate, ExampleTerms, block_gaps, certify
from jaxstruct.solvers.objective.formulations import Formulation, Penalty
from jaxstruct.solvers.objective.most_violated import oracle_for
from jaxstruct.solvers.settings import Efforts, Settings, choice_of, resolved_settings

copy_arrays = jax.jit(partial(jax.tree.map, jnp.copy))


class Round(NamedTuple):
    """The fixed side of one round: what every part of it is called with.

    `room` and `seconds` are filled in place. takes_over: whether the round may use up the working
    sets that it begins with. shards: where the task lies on a mesh; None on one device.
    random: a generator for each of the parts.
    """

    problem: Problem
    task: Task
    settings: Settings
    formulation: Formulation
    oracle: str
    clock: np.int32
    random: tuple[np.random.Generator, ...]
    seconds: dict[str, float]
    efforts: Efforts
    room: SweepBuffers
    takes_over: bool
    shards: Placement | None = None

    @property
    def parts(self) -> tuple[Task, ...]:
        """What each device has, as far as this host plans it."""
        return (self.task,) if self.shards is None else self.shards.parts

    @property
    def terms(self) -> Penalty:
        """Cap and ridge of all rows."""
        return self.task.terms if self.shards is None else self.shards.terms

    @property
    def rows(self) -> int:
        """How many rows this host plans for."""
        return self.task.terms.cap.shape[0] if self.shards is None else self.shards.rows

    def on_host(self, terms: ExampleTerms) -> ExampleTerms:
        """What oracle calls said of all rows, where the host can read it."""
        return terms if self.shards is None else self.shards.on_hosts(terms)

    def own(self, array: Array) -> np.ndarray:
        """An array over all rows on the host, the rows that it plans for."""
        return np.asarray(array) if self.shards is None else self.shards.own(array)

    def of_all(self, array: Array) -> np.ndarray:
        """An array over all rows on the host, whole."""
        own = self.own(array)
        return own if self.shards is None else self.shards.gathered(own)

    def total(self, own: SupportsFloat) -> float:
        """The sum over all hosts of what each has counted."""
        return float(own) if self.shards is None else self.shards.processes.total(own)

    def certified(self, report: OracleReport, *given: Any) -> tuple[Certificate, np.ndarray]:
        """(`certificate.certify` of what oracle calls said, the block gaps of all rows).

        Hosts may round their sums differently, but have to decide alike: all take those of one.

        Args:
          given: what `certify` takes after the terms of examples.
        """
        terms = self.on_host(report.terms)
        found = certify(self.formulation, self.terms, terms, *given)
        if self.shards is not None:
            found = Certificate(*self.shards.processes.gather_numbers(found)[0].tolist())
        return found, block_gaps(self.formulation, self.terms, terms)

    def join(self, parts: Sequence[PyTree]) -> PyTree:
        """What the host has for each of the parts, as programs take it."""
        return parts[0] if self.shards is None else self.shards.join(parts)

    def put(self, tree: PyTree) -> PyTree:
        """Arrays over all rows, where the rows are."""
        return tree if self.shards is None else self.shards.put(tree)

    def of_part(self, rows: np.ndarray, part: int) -> np.ndarray:
        """Those of some rows that one of the parts holds, as it counts them."""
        each = self.rows // len(self.parts)
        own = rows - self.place_of(part)
        return own[(own >= 0) & (own < each)]

    @property
    def first(self) -> int:
        """The number of the first part of this host, among those of all."""
        return 0 if self.shards is None else self.shards.first

    def place_of(self, part: int) -> int:
        """The first of all rows that one of the parts holds."""
        return (self.first + part) * (self.rows // len(self.parts))


def round_of(
    problem: Problem,
    task: Task,
    settings: Settings,
    formulation: Formulation,
    clock: int,
    room: SweepBuffers | None = None,
    takes_over: bool = False,
    shards: Placement | None = None,
) -> Round:
    """The fixed side of the round of this number; room: of the run, where rounds share one."""
    settings = resolved_settings(problem, settings, settings.oracle_batch)
    oracle, places = oracle_for(problem, formulation), [()]
    if shards is not None:  # whatever process has a shard, it draws the same
        places = [(shards.first + part,) for part in range(len(shards.parts))]
    random = tuple(np.random.default_rng([settings.seed, clock, *place]) for place in places)
    return Round(
        problem, task, settings, formulation, oracle, np.int32(clock), random, {},
        efforts_of(problem, settings, oracle, task), room or SweepBuffers(), takes_over, shards,
    )  # fmt: skip


def examples_of(now: Round) -> int:
    """How many have a weight: the oracle calls of a pass."""
    return int(np.sum(np.asarray(now.terms.cap) > 0))


def _examples(now: Round) -> np.ndarray:
    """The rows that are no padding, of the parts of this host."""
    found = []
    for number, part in enumerate(now.parts):
        places, first = bucket_slices(part.outputs), now.place_of(number)
        found += [
            first + own.start + np.arange(examples_of_bucket(part, b))
            for b, own in enumerate(places)
        ]
    return np.concatenate(found)


def _covering(settings: Settings, sets: WorkingSets, parts: np.ndarray) -> np.ndarray:
    """The rows of the largest parts that make up `settings.coverage` of their sum."""
    coverage = settings.coverage
    if coverage is None:
        whole = is_enumerated(sets) and not named_slots(settings, sets)
        coverage = 0.999 if whole else 0.99
    ranked = np.argsort(-parts, kind="stable")
    total = np.cumsum(parts[ranked])
    return ranked[: int(np.searchsorted(total, coverage * total[-1])) + 1]


def _plan(now: Round, chosen: np.ndarray, count: int) -> Plan:
    """Sweeps over the chosen rows, each in a new order; other rows fill the last group.

    There are always as many orders as a round has sweeps at most, so that its shape says nothing
    of `count`.
    """
    plans = [
        _plan_of(now, number, now.of_part(chosen, number), count)
        for number in range(len(now.parts))
    ]
    orders, groups = now.join(plans)
    return Plan(orders, groups, np.int32(count))


def _plan_of(
    now: Round, number: int, chosen: np.ndarray, count: int
) -> tuple[tuple[np.ndarray, ...], tuple[np.int32, ...]]:
    """(orders, groups) of the part of this number."""
    part, random = now.parts[number], now.random[number]
    group, orders, groups = choice_of(now.settings.group), [], []
    most = max(1, choice_of(now.settings.cached_sweeps))
    wanted = np.zeros(part.terms.cap.shape[0], bool)
    wanted[chosen] = True
    for own in bucket_slices(part.outputs):
        inside, others = np.flatnonzero(wanted[own]), np.flatnonzero(~wanted[own])
        size = -(-len(inside) // group) * group
        rows = np.tile(np.concatenate([inside, others]).astype(np.int32), (most, 1))
        random.permuted(rows[:count, :size], axis=1, out=rows[:count, :size])
        orders.append(rows)
        groups.append(np.int32(size // group))
    return tuple(orders), tuple(groups)


def _sweep(
    now: Round, count: int, w: PyTree, sets: WorkingSets, chosen: np.ndarray, slots: AnyArray
) -> tuple[PyTree, WorkingSets]:
    """Sweeps over the chosen rows and over the named slots, or over all where none are named."""
    if count == 0:
        return w, sets
    planes, visits = of_planes(now.problem), now.settings.visit_options()
    zeros = zeros_to_take_over if now.shards is None else now.shards.zeros
    room = now.room.take(planes, now.task, sets, slots, zeros)
    given = now.task, w, sets, slots, _plan(now, chosen, count), now.clock
    if now.shards is None:
        run = partial(sweeps_program, planes, visits, *given, room)
    else:
        synchronisations = now.settings.synchronisations
        run = partial(now.shards.sweep, planes, visits, synchronisations, *given, room)
    w, multipliers, last_used, room = time_part(
        now.seconds, "sweeps", partial(run, effort=now.efforts.sweeps)
    )
    now.room.give_back(room)
    return w, sets._replace(multipliers=multipliers, last_used=last_used)


def _widest(now: Round, sets: WorkingSets, chosen: np.ndarray) -> np.ndarray:
    """The chosen rows that carry nearly as many planes as there are active slots."""
    carried = np.sum(now.own(sets.multipliers) > 0, axis=1)
    carried = carried if now.shards is None else now.shards.gathered(carried)
    return chosen[carried[chosen] >= named_slots(now.settings, sets) - 2]


def enumerated_round(now: Round, state: State) -> tuple[PyTree, WorkingSets]:
    """Sweeps over all rows and slots at first, later over those that matter."""
    settings, w, sets = now.settings, state.weights, state.sets
    every = now.put(jax.device_put(np.zeros((now.rows, 0), np.int32)))
    if state.clock <= settings.warm_passes or state.block_gaps is None or state.slots is None:
        gaps = None if state.clock <= settings.warm_passes else state.block_gaps
        visited = _examples(now) if gaps is None else _covering(settings, sets, gaps)
        count = 1 if named_slots(settings, sets) else choice_of(settings.cached_sweeps)
        return _sweep(now, count, w, sets, visited, every)
    chosen = _covering(settings, sets, state.block_gaps)
    widest = _widest(now, sets, chosen)
    if len(widest):  # the planes beyond the active slots move here only
        w, sets = _sweep(now, 1, w, sets, widest, every)
    return _sweep(now, choice_of(settings.cached_sweeps), w, sets, chosen, state.slots)


class Moved(NamedTuple):
    """What a grown round leaves beside w and the sets; calls: of oracles, cheap ones, too.

    report: what the calls said of each example, each at the w it met; estimate: of them.
    """

    added: int
    overflow: int
    estimate: Certificate
    gaps: np.ndarray
    calls: int
    report: OracleReport


Orders: TypeAlias = list[list[np.ndarray]]
"""One [batches, B] a bucket of each part."""


def _shuffle(now: Round) -> Orders:
    """Rows of about one size in a batch, the batches in random order."""
    found = []
    for part, random in zip(now.parts, now.random, strict=True):
        orders = by_size(part, now.settings, random)
        for order, used in zip(orders, used_batches(part, orders), strict=True):
            order[:used] = random.permutation(order[:used])
        found.append(orders)
    return found


class _Chunk(NamedTuple):
    """One of the chunks of an exact pass: the spans of each part, all rows of these, and whether
    any part has some, those of other hosts as well."""

    spans: list[Spans]
    rows: np.ndarray
    filled: bool


def _chunk(now: Round, orders: Orders, number: int) -> _Chunk:
    """The chunk of this number."""
    spans, rows = [], []

    def span(count: AnyArray) -> tuple[AnyArray, AnyArray]:
        return count * number // now.settings.chunks, count * (number + 1) // now.settings.chunks

    for at, (part, own_orders) in enumerate(zip(now.parts, orders, strict=True)):
        places, counts, own_spans = bucket_slices(part.outputs), used_batches(part, own_orders), []
        for order, own, count in zip(own_orders, places, counts, strict=True):
            start, stop = span(count)
            own_spans.append((np.int32(start), np.int32(stop)))
            rows.append(order[start:stop].reshape(-1) + now.place_of(at) + own.start)
        spans.append(tuple(own_spans))
    rows = np.concatenate(rows)
    if now.shards is None:
        return _Chunk(spans, rows, rows.size > 0)
    used = -(-now.shards.counts // np.array([order.shape[1] for order in orders[0]]))
    start, stop = span(used)
    return _Chunk(spans, rows, bool(np.any(start < stop)))


def call_oracles(
    now: Round, name: str, problem: Problem, w: PyTree, sets: WorkingSets, report: OracleReport,
    calls: Calls,
) -> tuple[WorkingSets, OracleReport, PassCounts]:  # fmt: skip
    """The oracle of a problem on some batches, at w; its seconds go under that name."""
    options = OracleOptions(oracle_for(problem, now.formulation), report.slots.shape[1])
    given = now.task, w, sets, report, calls
    if now.shards is None:
        run = partial(oracle_program, problem, options, *given)
    else:
        run = partial(now.shards.call_oracles, problem, options, *given)
    return time_part(now.seconds, name, partial(run, effort=now.efforts.oracle))


def call_all(
    now: Round, name: str, w: PyTree, sets: WorkingSets, epsilon: AnyArray
) -> tuple[WorkingSets, OracleReport, PassCounts]:
    """One oracle call an example at w, of which the program takes the working sets over."""
    active = named_slots(now.settings, sets)
    report = now.put(empty_report(now.rows, active, str(sets.losses.dtype)))
    orders = [in_order(part, now.settings) for part in now.parts]
    spans = [whole(part, own) for part, own in zip(now.parts, orders, strict=True)]
    calls = Calls(now.join(orders), now.join(spans), epsilon, now.clock)
    return call_oracles(now, name, now.problem, w, sets, report, calls)


def _ask_again(
    now: Round, orders: Orders, chunk: _Chunk, report: OracleReport, epsilon: AnyArray
) -> tuple[Calls, int] | None:
    """The calls of the rows of a chunk in which a cheap oracle found nothing, and how many."""
    value, known, cap = map(now.own, (report.terms.value, report.terms.known, now.task.terms.cap))
    rest = quiet(value, known, cap, epsilon)
    found, each = [], len(rest) // len(now.parts)
    for number, part in enumerate(now.parts):
        wanted = rest[number * each : (number + 1) * each]
        found.append(asked_again(part.outputs, orders[number], chunk.spans[number], wanted))
    count = int(now.total(sum(more.calls for more in found if more)))
    if not count:
        return None
    nothing = [tuple((np.int32(0), np.int32(0)) for _ in spans) for spans in chunk.spans]
    own_orders = [
        more.orders if more else tuple(own) for more, own in zip(found, orders, strict=True)
    ]
    own_spans = [more.spans if more else own for more, own in zip(found, nothing, strict=True)]
    return Calls(now.join(own_orders), now.join(own_spans), epsilon, now.clock), count


def cached_sweeps(
    now: Round, w: PyTree, sets: WorkingSets, gaps: np.ndarray, slots: AnyArray
) -> tuple[PyTree, WorkingSets]:
    """Cached sweeps over the rows of the largest gaps and the slots that matter."""
    chosen = _covering(now.settings, sets, gaps)
    return _sweep(now, choice_of(now.settings.cached_sweeps), w, sets, chosen, slots)


def grown_round(
    now: Round, state: State, epsilon: AnyArray, cached: bool = True
) -> tuple[PyTree, WorkingSets, Moved]:
    """The exact pass of algorithm 3 chunk by chunk, then sweeps over the slots that matter.

    Args:
      cached: whether these sweeps are made.
    """
    settings, w = now.settings, state.weights
    sets = state.sets if now.takes_over else copy_arrays(state.sets)  # programs take them over
    active = named_slots(settings, sets)
    report = now.put(empty_report(now.rows, active, str(sets.losses.dtype)))
    shuffled = _shuffle(now)
    orders = now.join([tuple(map(jax.device_put, own)) for own in shuffled])
    found, again = [], 0
    first, cheap = first_asked(now.problem)
    first_name = "cheap oracle" if cheap else "oracle"
    for number in range(settings.chunks):
        chunk = _chunk(now, shuffled, number)
        if not chunk.filled:
            continue
        calls = Calls(orders, now.join(chunk.spans), epsilon, now.clock)
        sets, report, counts = call_oracles(now, first_name, first, w, sets, report, calls)
        found.append(counts)
        if cheap and (more := _ask_again(now, shuffled, chunk, report, epsilon)):
            calls, count = more
            sets, report, counts = call_oracles(now, "oracle", now.problem, w, sets, report, calls)
            found.append(counts)
            again += count
        w, sets = _sweep(now, 1, w, sets, chunk.rows, report.slots)
    estimate, gaps = now.certified(report)
    if cached:
        w, sets = cached_sweeps(now, w, sets, gaps, report.slots)
    added, overflow = np.sum(jax.device_get(found), axis=0).tolist()
    calls = examples_of(now) + again
    return w, sets, Moved(added, overflow, estimate, gaps, calls, report)


def _rebuilt(now: Round, sets: WorkingSets) -> PyTree:
    """w of the multipliers, without what moves have rounded."""
    orders = in_order(now.task, now.settings)
    run = partial(rebuilt_weights, now.problem, now.task, sets, orders)
    return time_part(now.seconds, "newton", partial(run, effort=now.efforts.newton))


def full_round(now: Round, state: State) -> tuple[State, np.ndarray, np.ndarray]:
    """One proximal Newton step: (state, terms of |w|^2, terms of |Phi beta|^2)."""
    settings, w, span = now.settings, state.weights, state.span
    if span is None:
        span = state.sets.multipliers
        w = _rebuilt(now, state.sets) if now.shards is None else w
    sigma = np.asarray(state.sigma, span.dtype)
    rest = span, state.sets, sigma, now.clock
    if now.shards is None:
        run = partial(newton_program, now.problem, settings.newton, now.task, w, *rest)
    else:
        run = partial(now.shards.newton, now.problem, settings.newton, now.task, *rest)
    found = time_part(now.seconds, "newton", partial(run, effort=now.efforts.newton))
    solved = int(found.newton_steps) < settings.newton.newton_steps
    whole = float(found.length) > 0.9
    factor = 3.0 if solved and whole else 1.0 if whole else 0.3
    sigma = min(max(state.sigma * factor, 1.0), 1e8)
    state = State(
        found.weights, found.sets, found.span, sigma, state.clock, None, None, state.gaps, 1
    )
    return state, now.of_all(found.primal_products), now.of_all(found.dual_products)
