"""The file format of checkpoints: arrays by key path in one .npz without pickle, a JSON header.

The header holds the sha256 of every array, with its dtype and shape, and a member of its own that
of the header. Whatever is read is checked, so that a damaged file is refused and never half right.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.files import write_file
from jaxstruct.core.types import PyTree

FORMAT, VERSION = "jaxstruct-checkpoint", 6
HEADER, HEADER_DIGEST = "header", "header.sha256"


File = tuple[dict[str, Any], dict[str, np.ndarray]]
"""The header and the arrays of a checkpoint."""


class DamagedCheckpoint(ValueError):
    """A checkpoint that is not as it was written: cut off, or with other bits."""


def key_paths(prefix: str, tree: PyTree) -> dict[str, Any]:
    """{key path: leaf} of a pytree."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def arrays_of(prefix: str, tree: PyTree) -> dict[str, np.ndarray]:
    """{key path: array} of a pytree of real numbers."""
    arrays = {name: np.asarray(leaf) for name, leaf in key_paths(prefix, tree).items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} has dtype {array.dtype}, which .npz cannot hold without pickle: expected "
                "real numbers of a NumPy dtype (cast bfloat16 to float32)"
            )
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


def digest_of(*arrays: np.ndarray) -> str:
    """The sha256 of arrays with their dtypes and shapes, in hexadecimal digits."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


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
    digests = {name: digest_of(array) for name, array in arrays.items()}
    text = json.dumps({**header, "sha256": digests}, allow_nan=False).encode()
    named: dict[str, Any] = {
        HEADER: np.frombuffer(text, np.uint8),
        HEADER_DIGEST: np.frombuffer(hashlib.sha256(text).digest(), np.uint8),
        **arrays,
    }
    write_file(path, lambda file: np.savez(file, **named), previous, ready)


def header_of(kind: str, weights: PyTree) -> dict[str, Any]:
    """What every header says."""
    dtype = str(jnp.result_type(*jax.tree.leaves(weights)))
    return {"format": FORMAT, "version": VERSION, "kind": kind, "dtype": dtype}


class Checkpoint:
    """A file that was read: its header and arrays, and the errors that name it."""

    def __init__(self, path: str | os.PathLike, prefix: str = "") -> None:
        """Read the file: its header, and the arrays whose key paths begin with a prefix.

        Raises:
          OSError: it cannot be opened. DamagedCheckpoint: it is not as it was written.
          ValueError: it is of another format or version.
        """
        self.path = os.fspath(path)
        with open(path, "rb") as file:
            try:
                stored = np.load(file, allow_pickle=False)
                if isinstance(stored, np.ndarray):
                    raise ValueError("it holds one plain array")
                own = (HEADER, HEADER_DIGEST)
                names = [n for n in stored.files if n in own or n.startswith(prefix)]
                self.arrays = {name: stored[name] for name in names}
            except Exception as error:  # a damaged archive ends in many ways
                raise self.damaged(f"is no complete .npz file ({error})") from error
        text = self.arrays.pop(HEADER, np.zeros(0, np.uint8)).tobytes()
        digest = self.arrays.pop(HEADER_DIGEST, np.zeros(0, np.uint8)).tobytes()
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
        if digest != hashlib.sha256(text).digest():
            raise self.damaged("has another header than its sha256 says")
        self._check_arrays(prefix)

    def _check_arrays(self, prefix: str) -> None:
        """Whether the arrays read are those that were written, bit by bit."""
        digests = self.entry("sha256", dict)
        written = {name: digest for name, digest in digests.items() if name.startswith(prefix)}
        if written.keys() != self.arrays.keys():
            other = sorted(written.keys() ^ self.arrays.keys())
            raise self.damaged(f"lacks arrays, or has more than it says: {text_of(other)}")
        for name, digest in written.items():
            if digest_of(self.arrays[name]) != digest:
                raise self.damaged(f"has another array {name!r} than its sha256 says")

    def error(self, what: str) -> ValueError:
        """An error that names the file."""
        return ValueError(f"checkpoint {self.path} {what}")

    def damaged(self, what: str) -> DamagedCheckpoint:
        """The same, of a file that is not as it was written."""
        return DamagedCheckpoint(f"checkpoint {self.path} {what}: it is damaged; save it again")

    def entry(self, name: str, kind: type | tuple = object) -> Any:
        """One entry of the header."""
        value = self.header.get(name)
        if name not in self.header or not isinstance(value, kind):
            raise self.error(f"lacks a proper {name!r} in its header: got {text_of(value)}")
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
        """The array at a key path."""
        if name not in self.arrays:
            raise self.error(f"lacks the array {name!r}: save it again")
        return self.arrays[name]

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
