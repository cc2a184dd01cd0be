"""Where a latent training stands, and the file that it goes on from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.archive import Schema, write
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.checks import warn
from jaxstruct.core.contract import Problem, Truth, output_of
from jaxstruct.core.plain_values import Record, record_of, to_plain
from jaxstruct.core.status import Status
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoints.resuming import fingerprint, run_differences
from jaxstruct.solvers.checkpoints.run_state import (
    RECORDS,
    Checkpoint,
    Leaves,
    digest_of_tree,
    key_paths,
    previous_of,
)
from jaxstruct.solvers.solution import Solution

SCHEMA = Schema("checkpoint", "jaxstruct-latent", 2, "fit_latent(checkpoint=...)")

KINDS = (int, bool, float, float, float, int, int, int, float)
"""Of the numbers in a row of a trace."""


class Point(NamedTuple):
    """w, J(w), the completions under w, and the solution of a convex problem of completions."""

    weights: PyTree
    objective: float
    outputs: Buckets
    solution: Solution


class Turn(NamedTuple):
    """What the next convex problem of a start begins from.

    Fields:
      outputs: completions. before: the solution of another one, or None. tolerance: of it.
      now: the point that is known, or None. lower: a bound of the optimum of J.
    """

    outputs: Buckets
    before: Solution | None
    tolerance: float
    now: Point | None = None
    lower: float = 0.0


class End(NamedTuple):
    """How a start ended."""

    point: Point
    status: Status
    critical_gap: float
    lower: float


class Progress(NamedTuple):
    """Where a run stands.

    Fields:
      number: of the start that is next or under way. rounds: of it so far. turn: of it, or None.
      best: the end of the best start that has ended, or None. objectives: of all of these.
      rows: of the trace.
    """

    number: int = 0
    rounds: int = 0
    turn: Turn | None = None
    best: End | None = None
    objectives: tuple[float, ...] = ()
    rows: tuple[tuple, ...] = ()


def _point_fields(point: Point) -> dict[str, Any]:
    parts = output_of(point.outputs.parts)
    return {
        "weights": Leaves("weights", key_paths(point.weights)),
        "objective": point.objective,
        "completions": tuple(Leaves("outputs", key_paths(part)) for part in parts),
        "solution": point.solution,
        "of_solution": Leaves("weights", key_paths(point.solution.weights)),
    }


def _point_of(outputs: Buckets, fields: Mapping[str, Any]) -> Point:
    parts = zip(fields["completions"], outputs.parts, strict=True)
    held = tuple(Truth(own, part.numbers) for own, part in parts)
    solution = fields["solution"]._replace(weights=fields["of_solution"])
    return Point(fields["weights"], fields["objective"], outputs._replace(parts=held), solution)


def _turn_fields(turn: Turn) -> dict[str, Any]:
    """Those that the point does not have: it is what the last convex problem has made."""
    return {"now": turn.now, "tolerance": turn.tolerance, "lower": turn.lower}


def _turn_of(fields: Mapping[str, Any]) -> Turn:
    now = fields["now"]
    return Turn(now.outputs, now.solution, fields["tolerance"], now, fields["lower"])


def _records(outputs: Buckets) -> dict[str, Record]:
    """By the names that files have for them; outputs: of the run, whose completions are held."""
    return RECORDS | {
        "point": Record(Point, partial(_point_of, outputs), _point_fields),
        "turn": Record(Turn, _turn_of, _turn_fields),
        "end": record_of(End),
        "progress": record_of(Progress),
    }


class LatentFile:
    """The checkpoint of a run: read once, and written after every convex problem."""

    def __init__(self, path: str | os.PathLike, own: dict[str, Any], outputs: Buckets) -> None:
        """Of the run with this fingerprint, and its `Truth`s, of which completions are written."""
        self._path, self._own, self._outputs = Path(path), own, outputs

    def write(self, now: Progress) -> None:
        """Write where a run stands; what cannot be written is a warning, and the run goes on."""
        arrays: dict[str, np.ndarray] = {}
        parts, records = {"fingerprint": self._own, "run": now}, _records(self._outputs)
        header = {name: to_plain(part, name, arrays, records) for name, part in parts.items()}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write(self._path, SCHEMA, header, arrays, previous=previous_of(self._path))
        except OSError as error:
            warn(f"no checkpoint was written ({error}); the run goes on", RuntimeWarning)

    def read(self, problem: Problem) -> Progress:
        """Where the run of the file stands; the beginning where there is none.

        Raises:
          ValueError: it is of another run, or damaged.
        """
        if not self._path.exists():
            return Progress()
        file = Checkpoint(self._path, schema=SCHEMA)
        differ = run_differences(file.part("fingerprint"), self._own)
        if differ:
            raise file.error(f"is of another run: {'; '.join(differ)}")
        given = problem.initial_weights, self._outputs
        return file.part("run", *given, records=_records(self._outputs))


def run_fingerprint(
    common: dict[str, Any], inputs: Buckets, outputs: Buckets, weights: np.ndarray, w: PyTree
) -> dict[str, Any]:
    """What decides the numbers of a run; common: of `in_common` and the arguments of its own."""
    digests = digest_of_tree(inputs.parts), digest_of_tree(outputs.parts)
    found = fingerprint(common, jnp.zeros(()).devices(), *digests, weights)
    return found | {"start": None if w is None else digest_of_tree(w)}
