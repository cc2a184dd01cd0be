"""What rounds are made of: which rows are called and swept, in which order, and the calls."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.compiling import time_part
from jaxstruct.core.types import AnyArray, PyTree
from jaxstruct.solvers.n_slack.oracle_pass import (
    Calls,
    OracleOptions,
    OracleReport,
    PassCounts,
    empty_report,
)
from jaxstruct.solvers.n_slack.run import Run, named_slots
from jaxstruct.solvers.n_slack.sweeps import Plan
from jaxstruct.solvers.n_slack.task import by_size
from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.objective.certificate import Certificate, ExampleTerms, block_gaps, certify
from jaxstruct.solvers.objective.most_violated import proving
from jaxstruct.solvers.settings import ResolvedSettings

copy_arrays = jax.jit(partial(jax.tree.map, jnp.copy))


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
        terms = place.on_hosts(report.numbers)
        return place.agreed(certify(formulation, place.terms, terms, *given)), terms

    def gaps(self, terms: ExampleTerms) -> np.ndarray:
        """The block gaps of all rows."""
        return block_gaps(self.run.formulation, self.run.placement.terms, terms)


def open_round(run: Run, clock: int, takes_over: bool = False) -> OpenRound:
    """The round of this number."""
    seeds = run.placement.seeds
    random = tuple(np.random.default_rng([run.settings.seed, clock, *own]) for own in seeds)
    return OpenRound(run, np.int32(clock), random, {}, takes_over)


def covering(settings: ResolvedSettings, parts: np.ndarray) -> np.ndarray:
    """The rows of the largest parts that make up `settings.coverage` of their sum."""
    ranked = np.argsort(-parts, kind="stable")
    total = np.cumsum(parts[ranked])
    return ranked[: int(np.searchsorted(total, settings.coverage * total[-1])) + 1]


def _plan(now: OpenRound, chosen: np.ndarray, count: int, slots: AnyArray) -> Plan:
    """Sweeps over the chosen rows, each in a new order; other rows fill the last group.

    There are always as many orders as a round has sweeps at most, so that its shape says nothing
    of `count`.
    """
    settings, place, plans = now.run.settings, now.run.placement, []
    group, most = settings.visits.group, max(1, settings.cached_sweeps)
    for number, random in enumerate(now.random):
        orders, groups, wanted = [], [], np.zeros(place.each, bool)
        wanted[place.of_part(chosen, number)] = True
        for own in place.slices:
            inside, others = np.flatnonzero(wanted[own]), np.flatnonzero(~wanted[own])
            size = -(-len(inside) // group) * group
            rows = np.tile(np.concatenate([inside, others]).astype(np.int32), (most, 1))
            random.permuted(rows[:count, :size], axis=1, out=rows[:count, :size])
            orders.append(rows)
            groups.append(np.int32(size // group))
        plans.append((tuple(orders), tuple(groups)))
    orders, groups = place.join(plans)
    return Plan(orders, groups, np.int32(count), slots, now.clock)


def sweep(
    now: OpenRound, count: int, w: PyTree, sets: WorkingSets, chosen: np.ndarray, slots: AnyArray
) -> tuple[PyTree, WorkingSets]:
    """Sweeps over the chosen rows and over the named slots, or over all where none are named."""
    if count == 0:
        return w, sets
    settings, place, buffers = now.run.settings, now.run.placement, now.run.buffers
    free = buffers.take(place.planes, place.task, sets, slots, place.zeros)
    given = w, sets, _plan(now, chosen, count, slots), free
    sweeps = partial(place.sweep, settings.visits, settings.synchronisations, *given)
    w, multipliers, last_used, _, free = time_part(now.seconds, "sweeps", sweeps)
    buffers.give_back(free)
    return w, sets._replace(multipliers=multipliers, last_used=last_used)


def widest_of(now: OpenRound, sets: WorkingSets, chosen: np.ndarray) -> np.ndarray:
    """The chosen rows that carry nearly as many planes as there are active slots."""
    place = now.run.placement
    carried = place.gathered(np.sum(place.own(sets.multipliers) > 0, axis=1))
    return chosen[carried[chosen] >= named_slots(now.run.settings, sets) - 2]


def every_slot(now: OpenRound) -> AnyArray:
    """The slots of a sweep that sees all of them."""
    return now.run.placement.put(np.zeros((now.run.placement.rows, 0), np.int32))


Orders: TypeAlias = list[list[np.ndarray]]
"""One [batches, B] a bucket of each part."""


def shuffle(now: OpenRound) -> Orders:
    """Rows of about one size in a batch, the batches in random order."""
    place, found = now.run.placement, []
    for number, random in enumerate(now.random):
        orders = by_size(place.sized[number], random)
        for order, used in zip(orders, place.batches[place.first + number], strict=True):
            order[:used] = random.permutation(order[:used])
        found.append(orders)
    return found


Spans = tuple[tuple[np.int32, np.int32], ...]
"""One (first, last) a bucket."""


class _Chunk(NamedTuple):
    """One of the chunks of an exact pass: the spans of each part, and all rows of these."""

    spans: list[Spans]
    rows: np.ndarray


def chunks_of(now: OpenRound, orders: Orders) -> Iterator[_Chunk]:
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
    now: OpenRound, name: str, w: PyTree, sets: WorkingSets, report: OracleReport, calls: Calls,
    proves: bool = False,
) -> tuple[WorkingSets, OracleReport, PassCounts]:  # fmt: skip
    """The oracle on some batches, at w: outputs that violate enter; its seconds go under that name.

    Args:
      proves: whether the oracle that proves more is called, where there is one.
    """
    run, place = now.run, now.run.placement
    oracle = proving(place.problem, run.oracle) if proves else run.oracle
    options = OracleOptions(oracle, report.slots.shape[1])
    call = partial(place.call_oracles, options, w, sets, report, calls)
    return time_part(now.seconds, name, call)


def report_on(now: OpenRound, sets: WorkingSets) -> OracleReport:
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
    report = report_on(now, sets)
    return call_oracles(now, name, w, sets, report, calls, proves)
