"""The course of a training, round by round, as a table; and the counts of a run."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxstruct.core.files import write_file

MOST_PRINTED = 40
"""Rounds that a printed trace shows; of more it leaves out the middle."""


class Trace(NamedTuple):
    """The course of a training, one entry a round: ten columns of one length R.

    Fields:
      seconds: [R] float64, of the clock since the start, compiling among them.
      processor_seconds: [R] float64, of all threads of the process, since the start.
      compile_seconds: [R] float64, of the clock: what of `seconds` was spent on compiling.
      primal, dual: [R] float64, the best certified so far.
      planes_added, oracle_calls: [R] int64, in this round.
      round_primal, round_dual: [R] float64, of the round itself: certified ones, or what the calls
        of its exact pass, each at the w that it met, add up to, which proves nothing.
      certified: [R] bool, which of the two they are.
    """

    seconds: np.ndarray
    processor_seconds: np.ndarray
    compile_seconds: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    planes_added: np.ndarray
    oracle_calls: np.ndarray
    round_primal: np.ndarray
    round_dual: np.ndarray
    certified: np.ndarray

    @property
    def training_seconds(self) -> np.ndarray:
        """[R] float64, seconds of the clock since the start without those of compiling."""
        return self.seconds - self.compile_seconds

    @property
    def gap(self) -> np.ndarray:
        """[R] float64, P - D of the best certified so far; infinite before there are any."""
        return self.primal - self.dual

    def table(self) -> dict[str, np.ndarray]:
        """{name: column [R]}, in the order of `to_csv`.

        They are round (from 1), seconds, processor_seconds, compile_seconds, oracle_calls and
        planes (both summed up to and with this round), primal, dual, gap, round_primal, round_dual,
        certified (1 or 0).
        """
        return {
            "round": np.arange(1, len(self.seconds) + 1),
            "seconds": self.seconds,
            "processor_seconds": self.processor_seconds,
            "compile_seconds": self.compile_seconds,
            "oracle_calls": np.cumsum(self.oracle_calls),
            "planes": np.cumsum(self.planes_added),
            "primal": self.primal,
            "dual": self.dual,
            "gap": self.gap,
            "round_primal": self.round_primal,
            "round_dual": self.round_dual,
            "certified": self.certified.astype(np.int64),
        }

    def to_csv(self, path: str | os.PathLike) -> Path:
        """Writes `table` with a line of names and a line a round, and returns the path.

        Numbers are unrounded; infinite ones are inf and -inf. The file is whole or not there.

        Args:
          path: the file, replaced if it is there.

        Raises:
          OSError: the file cannot be written.
        """
        columns = self.table()
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
        return write_file(path, "\n".join(lines) + "\n")

    def __repr__(self) -> str:
        """The table in aligned text, rounded; the middle of a long one is left out."""
        shown = self.table()
        del shown["round_primal"], shown["round_dual"], shown["certified"]
        cells = [[name, *map(_text, column.tolist())] for name, column in shown.items()]
        if len(self.seconds) > MOST_PRINTED:
            half = MOST_PRINTED // 2
            cells = [[*column[: half + 1], "...", *column[-half:]] for column in cells]
        widths = [max(map(len, column)) for column in cells]
        lines = (map(str.rjust, row, widths) for row in zip(*cells, strict=True))
        return "\n".join("  ".join(line) for line in lines)


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.5g}"


TRACE_DTYPES = ("f8", "f8", "f8", "f8", "f8", "i8", "i8", "f8", "f8", "?")
"""Of the columns of a Trace."""
_TIMES = ("seconds", "processor_seconds", "compile_seconds")


Entry = namedtuple("Entry", Trace._fields)
"""One round of a `Trace`, each of its fields a number."""


def trace_of(rounds: Sequence[tuple], before: Trace | None = None) -> Trace:
    """The columns of a run from its rounds.

    Args:
      rounds: one Entry a round.
      before: the trace of the run that this one goes on from; its rounds come first, and seconds
        of all three kinds count on from its last.
    """
    columns = zip(*rounds, strict=True) if rounds else ((),) * len(Trace._fields)
    own = Trace(*map(np.asarray, columns, TRACE_DTYPES))
    if before is None:
        return own
    times = {
        name: getattr(own, name) + np.max(getattr(before, name), initial=0.0) for name in _TIMES
    }
    own = own._replace(**times)
    return Trace(*(np.concatenate(pair) for pair in zip(before, own, strict=True)))


class Statistics(NamedTuple):
    """Counts and times of a run.

    Counts are of this run alone, but for what its end holds: planes_kept, support_planes, capacity.

    Fields:
      passes: rounds. oracle_calls: of single examples of positive weight in all passes: exact ones,
        certificates, searches among multiples of w. An oracle runs more often: in batches, whose
        padding and examples of weight 0 it sees too (128 rows for 100 examples), in trials of its
        rules, at the multipliers of a `start`, and in certificates of checkpoints on the way.
      planes_added, planes_evicted: cutting planes that this run put into the working sets, and that
        it took out of them to hold those. (Of enumerated working sets, which hold every output from
        the start, a plane is added when its multiplier is positive for the first time.)
      planes_kept: planes at the end: those of a `start`, if there was one, + planes_added -
        planes_evicted. support_planes: those of them of multiplier > 0.
      capacity: slots an example at the end.
      compilations: programs of the solver traced and compiled during the run.
      seconds: wall seconds of the run by part: compile, which is tracing and compiling, or reading
        programs from the disk; oracle, sweeps, newton and certify without it; checkpoint, which is
        writing those on the way; total, all of them and what lies between. Of a run that was
        resumed those of all its parts.
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
