"""Solutions, weights and runs in one file without pickle: save, and check on load.

A file is an archive of a few parts as `plain_values`, of records that are listed here, written
under a temporary name and renamed, so that it is whole or absent. The header has the parts of
`File`, the arrays are called by where they stand in these, as "weights.['weights']" or
"found.state.sets.losses". Weights, and outputs in containers of other kinds than tuples, lists and
dicts, are held by their key paths: who reads them says the structure. Reading checks the digest,
the fields of every record, and weights against the problem.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.archive import Archive, Schema, check_dtype, write
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.checks import checked_number, text_of
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.plain_values import Record, from_plain, record_of, to_plain
from jaxstruct.core.status import Status
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.block_state import BlockDetails, BlockState, Held
from jaxstruct.solvers.loop.host_loop import Best, RunState, StartCounters
from jaxstruct.solvers.loop.trace import Entry, Statistics, Trace, trace_of
from jaxstruct.solvers.memory import Memory
from jaxstruct.solvers.n_slack.run import State
from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.objective.certificate import Certificate
from jaxstruct.solvers.solution import FitDetails, Solution, check_of_fit

CHECKPOINT = Schema("checkpoint", "jaxstruct-checkpoint", 8, "save_solution or fit(checkpoint=...)")


class File(NamedTuple):
    """What a checkpoint holds.

    Fields:
      kind: "weights", "solution" or "blocks". weights: w.
      found: the Solution, its weights aside; None of a training in blocks that goes on.
      state: what such a one goes on from. fingerprint: of the run; None where there is none.
      run: where it stands, without its state; None where it has ended.
      counters: what its clocks and counts have moved by.
    """

    kind: str
    weights: PyTree
    found: Solution | None = None
    state: BlockState | None = None
    fingerprint: dict[str, Any] | None = None
    run: RunState | None = None
    counters: StartCounters | None = None


class Leaves(NamedTuple):
    """A pytree by its key paths. of: "weights" or "outputs"."""

    of: str
    by_path: dict[str, Any]


def key_paths(tree: PyTree) -> dict[str, Any]:
    """{key path: leaf} of a pytree."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _weighed(record: Any) -> dict[str, Any]:
    """The fields of a record that has weights."""
    return record._asdict() | {"weights": Leaves("weights", key_paths(record.weights))}


def _is_plain(tree: PyTree) -> bool:
    if type(tree) is dict:
        return all(isinstance(name, str) and _is_plain(part) for name, part in tree.items())
    return all(map(_is_plain, tree)) if type(tree) in (tuple, list) else hasattr(tree, "dtype")


def _of_sets(sets: WorkingSets) -> dict[str, Any]:
    if _is_plain(sets.outputs):
        return sets._asdict()
    outputs = tuple(Leaves("outputs", key_paths(bucket)) for bucket in sets.outputs)
    return sets._asdict() | {"outputs": outputs}


def _run_fields(run: RunState) -> dict[str, Any]:
    return run._asdict() | {"state": None, "log": trace_of(run.log)}


def _run(fields: dict[str, Any]) -> RunState:
    log = zip(*(column.tolist() for column in fields.pop("log")), strict=True)
    return RunState(**fields, log=[Entry(*row) for row in log])


RECORDS = {
    "solution": record_of(Solution, lambda solution: solution._asdict() | {"weights": None}),
    "state": record_of(State, _weighed),
    "working_sets": record_of(WorkingSets, _of_sets),
    "statistics": record_of(Statistics),
    "trace": record_of(Trace),
    "certificate": record_of(Certificate),
    "fit_details": record_of(FitDetails),
    "block_details": record_of(BlockDetails),
    "memory": record_of(Memory),
    "block_state": record_of(BlockState, _weighed),
    "held": record_of(Held, lambda held: held._replace(packed=None)._asdict()),
    "run_state": Record(RunState, _run, _run_fields),
    "best": record_of(Best, _weighed),
    "counters": record_of(StartCounters),
    "status": Record(Status, lambda fields: Status[fields["name"]], lambda own: {"name": own.name}),
    "leaves": record_of(Leaves),
}
"""By the names that files have for them."""


def previous_of(path: str | os.PathLike) -> Path:
    """What the checkpoint before the last one is called."""
    path = Path(path)
    return path.with_name(path.name + ".previous")


def write_checkpoint(
    path: str | os.PathLike,
    file: File,
    previous: str | os.PathLike | None = None,
    ready: Callable[[], object] = lambda: None,
) -> None:
    """Write a whole file, or none.

    Args:
      previous: what the file that was there is called then. ready: of `core.files.write_file`.
    """
    arrays: dict[str, np.ndarray] = {}
    weights = Leaves("weights", key_paths(file.weights))
    parts = file._replace(weights=weights)._asdict()
    header = {name: to_plain(part, name, arrays, RECORDS) for name, part in parts.items()}
    write(path, CHECKPOINT, header, arrays, previous=previous, ready=ready)


class Checkpoint(Archive):
    """A file that was read: its header and arrays, and the errors that name it."""

    def __init__(
        self, path: str | os.PathLike, prefix: str = "", schema: Schema = CHECKPOINT
    ) -> None:
        """Read the file: its header, and the arrays whose names begin with a prefix.

        Raises:
          OSError: it cannot be opened. DamagedFile: it is not as it was written.
          ValueError: it is of another format or version.
        """
        super().__init__(schema, path)
        self.read(lambda name: name.startswith(prefix))

    def part(
        self,
        name: str,
        weights: PyTree = None,
        outputs: PyTree = None,
        records: Mapping[str, Record] = RECORDS,
    ) -> Any:
        """A part of the `File`; arrays are taken out.

        Args:
          weights: of the problem, whose structure, shapes and dtypes the weights must have.
          outputs: of the problem, whose structure those must have that are held by key paths.
            `Leaves` stay as they are where there is none.

        Raises:
          ArchiveError: it is not there, or does not hold together.
        """
        outputs = output_of(outputs.parts[0] if isinstance(outputs, Buckets) else outputs)
        templates = {"weights": weights, "outputs": outputs}

        def tree(fields: Mapping[str, Any]) -> PyTree:
            leaves = RECORDS["leaves"].build(dict(fields))
            template = templates[leaves.of]
            return leaves if template is None else _fitted(leaves, template)

        with self.refusing():
            own = {**records, "leaves": Record(Leaves, tree)}
            return from_plain(self.header[name], self.arrays, own)


def _fitted(leaves: Leaves, template: PyTree) -> PyTree:
    """The pytree in the structure of a template; weights of its shapes and dtypes."""
    wanted, found = key_paths(template), leaves.by_path
    if set(found) != set(wanted):
        raise ValueError(
            f"another structure: got {text_of(sorted(found), 200)}, expected "
            f"{text_of(sorted(wanted), 200)}"
        )
    for name, mine in wanted.items() if leaves.of == "weights" else ():
        leaf = found[name]
        if leaf.shape != mine.shape or leaf.dtype != mine.dtype:
            raise ValueError(
                f"{name} is of {leaf.dtype} {leaf.shape}, the problem has {mine.dtype} {mine.shape}"
            )
    return jax.tree.unflatten(jax.tree.structure(template), [found[name] for name in wanted])


def check_weights(weights: PyTree) -> None:
    """Raise ValueError where files do not hold arrays of these dtypes."""
    for name, leaf in key_paths(weights).items():
        check_dtype(f"weights{name}", np.asarray(leaf))


def save_weights(path: str | os.PathLike, weights: PyTree) -> None:
    """Write the weights w alone, to predict with later; an existing file is replaced.

    Args:
      path: the file, written as named (".npz" is the custom).
      weights: pytree of floating-point arrays.

    Raises:
      ValueError: a leaf is not of a NumPy number type, or there is none.
    """
    check_weights(weights)
    if not jax.tree.leaves(weights):
        raise ValueError("weights has no arrays: expected the pytree that a solution holds")
    write_checkpoint(path, File("weights", weights))


def save_solution(path: str | os.PathLike, solution: Solution) -> None:
    """Write a Solution of `fit` with all that `fit(start=...)` needs to start from it.

    Args:
      path: the file, written as named (".npz" is the custom); an existing one is replaced.
      solution: the Solution; its state round-trips bit by bit.

    Raises:
      ValueError: a leaf is not of a NumPy number type, or it is no Solution of `fit`.
    """
    check_of_fit("solution", solution, "; save_weights writes the weights of any solver")
    write_checkpoint(path, file_of(solution))


def file_of(solution: Solution) -> File:
    """What a solution's file holds."""
    return File("solution", solution.weights, solution)


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
    return Checkpoint(path, "weights").part("weights", problem.initial_weights)


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


def found_in(checkpoint: Checkpoint, problem: Problem, outputs: PyTree | None = None) -> Solution:
    """The Solution of a file that has one."""
    weights = checkpoint.part("weights", problem.initial_weights)
    found = checkpoint.part("found", problem.initial_weights, outputs)
    if not isinstance(found, Solution):
        raise checkpoint.error("has no solution")
    return found._replace(weights=weights)


def solution_of(
    checkpoint: Checkpoint, problem: Problem, outputs: PyTree | None = None
) -> Solution:
    """The Solution of a file that was read; see `load_solution`."""
    kind = checkpoint.header["kind"]
    if kind == "blocks":
        raise checkpoint.error(
            "is of fit_in_blocks, whose planes are in a folder: give it to fit_in_blocks with "
            "resume=True, or read its weights with load_weights"
        )
    if kind != "solution":
        raise checkpoint.error("holds weights alone: read it with load_weights")
    solution = found_in(checkpoint, problem, outputs)
    with checkpoint.refusing():
        check_of_fit("what it holds", solution)
        if any(isinstance(bucket, Leaves) for bucket in solution.state.sets.outputs):
            raise checkpoint.error(
                "holds outputs that are no plain arrays, tuples, lists or dicts: pass outputs=, "
                "any outputs of the problem, to say their structure"
            )
    return solution


def digest_of(*arrays: np.ndarray) -> str:
    """The sha256 of arrays with their dtypes and shapes, in hexadecimal digits."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def digest_of_tree(tree: PyTree) -> str:
    """The sha256 of a pytree: its structure, without addresses of functions, and its leaves."""
    structure = re.sub(r" at 0x[0-9a-f]+", "", str(jax.tree.structure(tree)))
    leaves = []
    for name, leaf in key_paths(tree).items():
        array = np.asarray(leaf)
        if array.dtype.hasobject:
            array = np.frombuffer(re.sub(r" at 0x[0-9a-f]+", "", repr(leaf)).encode(), np.uint8)
        leaves += [np.frombuffer(name.encode(), np.uint8), array]
    return digest_of(np.frombuffer(structure.encode(), np.uint8), *leaves)


def check_checkpoint(path: Any, seconds: Any, resume: Any, problem: Problem) -> None:
    """Raise ValueError unless checkpoints of the problem can be written to the path.

    Args:
      path: of the file, or None for no checkpoints. seconds: between two of them.
      resume: whether to go on from it.
      problem: its weights must be of number types that a file can hold.
    """
    checked_number("checkpoint_seconds", seconds)
    if not isinstance(resume, bool):
        raise ValueError(f"resume must be True or False, got {text_of(resume)}")
    if path is None:
        if resume:
            raise ValueError("resume=True needs checkpoint=, the file of the run to go on with")
        return
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ValueError(f"checkpoint must be the path of a file, got {text_of(path)}")
    if Path(path).is_dir():
        raise ValueError(f"checkpoint {os.fspath(path)} is a folder: name a file in it")
    check_weights(problem.initial_weights)
