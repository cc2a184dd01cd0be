"""Solutions and weights in one .npz file without pickle: save, check on load, resume.

A file holds every array leaf under its key path (`jax.tree_util.keystr`: ".weights['weights']",
".state.sets.gram", ...) and a JSON header with format, version, kind, formulation, C, status, dtype
and statistics. It is written under a temporary name and renamed, so that a file is whole or absent.
Reading checks every array against the problem before anything is used.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets, bucket_slices, rows_of
from jaxstruct.core.checks import shown
from jaxstruct.core.contract import Problem
from jaxstruct.core.files import write_file
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.certificate import Certificate
from jaxstruct.solvers.solution import Solution
from jaxstruct.solvers.state import State
from jaxstruct.solvers.status import Status
from jaxstruct.solvers.trace import TRACE_DTYPES, Statistics, Trace
from jaxstruct.solvers.working_sets import WorkingSets

FORMAT, VERSION = "jaxstruct-checkpoint", 3
_HEADER = "header"
_NUMBERS = ("primal", "dual", "gap")
_PLAIN_STATE = tuple(name for name in State._fields if name not in ("weights", "sets"))
_COUNTS = tuple(name for name in Statistics._fields if name != "history")
_PLAIN_SETS = tuple(name for name in WorkingSets._fields if name != "outputs")


def _key_paths(prefix: str, tree: PyTree) -> dict[str, Any]:
    """{key path: leaf} of a pytree."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _arrays(prefix: str, tree: PyTree) -> dict[str, np.ndarray]:
    arrays = {name: np.asarray(leaf) for name, leaf in _key_paths(prefix, tree).items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} has dtype {array.dtype}, which .npz cannot hold without pickle: expected "
                "real numbers of a NumPy dtype (cast bfloat16 to float32)"
            )
    return arrays


def _skeleton(tree: PyTree) -> Any:
    """The structure of outputs made of arrays, tuples, lists and dicts, as JSON; None for others.

    "leaf" for an array, {"tuple": [...]}, {"list": [...]}, {"dict": {name: ...}}.
    """
    if tree is None or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return None
    if isinstance(tree, (tuple, list)):
        parts = [_skeleton(part) for part in tree]
        return None if None in parts else {type(tree).__name__: parts}
    if isinstance(tree, dict):
        parts = {name: _skeleton(part) for name, part in tree.items()}
        fine = None not in parts.values() and all(isinstance(name, str) for name in parts)
        return {"dict": parts} if fine else None
    return "leaf" if jax.tree_util.all_leaves([tree]) else None


def _from_skeleton(skeleton: Any) -> PyTree:
    """A pytree of zeros in the structure of `_skeleton`."""
    if skeleton == "leaf":
        return 0
    ((kind, parts),) = skeleton.items()
    if kind == "dict":
        return {name: _from_skeleton(part) for name, part in parts.items()}
    return {"tuple": tuple, "list": list}[kind](_from_skeleton(part) for part in parts)


def _number(value: float) -> float | str:
    """A float for strict JSON: infinities and NaN as text, which float() reads back."""
    return float(value) if math.isfinite(value) else repr(float(value))


def _write(path: str | os.PathLike, header: Mapping, arrays: Mapping[str, np.ndarray]) -> None:
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    named: dict[str, Any] = {_HEADER: text, **arrays}
    write_file(path, lambda file: np.savez(file, **named))


def _header(kind: str, weights: PyTree) -> dict[str, Any]:
    dtype = str(jnp.result_type(*jax.tree.leaves(weights)))
    return {"format": FORMAT, "version": VERSION, "kind": kind, "dtype": dtype}


def save_weights(path: str | os.PathLike, weights: PyTree) -> None:
    """Write the weights w alone, to predict with later; an existing file is replaced.

    Args:
      path: the file, written as named (".npz" is the custom).
      weights: pytree of floating-point arrays.

    Raises:
      ValueError: a leaf is not of a NumPy number type, or there is none.
    """
    arrays = _arrays(".weights", weights)
    if not arrays:
        raise ValueError("weights has no arrays: expected the pytree that a solution holds")
    _write(path, _header("weights", weights), arrays)


def _state_entry(value: Any) -> Any:
    """What the header says of a field of the state; arrays are stored beside it."""
    if value is None:
        return None
    if isinstance(value, (jax.Array, np.ndarray)):
        return {"array": "jax" if isinstance(value, jax.Array) else "numpy"}
    return {"int": value} if isinstance(value, int) else {"float": _number(value)}


def save_solution(path: str | os.PathLike, solution: Solution) -> None:
    """Write a Solution of `fit` with all that `fit(start=...)` needs to go on.

    Args:
      path: the file, written as named (".npz" is the custom); an existing one is replaced.
      solution: the Solution; its state round-trips bit by bit.

    Raises:
      TypeError: it is no Solution of `fit`.
      ValueError: a leaf is not of a NumPy number type.
    """
    if not isinstance(solution, Solution):
        raise TypeError(
            f"solution must be a Solution of fit, got {type(solution).__name__}; save_weights "
            "writes the weights of any solver"
        )
    state, statistics = solution.state, solution.statistics._asdict()
    history = statistics.pop("history")
    header = _header("solution", solution.weights) | {
        **{name: getattr(solution, name) for name in ("formulation", "C", "message")},
        "status": solution.status.name,
        "statistics": statistics,
        "numbers": {name: _number(getattr(solution, name)) for name in _NUMBERS},
        "certificate": {k: _number(v) for k, v in solution.certificate._asdict().items()},
        "state": {name: _state_entry(getattr(state, name)) for name in _PLAIN_STATE},
        "sets": list(WorkingSets._fields),
        "buckets": len(state.sets.outputs),
        "outputs": _skeleton(state.sets.outputs[0]),
    }
    arrays = _arrays(".weights", solution.weights) | _arrays(".state.weights", state.weights)
    arrays |= _arrays(".slack", solution.slack) | _arrays(".rows", solution.rows)
    arrays |= _arrays(".statistics.history", history)
    gram = np.concatenate([np.asarray(block) for block in state.sets.gram])
    sets = state.sets._replace(gram=gram)  # in the file one array, as the rest of the rows
    for name in WorkingSets._fields:
        arrays |= _arrays(f".state.sets.{name}", getattr(sets, name))
    for name, entry in header["state"].items():
        if entry is not None and "array" in entry:
            arrays |= _arrays(f".state.{name}", getattr(state, name))
    _write(path, header, arrays)


class _Checkpoint:
    """A file that was read: its header and arrays, and the errors that name it."""

    def __init__(self, path: str | os.PathLike, prefix: str = ""):
        self.path = os.fspath(path)
        try:
            with open(path, "rb") as file:
                stored = np.load(file, allow_pickle=False)
                if isinstance(stored, np.ndarray):
                    raise ValueError("it holds one plain array")
                names = [n for n in stored.files if n == _HEADER or n.startswith(prefix)]
                self.arrays = {name: stored[name] for name in names}
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
            raise self.error(f"is no complete .npz file ({error}); save it again") from error
        text = self.arrays.pop(_HEADER, np.zeros(0, np.uint8)).tobytes()
        try:
            self.header = json.loads(text)
        except ValueError as error:
            raise self.error(f"has no {FORMAT} header: it is not of save_solution") from error
        if not isinstance(self.header, dict) or self.header.get("format") != FORMAT:
            raise self.error(f"is not of format {FORMAT}: it is not of save_solution")
        if self.header.get("version") != VERSION:
            raise self.error(
                f"has version {self.header.get('version')}, expected {VERSION}: use the jaxstruct "
                "that wrote it"
            )

    def error(self, what: str) -> ValueError:
        return ValueError(f"checkpoint {self.path} {what}")

    def entry(self, name: str, kind: type | tuple = object) -> Any:
        """One entry of the header."""
        value = self.header.get(name)
        if name not in self.header or not isinstance(value, kind):
            raise self.error(f"lacks a proper {name!r} in its header: got {shown(value)}")
        return value

    def record(self, name: str, fields: tuple[str, ...]) -> dict[str, Any]:
        """An entry of the header with exactly these fields."""
        values = self.entry(name, dict)
        if set(values) != set(fields):
            raise self.error(
                f"has {name!r} of {sorted(values)}, expected {sorted(fields)}: use the jaxstruct "
                "that wrote it"
            )
        return values

    def floats(self, name: str, fields: tuple[str, ...]) -> dict[str, float]:
        """An entry of the header that is a record of numbers."""
        return {key: float(value) for key, value in self.record(name, fields).items()}

    def array(self, name: str) -> np.ndarray:
        if name not in self.arrays:
            raise self.error(f"lacks the array {name!r}: save it again")
        return self.arrays[name]

    def on_device(self, name: str) -> jax.Array:
        stored = self.array(name)
        array = jnp.asarray(stored)
        if array.dtype != stored.dtype:
            raise self.error(
                f"has {name!r} in {stored.dtype}, which JAX is not set to hold: enable x64 mode "
                "as when it was saved"
            )
        return array

    def tree(self, prefix: str, template: PyTree) -> PyTree:
        """The pytree at a key path, in the structure of the template."""
        wanted = _key_paths(prefix, template)
        ends = ("", "[", ".")  # a key path goes on with an index or an attribute
        found = [n for n in self.arrays if n.startswith(prefix) and n[len(prefix) :][:1] in ends]
        if set(found) != set(wanted):
            raise self.error(
                f"has another structure: got {shown(sorted(found), 400)}, expected "
                f"{shown(sorted(wanted), 400)}; load it "
                "with the problem (and outputs) that it was made with"
            )
        return jax.tree.unflatten(jax.tree.structure(template), map(self.on_device, wanted))

    def weights(self, prefix: str, problem: Problem) -> PyTree:
        """The weights at a key path, checked against those of the problem."""
        weights = self.tree(prefix, problem.initial_weights)
        wanted = _key_paths(prefix, problem.initial_weights)
        for name, leaf in _key_paths(prefix, weights).items():
            mine = wanted[name]
            if leaf.shape != mine.shape or leaf.dtype != mine.dtype:
                raise self.error(
                    f"has {name!r} of {leaf.dtype} {leaf.shape}, the problem has {mine.dtype} "
                    f"{mine.shape}: build the problem as it was when the file was saved"
                )
        return weights


def load_weights(path: str | os.PathLike, problem: Problem) -> PyTree:
    """The weights w of a file of `save_weights` or `save_solution`.

    Args:
      path: the file.
      problem: says which structure, shapes and dtypes the weights must have.

    Returns:
      A pytree like problem.initial_weights.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is truncated, of another format or version, or does not fit the problem.
    """
    return _Checkpoint(path, ".weights").weights(".weights", problem)


def _output_template(checkpoint: _Checkpoint, outputs: PyTree | None) -> PyTree:
    """A pytree in the structure of the outputs of one bucket."""
    if outputs is not None:
        return outputs.parts[0] if isinstance(outputs, Buckets) else outputs
    skeleton = checkpoint.header.get("outputs")
    if skeleton is None:
        raise checkpoint.error(
            "holds outputs that are no plain arrays, tuples, lists or dicts: pass outputs=, any "
            "outputs of the problem, to say their structure"
        )
    return _from_skeleton(skeleton)


def _bucketed_outputs(
    checkpoint: _Checkpoint, template: PyTree, size: tuple[int, ...]
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


def _working_sets(checkpoint: _Checkpoint, template: PyTree) -> WorkingSets:
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


def _rows(checkpoint: _Checkpoint, size: int) -> np.ndarray:
    """[N] the example of each row, -1 on padding: every example once."""
    rows = checkpoint.array(".rows")
    every = np.arange(checkpoint.array(".slack").size)
    if rows.shape != (size,) or not np.array_equal(np.sort(rows[rows >= 0]), every):
        raise checkpoint.error(
            f"has '.rows' {rows.shape}, expected [{size}] with every example once and -1 on padding"
        )
    return rows


def _trace(checkpoint: _Checkpoint) -> Trace:
    """The columns of the history, [R] each."""
    columns = [checkpoint.array(f".statistics.history.{name}") for name in Trace._fields]
    kinds = [column.dtype == kind for column, kind in zip(columns, TRACE_DTYPES, strict=True)]
    shapes = [column.shape for column in columns]
    if not all(kinds) or len(set(shapes)) > 1 or len(shapes[0]) != 1:
        raise checkpoint.error(
            f"has a history of shapes {shapes}, expected columns {Trace._fields} of one length"
        )
    return Trace(*columns)


def _state_value(checkpoint: _Checkpoint, name: str, entry: Any) -> Any:
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
    """The Solution of a file of `save_solution`; `fit(..., start=solution)` goes on from it.

    Args:
      path: the file.
      problem: the problem that it was trained on; its weights say structure, shapes and dtypes.
      outputs: outputs of the problem (or Buckets of them), only their structure is read; needed
        where outputs are NamedTuples or other containers than tuple, list and dict.

    Returns:
      The Solution as it was saved, arrays bit by bit.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is truncated, of another format or version, holds weights alone, lacks an
        array, or does not fit the problem.
    """
    checkpoint = _Checkpoint(path)
    if checkpoint.entry("kind") != "solution":
        raise checkpoint.error("holds weights alone: read it with load_weights")
    entries = checkpoint.record("state", _PLAIN_STATE)
    state = State(
        weights=checkpoint.weights(".state.weights", problem),
        sets=_working_sets(checkpoint, _output_template(checkpoint, outputs)),
        **{name: _state_value(checkpoint, name, entry) for name, entry in entries.items()},
    )
    numbers = checkpoint.floats("numbers", _NUMBERS)
    certificate = checkpoint.floats("certificate", Certificate._fields)
    statistics = checkpoint.record("statistics", _COUNTS)
    status = checkpoint.entry("status", str)
    if status not in Status.__members__:
        raise checkpoint.error(f"has status {status!r}, expected one of {list(Status.__members__)}")
    return Solution(
        weights=checkpoint.weights(".weights", problem),
        status=Status[status],
        certificate=Certificate(**certificate),
        slack=checkpoint.array(".slack"),
        rows=_rows(checkpoint, state.sets.losses.shape[0]),
        statistics=Statistics(**statistics, history=_trace(checkpoint)),
        state=state,
        formulation=checkpoint.entry("formulation", str),
        message=checkpoint.entry("message", str),
        C=float(checkpoint.entry("C", (int, float))),
        **numbers,
    )
