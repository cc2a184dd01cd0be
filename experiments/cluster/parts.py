"""The parts of a training set that processes read: a file each, of its own examples alone.

Whoever has the corpus writes them once. Which examples a device holds follows from their sizes and
from the number of all devices: 1 process of 4 devices, 2 of 2 and 4 of 1 hold the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import numpy as np

from experiments.corpora.homologues import LETTERS
from experiments.machines.homologues import HomologueInput, HomologueOutput, homologue_search
from experiments.tasks.benchmarks import TASKS as BENCHMARKS
from jaxstruct import Problem, Ragged, take
from jaxstruct.chains import chain
from jaxstruct.chains.potentials import ChainInput
from jaxstruct.core.files import write_file
from jaxstruct.core.types import BinaryTree, PyTree, SparseFeatures
from jaxstruct.multiclass import multiclass
from jaxstruct.solvers.placement.mesh import deal
from jaxstruct.trees.parts import SentenceInput


class Task(NamedTuple):
    """A training of `experiments.benchmarks`, in parts.

    Fields:
      machine: (shape of the first weights, dtype) -> its problem; None where the problem is made of
        the corpus, which each process then reads.
      structure: a pytree as (inputs, outputs).
      size: examples, 0 for all; of digits C / n in tenths.
    """

    title: str
    machine: Callable[[tuple[int, ...], str], Problem] | None
    structure: PyTree
    size: int


def _chain(shape: tuple[int, ...], dtype: str) -> Problem:
    return chain(*shape, dtype=dtype)


def _classes(shape: tuple[int, ...], dtype: str) -> Problem:
    return multiclass(*shape, dtype=dtype)


def _search(shape: tuple[int, ...], dtype: str) -> Problem:
    return homologue_search(LETTERS, dtype=dtype)


_SPARSE = ChainInput(SparseFeatures(0, 0), 0, None)
_SEARCH = HomologueInput(0, 0, 0, 0), HomologueOutput(0, 0, 0)
TASKS = {
    "digits": Task("digits, C/n = 0.1", _classes, (0, 0), 1),
    "words": Task("OCR words, fold 1", _chain, (ChainInput(0, 0, None), 0), 0),
    "spanish": Task("300 Spanish sentences", _chain, (_SPARSE, 0), 300),
    "gum": Task("GUM, short sentences", None, (SentenceInput(0, 0), BinaryTree(0, 0, 0, 0, 0)), 0),
    "homologues": Task("homologues of table 4", _search, _SEARCH, 80),
    "sentences": Task("60 generated sentences", _chain, (_SPARSE, 0), 60),
}


class Part(NamedTuple):
    """What one process trains on. n: examples of all processes."""

    problem: Problem
    inputs: PyTree
    outputs: PyTree
    C: float
    n: int
    formulation: str


def path_of(folder: Path, name: str, processes: int, devices: int, process: int) -> Path:
    """The file of one process."""
    return folder / f"{name}.{processes}x{devices}.{process}.npz"


def write_parts(name: str, size: int, processes: int, devices: int, folder: Path) -> list[Path]:
    """The files of all processes; devices: of each."""
    size = size or TASKS[name].size
    data = BENCHMARKS[name].prepare(size, "float32")
    first = jax.tree.leaves(data.outputs)[0]
    lengths = first.lengths if isinstance(first, Ragged) else np.ones(data.n)
    held = deal(lengths, processes * devices, data.n).reshape(processes, -1)
    shape = jax.tree.leaves(data.problem.initial_weights)[0].shape
    files = []
    for process, rows in enumerate(held):
        own = take((data.inputs, data.outputs), np.sort(rows[rows >= 0]))
        arrays = {"shape": np.array(shape), "C": np.array(data.C), "n": np.array(data.n),
                  "size": np.array(size), "formulation": np.array(data.formulation)}  # fmt: skip
        for number, leaf in enumerate(jax.tree.leaves(own)):
            arrays |= _arrays_of(number, leaf)
        files.append(path_of(folder, name, processes, devices, process))
        write_file(files[-1], partial(_save, arrays))
    return files


def _save(arrays: dict[str, Any], file: BinaryIO) -> None:
    np.savez(file, **arrays)


def _arrays_of(number: int, leaf: Any) -> dict[str, np.ndarray]:
    if not isinstance(leaf, Ragged):
        return {f"{number}.rows": np.asarray(leaf)}
    return {f"{number}.rows": leaf.rows, f"{number}.offsets": leaf.offsets,
            f"{number}.fill": np.array(leaf.fill)}  # fmt: skip


def read_part(name: str, path: Path, dtype: str) -> Part:
    """What one process trains on.

    Raises:
      FileNotFoundError: nobody has written it.
    """
    task = TASKS[name]
    with np.load(path) as held:

        def leaf(number: int) -> np.ndarray | Ragged:
            rows = held[f"{number}.rows"]
            if f"{number}.offsets" not in held:
                return rows
            return Ragged(rows, held[f"{number}.offsets"], held[f"{number}.fill"].item())

        structure = jax.tree.structure(task.structure)
        inputs, outputs = jax.tree.unflatten(structure, map(leaf, range(structure.num_leaves)))
        if task.machine is None:
            problem = BENCHMARKS[name].prepare(held["size"].item(), dtype).problem
        else:
            problem = task.machine(tuple(held["shape"].tolist()), dtype)
        C, n, formulation = held["C"].item(), held["n"].item(), str(held["formulation"])
        return Part(problem, inputs, outputs, C, n, formulation)
