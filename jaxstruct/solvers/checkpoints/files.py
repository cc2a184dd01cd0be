"""What checkpoints are as archives: pytrees by their key paths, and the checks of those read."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.archive import Archive, DamagedFile, Schema, check_dtype, write
from jaxstruct.core.checks import text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree

CHECKPOINT = Schema("checkpoint", "jaxstruct-checkpoint", 7, "save_solution or fit(checkpoint=...)")

File = tuple[dict[str, Any], dict[str, np.ndarray]]
"""The header and the arrays of a checkpoint."""


def key_paths(prefix: str, tree: PyTree) -> dict[str, Any]:
    """{key path: leaf} of a pytree."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def arrays_of(prefix: str, tree: PyTree) -> dict[str, np.ndarray]:
    """{key path: array} of a pytree of real numbers."""
    arrays = {name: np.asarray(leaf) for name, leaf in key_paths(prefix, tree).items()}
    for name, array in arrays.items():
        check_dtype(name, array)
    return arrays


def skeleton_of(tree: PyTree) -> Any:
    """The structure of outputs made of arrays, tuples, lists and dicts, as JSON; None for others.

    "leaf" for an array, {"tuple": [...]}, {"list": [...]}, {"dict": {name: ...}}.
    """
    if tree is None or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return None
    if isinstance(tree, (tuple, list)):
        parts = [skeleton_of(part) for part in tree]
        return None if None in parts else {type(tree).__name__: parts}
    if isinstance(tree, dict):
        parts = {name: skeleton_of(part) for name, part in tree.items()}
        fine = None not in parts.values() and all(isinstance(name, str) for name in parts)
        return {"dict": parts} if fine else None
    return "leaf" if jax.tree_util.all_leaves([tree]) else None


def tree_of_skeleton(skeleton: Any) -> PyTree:
    """A pytree of zeros in the structure of `skeleton_of`."""
    if skeleton == "leaf":
        return 0
    ((kind, parts),) = skeleton.items()
    if kind == "dict":
        return {name: tree_of_skeleton(part) for name, part in parts.items()}
    return {"tuple": tuple, "list": list}[kind](tree_of_skeleton(part) for part in parts)


def number_text(value: float) -> float | str:
    """A float for strict JSON: infinities and NaN as text, which float() reads back."""
    return float(value) if math.isfinite(value) else repr(float(value))


def previous_of(path: str | os.PathLike) -> Path:
    """What the checkpoint before the last one is called."""
    path = Path(path)
    return path.with_name(path.name + ".previous")


def write_checkpoint(
    path: str | os.PathLike,
    header: Mapping,
    arrays: Mapping[str, np.ndarray],
    previous: str | os.PathLike | None = None,
    ready: Callable[[], object] = lambda: None,
) -> None:
    """Write a whole file, or none.

    Args:
      previous: what the file that was there is called then. ready: of `core.files.write_file`.
    """
    write(path, CHECKPOINT, header, arrays, previous=previous, ready=ready)


def header_of(kind: str, weights: PyTree) -> dict[str, Any]:
    """What every header says."""
    dtype = str(jnp.result_type(*jax.tree.leaves(weights)))
    return {"kind": kind, "dtype": dtype}


def _version_before_7(path: str | os.PathLike) -> Any:
    """The version of a checkpoint of before 7, NumPy's own .npz without a seal; None of others."""
    with contextlib.suppress(Exception), open(path, "rb") as file:
        header = json.loads(np.load(file, allow_pickle=False)["header"].tobytes())
        return header["version"] if header["format"] == CHECKPOINT.format else None
    return None


class Checkpoint(Archive):
    """A file that was read: its header and arrays, and the errors that name it."""

    def __init__(self, path: str | os.PathLike, prefix: str = "") -> None:
        """Read the file: its header, and the arrays whose key paths begin with a prefix.

        Raises:
          OSError: it cannot be opened. DamagedFile: it is not as it was written.
          ValueError: it is of another format or version.
        """
        super().__init__(CHECKPOINT, path)
        try:
            self.read(lambda name: name.startswith(prefix))
        except DamagedFile:
            if (version := _version_before_7(path)) is None:
                raise
            raise self.other_version(version) from None

    def floats(self, name: str, fields: tuple[str, ...]) -> dict[str, float]:
        """An entry of the header that is a record of numbers."""
        return {key: float(value) for key, value in self.record(name, fields).items()}

    def on_device(self, name: str) -> jax.Array:
        """The array at a key path, on the device in the dtype that it was saved in."""
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
        wanted = key_paths(prefix, template)
        ends = ("", "[", ".")  # a key path goes on with an index or an attribute
        found = [n for n in self.arrays if n.startswith(prefix) and n[len(prefix) :][:1] in ends]
        if set(found) != set(wanted):
            raise self.error(
                f"has another structure: got {text_of(sorted(found), 400)}, expected "
                f"{text_of(sorted(wanted), 400)}; load it "
                "with the problem (and outputs) that it was made with"
            )
        return jax.tree.unflatten(jax.tree.structure(template), map(self.on_device, wanted))

    def weights(self, prefix: str, problem: Problem) -> PyTree:
        """The weights at a key path, checked against those of the problem."""
        weights = self.tree(prefix, problem.initial_weights)
        wanted = key_paths(prefix, problem.initial_weights)
        for name, leaf in key_paths(prefix, weights).items():
            mine = wanted[name]
            if leaf.shape != mine.shape or leaf.dtype != mine.dtype:
                raise self.error(
                    f"has {name!r} of {leaf.dtype} {leaf.shape}, the problem has {mine.dtype} "
                    f"{mine.shape}: build the problem as it was when the file was saved"
                )
        return weights
