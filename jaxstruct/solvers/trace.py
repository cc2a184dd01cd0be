"""The course of a training, round by round, and the counts of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Trace(NamedTuple):
    """The course of a training, one entry a round: seven columns of one length R.

    Fields:
      seconds: [R] float64, since the start. primal, dual: [R] float64, the best certified so far.
      planes_added, oracle_calls: [R] int64, in this round.
      round_primal, round_dual: [R] float64, of the round itself: certified ones, or what the calls
        of its exact pass, each at the w that it met, add up to, which proves nothing.
    """

    seconds: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    planes_added: np.ndarray
    oracle_calls: np.ndarray
    round_primal: np.ndarray
    round_dual: np.ndarray


TRACE_DTYPES = ("f8", "f8", "f8", "i8", "i8", "f8", "f8")
"""Of the columns of a Trace."""


class Entry(NamedTuple):
    """One round of a `Trace`, its fields as there, each a number."""

    seconds: float
    primal: float
    dual: float
    planes_added: int
    oracle_calls: int
    round_primal: float
    round_dual: float


def trace_of(rounds: Sequence[tuple], before: Trace | None = None) -> Trace:
    """The columns of a run from its rounds.

    Args:
      rounds: one Entry a round.
      before: the trace of the run that this one goes on from; its rounds come first, and seconds
        count on from its last.
    """
    columns = zip(*rounds, strict=True) if rounds else ((),) * len(Trace._fields)
    own = Trace(*map(np.asarray, columns, TRACE_DTYPES))
    if before is None:
        return own
    own = own._replace(seconds=own.seconds + np.max(before.seconds, initial=0.0))
    return Trace(*(np.concatenate(pair) for pair in zip(before, own, strict=True)))


class Statistics(NamedTuple):
    """Counts and times of a run.

    Counts are of this run alone, but for what its end holds: planes_kept, support_planes, capacity.

    Fields:
      passes: rounds. oracle_calls: of single examples, certifying ones included; examples of weight
        0, rows of padding and the pass that takes up a `start` are not counted.
      planes_added, planes_evicted: cutting planes that this run put into the working sets, and that
        it took out of them to make room. (Of enumerated working sets, which hold every output from
        the start, a plane is added when its multiplier is positive for the first time.)
      planes_kept: planes at the end: those of a `start`, if there was one, + planes_added -
        planes_evicted. support_planes: those of them of multiplier > 0.
      capacity: slots an example at the end.
      compilations: programs of the solver traced and compiled during the run.
      seconds: wall seconds of the run by part (oracle, sweeps, newton, certify, total); a part's
        first call holds its compilation.
      history: the course, round by round; after a `start` of the same C with the rounds of the
        run before in front, so that the last `passes` entries are this run's.
    """

    passes: int
    oracle_calls: int
    planes_added: int
    planes_kept: int
    planes_evicted: int
    support_planes: int
    capacity: int
    compilations: int
    seconds: dict[str, float]
    history: Trace
