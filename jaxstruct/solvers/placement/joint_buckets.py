"""The examples of several processes in buckets of the same padded shapes.

Every process brings its own examples. Lengths of all decide on the buckets, and the longest of all
on the padded sizes. A process that has no example of a bucket borrows one of another, which is
padding there and has no weight.
"""

from __future__ import annotations

import io
from typing import Any

import jax
import numpy as np

from jaxstruct.core.buckets import Buckets
from jaxstruct.core.contract import Problem
from jaxstruct.core.padding import Others, ragged_leaves
from jaxstruct.core.processes import Processes
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.validation.checks import checked_buckets


def joint_buckets(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    example_weights: np.ndarray | None,
    processes: Processes,
) -> tuple[Buckets, Buckets, np.ndarray]:
    """(inputs, outputs, [P, B] how many examples of each bucket each process has).

    Parts are of this process, in as many buckets as all have. Where its index is empty a part holds
    one borrowed example.

    Raises:
      ValueError: the examples of a process do not fit the problem, or not those of the others.
    """
    # what decides who asks the others for lengths
    processes.check_alike({"the number of ragged stores of inputs": len(ragged_leaves(inputs))})
    others = _others(processes)
    x, y = processes.agree(
        lambda: checked_buckets(problem, inputs, outputs, example_weights, others)
    )
    counts = np.array(processes.gather([len(own) for own in x.index]))
    _check_shapes(processes, x, y)
    return *_with_borrowed(processes, counts, x, y), counts


def _others(processes: Processes) -> Others:
    def every(sizes: np.ndarray) -> np.ndarray:
        parts = processes.gather_bytes(sizes.astype(np.int64).tobytes())
        return np.concatenate([np.frombuffer(part, np.int64) for part in parts])

    def most(lengths: np.ndarray) -> np.ndarray:
        return np.max(np.array(processes.gather(lengths.tolist())), axis=0)

    return Others(every, most)


def _shapes(tree: PyTree) -> dict[str, str]:
    """{key path: dtype and shape of one example}; floats become those of the run."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)

    def of_leaf(leaf: Any) -> str:
        array = np.asarray(leaf)
        kind = "float" if array.dtype.kind == "f" else str(array.dtype)
        return f"{kind} {list(array.shape[1:])}"

    return {jax.tree_util.keystr(path): of_leaf(leaf) for path, leaf in leaves}


def _check_shapes(processes: Processes, x: Buckets, y: Buckets) -> None:
    """Raise ValueError where one example of a bucket has other shapes in another process."""
    own = {}
    for name, buckets in (("inputs", x), ("outputs", y)):
        for number, part in enumerate(buckets.parts):
            if part is not None:
                own[f"{name} of bucket {number}"] = _shapes(part)
    every = processes.gather(own)
    for name in dict.fromkeys(name for each in every for name in each):
        held = [(n, each[name]) for n, each in enumerate(every) if name in each]
        for number, shapes in held[1:]:
            if shapes != held[0][1]:
                raise ValueError(
                    f"an example has {name} {held[0][1]} in process "
                    f"{processes.numbers[held[0][0]]}, {shapes} in process "
                    f"{processes.numbers[number]}: pad them alike, or give ragged stores"
                )


def _with_borrowed(
    processes: Processes, counts: np.ndarray, x: Buckets, y: Buckets
) -> tuple[Buckets, Buckets]:
    """The buckets, one example of another process in those that have none."""
    wanted = np.flatnonzero(np.any(counts == 0, axis=0))
    if not wanted.size:
        return x, y
    lenders = np.argmax(counts > 0, axis=0)
    lent = {}
    for bucket in wanted[lenders[wanted] == processes.here]:
        leaves = jax.tree.leaves((x.parts[bucket], y.parts[bucket]))
        lent |= {f"{bucket} {n}": np.asarray(leaf)[:1] for n, leaf in enumerate(leaves)}
    packed = io.BytesIO()
    np.savez(packed, **lent)
    received = processes.gather_bytes(packed.getvalue())
    structure = jax.tree.structure(
        next(pair for pair in zip(x.parts, y.parts, strict=True) if pair[0] is not None)
    )
    parts = list(zip(x.parts, y.parts, strict=True))
    for bucket in wanted:
        if not counts[processes.here, bucket]:
            with np.load(io.BytesIO(received[lenders[bucket]])) as held:
                leaves = [held[f"{bucket} {n}"] for n in range(structure.num_leaves)]
            parts[bucket] = jax.tree.unflatten(structure, leaves)
    xs, ys = zip(*parts, strict=True)
    return Buckets(xs, x.index), Buckets(ys, y.index)
