"""Solutions and weights in one file without pickle: save, and check on load.

The file is an archive of `files.File`, written under a temporary name and renamed, so that it is
whole or absent. Reading checks its digest, every record, and the arrays against the problem.
"""

from __future__ import annotations

import os

import jax
import numpy as np

from jaxstruct.core.archive import check_dtype
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.checkpoints.files import (
    Checkpoint,
    File,
    Leaves,
    key_paths,
    write_checkpoint,
)
from jaxstruct.solvers.solution import Solution, check_of_fit


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
        sets = solution.state.sets
        if any(isinstance(bucket, Leaves) for bucket in sets.outputs):
            raise checkpoint.error(
                "holds outputs that are no plain arrays, tuples, lists or dicts: pass outputs=, "
                "any outputs of the problem, to say their structure"
            )
        rows, every = solution.details.rows, np.arange(solution.slack.size)
        n = len(sets.losses)
        if rows.shape != (n,) or not np.array_equal(np.sort(rows[rows >= 0]), every):
            raise checkpoint.error(
                f"has rows {rows.shape}, expected [{n}] with every example once and -1 on padding"
            )
    return solution
