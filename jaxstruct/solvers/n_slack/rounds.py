"""The rounds that move w: sweeps over enumerated working sets, exact passes, Newton steps.

Variant b of algorithm 3 is the exact pass with its cached sweeps, variant a a proximal Newton step
on the dual over all working sets.

Where a problem has cheap oracles an exact pass asks these for all examples of a chunk, and the
others for those alone where they found nothing: any output that violates by more than epsilon moves
the dual. Certificates never see a cheap answer (A. Mueller and S. Behnke, "Learning a loopy model
for semantic segmentation exactly", VISAPP 2014).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import bucket_slices
from jaxstruct.core.compiling import time_part
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.solvers.n_slack.oracle_pass import (
    Calls,
    OracleOptions,
    OracleReport,
    PassCounts,
    empty_report,
)
from jaxstruct.solvers.n_slack.run import Run, State, named_slots
from jaxstruct.solvers.n_slack.sweeps import Plan
from jaxstruct.solvers.n_slack.task import by_size
from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.objective.certificate import Certificate, ExampleTerms, block_gaps, certify
from jaxstruct.solvers.objective.most_violated import oracle_for, proving
from jaxstruct.solvers.settings import ResolvedSettings

copy_arrays = jax.jit(partial(jax.tree.map, jnp.copy))

NEARLY_WHOLE = 0.9
"""A Newton step of so much of its length was hardly cut by the line search."""

LONGER, SHORTER, LONGEST = 3.0, 0.3, 1e8
"""How the proximal step grows after a step that was solved and taken nearly whole, and shrinks
after one that was cut; past the longest its term in the dual is below the rounding of float32."""


MOST = 0.5
"""Of the gap. One sentence of 22 words, C = 100, carries 120 planes: 180 rounds with all slots,
more than 500 with 24. 300 Spanish sentences have few rows that carry so many, and do not ask."""


class OpenRound(NamedTuple):
    """What every part of one round is called with.

    `seconds` are filled in place. takes_over: whether the round may use up the working sets that
    it begins with. random: a generator for each of the parts.
    """

    run: Run
    clock: np.int32
    random: tuple[np.random.Generator, ...]
    seconds: dict[str, float]
    takes_over: bool

    def certified(self, report: OracleReport, *given: Any) -> tuple[Certificate, ExampleTerms]:
        """(`certificate.certify` of what oracle calls said, their terms of all rows, on the host).

        Args:
          given: what `certify` takes after the terms of examples.
        """
        place, formulation = self.run.placement, self.run.formulation
        terms = place.on_hosts(report.terms)
        return place.agreed(certify(formulation, place.terms, terms, *given)), terms

    def gaps(self, terms: ExampleTerms) -> np.ndarray:
        """The block gaps of all rows."""
        return block_gaps(self.run.formulation, self.run.placement.terms, terms)


def open_round(run: Run, clock: int, takes_over: bool = False) -> OpenRound:
    """The round of this number."""
    seeds = run.placement.seeds
    random = tuple(np.random.default_rng([run.settings.seed, clock, *own]) for own in seeds)
    return OpenRound(run, np.int32(clock), random, {}, takes_over)


def _covering(settings: ResolvedSettings, parts: np.ndarray) -> np.ndarray:
    """The rows of the largest parts that make up `settings.coverage` of their sum."""
    ranked = np.argsort(-parts, kind="stable")
    total = np.cumsum(parts[ranked])
    return ranked[: int(np.searchsorted(total, settings.coverage * total[-1])) + 1]


def _plan(now: OpenRound, chosen: np.ndarray, count: int) -> Plan:
    """Sweeps over the chosen rows, each in a new order; other rows fill the last group.

    There are always as many orders as a round has sweeps at most, so that its shape says nothing
    of `count`.
    """
    place = now.run.placement
    plans = [
        _plan_of(now, number, place.of_part(chosen, number), count)
        for number in range(len(place.parts))
    ]
    orders, groups = place.join(plans)
    return Plan(orders, groups, np.int32(count))


def _plan_of(
    now: OpenRound, number: int, chosen: np.ndarray, count: int
) -> tuple[tuple[np.ndarray, ...], tuple[np.int32, ...]]:
    """(orders, groups) of the part of this number."""
    settings, place, random = now.run.settings, now.run.placement, now.random[number]
    group, orders, groups = settings.visits.group, [], []
    most = max(1, settings.cached_sweeps)
    wanted = np.zeros(place.each, bool)
    wanted[chosen] = True
    for own in place.slices:
        inside, others = np.flatnonzero(wanted[own]), np.flatnonzero(~wanted[own])
        size = -(-len(inside) // group) * group
        rows = np.tile(np.concatenate([inside, others]).astype(np.int32), (most, 1))
        random.permuted(rows[:count, :size], axis=1, out=rows[:count, :size])
        orders.append(rows)
        groups.append(np.int32(size // group))
    return tuple(orders), tuple(groups)


def _sweep(
    now: OpenRound, count: int, w: PyTree, sets: WorkingSets, chosen: np.ndarray, slots: AnyArray
) -> tuple[PyTree, WorkingSets]:
    """Sweeps over the chosen rows and over the named slots, or over all where none are named."""
    if count == 0:
        return w, sets
    settings, place, buffers = now.run.settings, now.run.placement, now.run.buffers
    free = buffers.take(place.planes, place.task, sets, slots, place.zeros)
    given = w, sets, slots, _plan(now, chosen, count), now.clock, free
    sweep = partial(place.sweep, settings.visits, settings.synchronisations, *given)
    w, multipliers, last_used, _, free = time_part(now.seconds, "sweeps", sweep)
    buffers.give_back(free)
    return w, sets._replace(multipliers=multipliers, last_used=last_used)


def _widest(now: OpenRound, sets: WorkingSets, chosen: np.ndarray) -> np.ndarray:
    """The chosen rows that carry nearly as many planes as there are active slots."""
    place = now.run.placement
    carried = place.gathered(np.sum(place.own(sets.multipliers) > 0, axis=1))
    return chosen[carried[chosen] >= named_slots(now.run.settings, sets) - 2]


def _every_slot(now: OpenRound) -> AnyArray:
    """The slots of a sweep that sees all of them."""
    return now.run.placement.put(np.zeros((now.run.placement.rows, 0), np.int32))


def enumerated_round(now: OpenRound, state: State) -> tuple[PyTree, WorkingSets]:
    """Sweeps over all rows and slots at first, later over those that matter."""
    settings, place, w, sets = now.run.settings, now.run.placement, state.weights, state.sets
    every = _every_slot(now)
    if state.clock <= settings.warm_passes or state.block_gaps is None or state.slots is None:
        gaps = None if state.clock <= settings.warm_passes else state.block_gaps
        visited = place.real_rows if gaps is None else _covering(settings, gaps)
        count = 1 if named_slots(settings, sets) else settings.cached_sweeps
        return _sweep(now, count, w, sets, visited, every)
    chosen = _covering(settings, state.block_gaps)
    widest = _widest(now, sets, chosen)
    if len(widest):  # the planes beyond the active slots move here only
        w, sets = _sweep(now, 1, w, sets, widest, every)
    return _sweep(now, settings.cached_sweeps, w, sets, chosen, state.slots)


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


def _shuffle(now: OpenRound) -> Orders:
    """Rows of about one size in a batch, the batches in random order."""
    place, found = now.run.placement, []
    for number, random in enumerate(now.random):
        orders = by_size(place.sized[number], random)
        for order, used in zip(orders, place.batches[place.first + number], strict=True):
            order[:used] = random.permutation(order[:used])
        found.append(orders)
    return found


class _Chunk(NamedTuple):
    """One of the chunks of an exact pass: the spans of each part, and all rows of these."""

    spans: list[Spans]
    rows: np.ndarray


def _chunks(now: OpenRound, orders: Orders) -> Iterator[_Chunk]:
    """The chunks that have rows in any part, those of other hosts as well."""
    place, chunks = now.run.placement, now.run.settings.chunks
    bounds = place.batches * np.arange(chunks + 1)[:, None, None] // chunks
    bounds = bounds.astype(np.int32)
    for starts, stops in zip(bounds[:-1], bounds[1:], strict=True):
        if not np.any(starts < stops):
            continue
        spans, rows = [], []
        for number, own_orders in enumerate(orders):
            first, at = place.place_of(number), place.first + number
            spans.append(tuple(zip(starts[at], stops[at], strict=True)))
            for order, own, (start, stop) in zip(own_orders, place.slices, spans[-1], strict=True):
                rows.append(order[start:stop].reshape(-1) + first + own.start)
        yield _Chunk(spans, np.concatenate(rows))


def call_oracles(
    now: OpenRound, name: str, problem: Problem, w: PyTree, sets: WorkingSets,
    report: OracleReport, calls: Calls, proves: bool = False,
) -> tuple[WorkingSets, OracleReport, PassCounts]:  # fmt: skip
    """The oracle of a problem on some batches, at w; its seconds go under that name.

    Args:
      proves: whether the oracle that proves more is called, where there is one.
    """
    run, place = now.run, now.run.placement
    oracle = run.oracle if problem is place.problem else oracle_for(problem, run.formulation)
    oracle = proving(problem, oracle) if proves else oracle
    options = OracleOptions(oracle, report.slots.shape[1])
    call = partial(place.call_oracles, problem, options, w, sets, report, calls)
    return time_part(now.seconds, name, call)


def _empty_report(now: OpenRound, sets: WorkingSets) -> OracleReport:
    """An empty report on all rows of these working sets."""
    active, place = named_slots(now.run.settings, sets), now.run.placement
    return place.put(empty_report(place.rows, active, str(sets.losses.dtype)))


def call_all(
    now: OpenRound, name: str, w: PyTree, sets: WorkingSets, epsilon: AnyArray, proves: bool = False
) -> tuple[WorkingSets, OracleReport, PassCounts]:
    """One oracle call an example at w, of which the program takes the working sets over.

    proves: as in `call_oracles`.
    """
    place = now.run.placement
    orders, spans = place.every_batch
    calls = Calls(orders, spans, epsilon, now.clock)
    report = _empty_report(now, sets)
    return call_oracles(now, name, place.problem, w, sets, report, calls, proves)


def _ask_again(
    now: OpenRound, orders: Orders, chunk: _Chunk, report: OracleReport, epsilon: AnyArray
) -> tuple[Calls, int] | None:
    """The calls of the rows of a chunk in which a cheap oracle found nothing, and how many."""
    place = now.run.placement
    given = report.terms.value, report.terms.known, place.task.terms.cap
    value, known, cap = map(place.own, given)
    rest = quiet(value, known, cap, epsilon)
    found = []
    for number, part in enumerate(place.parts):
        wanted = rest[number * place.each : (number + 1) * place.each]
        found.append(asked_again(part.outputs, orders[number], chunk.spans[number], wanted))
    count = int(place.processes.total(sum(more.calls for more in found if more)))
    if not count:
        return None
    nothing = [tuple((np.int32(0), np.int32(0)) for _ in spans) for spans in chunk.spans]
    own_orders = [
        more.orders if more else tuple(own) for more, own in zip(found, orders, strict=True)
    ]
    own_spans = [more.spans if more else own for more, own in zip(found, nothing, strict=True)]
    return Calls(place.join(own_orders), place.join(own_spans), epsilon, now.clock), count


def cached_sweeps(
    now: OpenRound, w: PyTree, sets: WorkingSets, gaps: np.ndarray, slots: AnyArray
) -> tuple[PyTree, WorkingSets]:
    """Cached sweeps over the rows of the largest gaps and the slots that matter.

    All slots do where most of the gap is of rows that carry more planes than there are active ones.
    """
    settings, chosen = now.run.settings, _covering(now.run.settings, gaps)
    if named_slots(settings, sets) and MOST * np.sum(gaps) < np.sum(
        gaps[_widest(now, sets, chosen)]
    ):
        slots = _every_slot(now)
    return _sweep(now, settings.cached_sweeps, w, sets, chosen, slots)


def grown_round(
    now: OpenRound, state: State, epsilon: AnyArray, cached: bool = True
) -> tuple[PyTree, WorkingSets, Moved]:
    """The exact pass of algorithm 3 chunk by chunk, then sweeps over the slots that matter.

    Args:
      cached: whether these sweeps are made.
    """
    place, w = now.run.placement, state.weights
    sets = state.sets if now.takes_over else copy_arrays(state.sets)  # programs take them over
    report = _empty_report(now, sets)
    shuffled = _shuffle(now)
    orders = place.join([tuple(jax.device_put(own)) for own in shuffled])
    found, again = [], 0
    first, cheap = first_asked(place.problem)
    first_name = "cheap oracle" if cheap else "oracle"
    for chunk in _chunks(now, shuffled):
        calls = Calls(orders, place.join(chunk.spans), epsilon, now.clock)
        sets, report, counts = call_oracles(now, first_name, first, w, sets, report, calls)
        found.append(counts)
        if cheap and (more := _ask_again(now, shuffled, chunk, report, epsilon)):
            calls, count = more
            of_rest = w, sets, report, calls
            sets, report, counts = call_oracles(now, "oracle", place.problem, *of_rest)
            found.append(counts)
            again += count
        w, sets = _sweep(now, 1, w, sets, chunk.rows, report.slots)
    estimate, terms = now.certified(report)
    gaps = now.gaps(terms)
    if cached:
        w, sets = cached_sweeps(now, w, sets, gaps, report.slots)
    added, overflow = np.sum(jax.device_get(found), axis=0).tolist()
    return w, sets, Moved(added, overflow, estimate, gaps, place.examples + again, report)


def full_round(now: OpenRound, state: State) -> tuple[State, np.ndarray, np.ndarray]:
    """One proximal Newton step: (state, terms of |w|^2, terms of |Phi beta|^2)."""
    settings, place = now.run.settings, now.run.placement
    w, span = (None, state.sets.multipliers) if state.span is None else (state.weights, state.span)
    given = w, span, state.sets, np.asarray(state.sigma, span.dtype), now.clock
    newton = partial(place.newton, settings.newton, *given)
    found = time_part(now.seconds, "newton", newton)
    solved = int(found.newton_steps) < settings.newton.newton_steps
    whole = float(found.length) > NEARLY_WHOLE
    factor = LONGER if solved and whole else 1.0 if whole else SHORTER
    sigma = min(max(state.sigma * factor, 1.0), LONGEST)
    state = State(
        found.weights, found.sets, found.span, sigma, state.clock, None, None, state.gaps, 1
    )
    products = place.own((found.primal_products, found.dual_products))
    return state, *place.gathered(products)


Spans = tuple[tuple[np.int32, np.int32], ...]


class Again(NamedTuple):
    """Which rows of a chunk are called once more: of `Calls`, and how many they are."""

    orders: tuple[Array, ...]
    spans: Spans
    calls: int


def first_asked(problem: Problem) -> tuple[Problem, bool]:
    """(the problem with its cheap oracles in place of the others, whether it has some)."""
    cheap = problem.oracles.cheap
    return (problem, False) if cheap is None else (problem._replace(oracles=cheap), True)


def quiet(value: np.ndarray, known: np.ndarray, cap: np.ndarray, epsilon: AnyArray) -> np.ndarray:
    """[N] the rows of positive weight whose call found nothing violated by more than epsilon.

    Args:
      value, known: of `ExampleTerms`.
    """
    return (cap > 0) & ~(value > known + float(epsilon))


def asked_again(
    outputs: PyTree, orders: list[np.ndarray], spans: Spans, wanted: np.ndarray
) -> Again | None:
    """The rows of a chunk that are wanted in the first of its batches, or None for none.

    Where they fill no whole batch it calls other rows of the chunk besides.

    Args:
      outputs: one a bucket. orders: one [batches, B] a bucket. spans: of the chunk.
      wanted: [N] bool.
    """
    moved, fewer, calls = [], [], 0
    for order, (first, last), own in zip(orders, spans, bucket_slices(outputs), strict=True):
        rows = order[first:last].reshape(-1)
        some = wanted[own][rows]
        batches = -(-int(some.sum()) // order.shape[1])
        new = order.copy()
        new[first:last] = np.r_[rows[some], rows[~some]].reshape(-1, order.shape[1])
        moved.append(new)
        fewer.append((first, np.int32(first + batches)))
        calls += int(some.sum())
    return Again(tuple(map(jax.device_put, moved)), tuple(fewer), calls) if calls else None
