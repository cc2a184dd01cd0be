"""Solutions and weights in one file without pickle: save, and check on load.

A file holds every array leaf under its key path (`jax.tree_util.keystr`: ".weights['weights']",
".state.sets.gram", ...) and a JSON header with format, version, kind, formulation, C, status, dtype
and statistics. It is written under a temporary name and renamed, so that a file is whole or absent.
Reading checks the digest of the file, and every array against the problem.
"""

from __future__ import annotations

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets, bucket_slices, rows_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.status import Status
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoints.files import (
    Checkpoint,
    File,
    arrays_of,
    header_of,
    number_text,
    skeleton_of,
    tree_of_skeleton,
    write_checkpoint,
)
from jaxstruct.solvers.loop.trace import TRACE_DTYPES, Statistics, Trace
from jaxstruct.solvers.n_slack.state import State
from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.objective.certificate import Certificate
from jaxstruct.solvers.solution import FitDetails, Solution, check_of_fit

_NUMBERS = ("primal", "dual", "gap")
_PLAIN_STATE = tuple(name for name in State._fields if name not in ("weights", "sets"))
_COUNTS = tuple(name for name in Statistics._fields if name != "history")
_PLAIN_SETS = tuple(name for name in WorkingSets._fields if name != "outputs")


def save_weights(path: str | os.PathLike, weights: PyTree) -> None:
    """Write the weights w alone, to predict with later; an existing file is replaced.

    Args:
      path: the file, written as named (".npz" is the custom).
      weights: pytree of floating-point arrays.

    Raises:
      ValueError: a leaf is not of a NumPy number type, or there is none.
    """
    arrays = arrays_of(".weights", weights)
    if not arrays:
        raise ValueError("weights has no arrays: expected the pytree that a solution holds")
    write_checkpoint(path, header_of("weights", weights), arrays)


def _state_entry(value: Any) -> Any:
    """What the header says of a field of the state; arrays are stored beside it."""
    if value is None:
        return None
    if isinstance(value, (jax.Array, np.ndarray)):
        return {"array": "jax" if isinstance(value, jax.Array) else "numpy"}
    return {"int": value} if isinstance(value, int) else {"float": number_text(value)}


def save_solution(path: str | os.PathLike, solution: Solution) -> None:
    """Write a Solution of `fit` with all that `fit(start=...)` needs to start from it.

    Args:
      path: the file, written as named (".npz" is the custom); an existing one is replaced.
      solution: the Solution; its state round-trips bit by bit.

    Raises:
      ValueError: a leaf is not of a NumPy number type, or it is no Solution of `fit`.
    """
    check_of_fit("solution", solution, "; save_weights writes the weights of any solver")
    write_checkpoint(path, *file_of(solution))


def found_file(kind: str, solution: Any) -> File:
    """The header and the arrays of what a run has found, beside what it goes on from."""
    statistics = solution.statistics._asdict()
    history = statistics.pop("history")
    header = header_of(kind, solution.weights) | {
        **{name: getattr(solution, name) for name in ("formulation", "C", "message")},
        "status": solution.status.name,
        "statistics": statistics,
        "numbers": {name: number_text(getattr(solution, name)) for name in _NUMBERS},
        "certificate": {k: number_text(v) for k, v in solution.certificate._asdict().items()},
    }
    arrays = arrays_of(".weights", solution.weights) | arrays_of(".slack", solution.slack)
    return header, arrays | arrays_of(".statistics.history", history)


def found_in(checkpoint: Checkpoint, problem: Problem) -> dict[str, Any]:
    """What `found_file` has written, by field."""
    numbers = checkpoint.floats("numbers", _NUMBERS)
    certificate = checkpoint.floats("certificate", Certificate._fields)
    statistics = checkpoint.record("statistics", _COUNTS)
    status = checkpoint.entry("status", str)
    if status not in Status.__members__:
        raise checkpoint.error(f"has status {status!r}, expected one of {list(Status.__members__)}")
    return {
        "weights": checkpoint.weights(".weights", problem),
        "status": Status[status],
        "certificate": Certificate(**certificate),
        "slack": checkpoint.array(".slack"),
        "statistics": Statistics(**statistics, history=_trace(checkpoint)),
        "formulation": checkpoint.entry("formulation", str),
        "message": checkpoint.entry("message", str),
        "C": float(checkpoint.entry("C", (int, float))),
        **numbers,
    }


def file_of(solution: Solution) -> File:
    """The header and the arrays of a solution's file."""
    state, (header, arrays) = solution.state, found_file("solution", solution)
    header |= {
        "fingerprint": solution.details.fingerprint,
        "state": {name: _state_entry(getattr(state, name)) for name in _PLAIN_STATE},
        "sets": list(WorkingSets._fields),
        "buckets": len(state.sets.outputs),
        "outputs": skeleton_of(state.sets.outputs[0]),
    }
    arrays |= arrays_of(".state.weights", state.weights) | arrays_of(".rows", solution.details.rows)
    gram = np.concatenate([np.asarray(block) for block in state.sets.gram])
    sets = state.sets._replace(gram=gram)  # in the file one array, as the rest of the rows
    for name in WorkingSets._fields:
        arrays |= arrays_of(f".state.sets.{name}", getattr(sets, name))
    for name, entry in header["state"].items():
        if entry is not None and "array" in entry:
            arrays |= arrays_of(f".state.{name}", getattr(state, name))
    return header, arrays


def load_weights(path: str | os.PathLike, problem: Problem) -> PyTree:
    """The weights w of a file of `save_weights` or `save_solution`.

    Args:
      path: the file.
      problem: says which structure, shapes and dtypes the weights must have.

    Returns:
      A pytree like problem.initial_weights.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is damaged, of another format or version, or does not fit the problem.
    """
    return Checkpoint(path, ".weights").weights(".weights", problem)


def _output_template(checkpoint: Checkpoint, outputs: PyTree | None) -> PyTree:
    """A pytree in the structure of the outputs of one bucket."""
    if outputs is not None:
        return outputs.parts[0] if isinstance(outputs, Buckets) else outputs
    skeleton = checkpoint.header.get("outputs")
    if skeleton is None:
        raise checkpoint.error(
            "holds outputs that are no plain arrays, tuples, lists or dicts: pass outputs=, any "
            "outputs of the problem, to say their structure"
        )
    return tree_of_skeleton(skeleton)


def _bucketed_outputs(
    checkpoint: Checkpoint, template: PyTree, size: tuple[int, ...]
) -> tuple[PyTree, ...]:
    """The outputs of the working sets by bucket, [N_b, K, ...] each with [N, K] = size."""
    buckets = checkpoint.entry("buckets", int)
    outputs = checkpoint.tree(".state.sets.outputs", (template,) * buckets)
    fit = [
        leaf.shape[:2] == (rows_of(bucket), size[1])
        for bucket in outputs
        for leaf in jax.tree.leaves(bucket)
    ]
    if not all(fit) or sum(map(rows_of, outputs)) != size[0]:
        shapes = [leaf.shape for leaf in jax.tree.leaves(outputs)]
        raise checkpoint.error(
            f"has '.state.sets.outputs' of {shapes}, expected [N_b, K, ...] with [N, K] = {size}"
        )
    return outputs


def _working_sets(checkpoint: Checkpoint, template: PyTree) -> WorkingSets:
    if checkpoint.entry("sets", list) != list(WorkingSets._fields):
        raise checkpoint.error(
            f"has working sets of {checkpoint.entry('sets')}, expected {list(WorkingSets._fields)}:"
            " use the jaxstruct that wrote it"
        )
    plain = {name: checkpoint.on_device(f".state.sets.{name}") for name in _PLAIN_SETS}
    size, dtype = plain["losses"].shape, checkpoint.entry("dtype", str)
    for name, leaf in plain.items():
        length = 1 if name == "gram" else 2
        if leaf.ndim < length or leaf.shape[:length] != size[:length]:
            raise checkpoint.error(
                f"has '.state.sets.{name}' of shape {leaf.shape}, expected [N, K, ...] with "
                f"[N, K] = {size}"
            )
        if jnp.issubdtype(leaf.dtype, jnp.floating) and str(leaf.dtype) != dtype:
            raise checkpoint.error(f"has '.state.sets.{name}' of {leaf.dtype}, expected {dtype}")
    outputs = _bucketed_outputs(checkpoint, template, size)
    whole = plain.pop("gram")
    gram = tuple(whole[own] for own in bucket_slices(outputs))
    return WorkingSets(outputs=outputs, gram=gram, **plain)


def _rows(checkpoint: Checkpoint, size: int) -> np.ndarray:
    """[N] the example of each row, -1 on padding: every example once."""
    rows = checkpoint.array(".rows")
    every = np.arange(checkpoint.array(".slack").size)
    if rows.shape != (size,) or not np.array_equal(np.sort(rows[rows >= 0]), every):
        raise checkpoint.error(
            f"has '.rows' {rows.shape}, expected [{size}] with every example once and -1 on padding"
        )
    return rows


def _trace(checkpoint: Checkpoint) -> Trace:
    """The columns of the history, [R] each."""
    columns = [checkpoint.array(f".statistics.history.{name}") for name in Trace._fields]
    kinds = [column.dtype == kind for column, kind in zip(columns, TRACE_DTYPES, strict=True)]
    shapes = [column.shape for column in columns]
    if not all(kinds) or len(set(shapes)) > 1 or len(shapes[0]) != 1:
        raise checkpoint.error(
            f"has a history of shapes {shapes}, expected columns {Trace._fields} of one length"
        )
    return Trace(*columns)


def _state_value(checkpoint: Checkpoint, name: str, entry: Any) -> Any:
    if entry is None:
        return None
    ((kind, value),) = entry.items()
    if kind == "array":
        read = checkpoint.on_device if value == "jax" else checkpoint.array
        return read(f".state.{name}")
    return {"int": int, "float": float}[kind](value)


def load_solution(
    path: str | os.PathLike, problem: Problem, outputs: PyTree | None = None
) -> Solution:
    """The Solution of a file of `save_solution` or `fit(checkpoint=...)`.

    `fit(..., start=solution)` starts from it, for another C, say, or another tolerance;
    `fit(..., checkpoint=path, resume=True)` goes on with the run itself.

    Args:
      path: the file.
      problem: the problem that it was trained on; its weights say structure, shapes and dtypes.
      outputs: outputs of the problem, padded or ragged; only their structure is read; needed
        where outputs are NamedTuples or other containers than tuple, list and dict.

    Returns:
      The Solution as it was saved, arrays bit by bit.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is truncated, of another format or version, holds weights alone, lacks an
        array, or does not fit the problem. DamagedFile, one of them: the file is cut off or
        has other bits than it was written with.
    """
    return solution_of(Checkpoint(path), problem, outputs)


def solution_of(
    checkpoint: Checkpoint, problem: Problem, outputs: PyTree | None = None
) -> Solution:
    """The Solution of a file that was read; see `load_solution`."""
    kind = checkpoint.entry("kind", str)
    if kind == "blocks":
        raise checkpoint.error(
            "is of fit_in_blocks, whose planes are in a folder: give it to fit_in_blocks with "
            "resume=True, or read its weights with load_weights"
        )
    if kind != "solution":
        raise checkpoint.error("holds weights alone: read it with load_weights")
    entries = checkpoint.record("state", _PLAIN_STATE)
    state = State(
        weights=checkpoint.weights(".state.weights", problem),
        sets=_working_sets(checkpoint, _output_template(checkpoint, outputs)),
        **{name: _state_value(checkpoint, name, entry) for name, entry in entries.items()},
    )
    rows = _rows(checkpoint, state.sets.losses.shape[0])
    details = FitDetails(rows, checkpoint.entry("fingerprint", str))
    return Solution(**found_in(checkpoint, problem), state=state, details=details)
