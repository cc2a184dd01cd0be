"""Results as JSON; `jaxstruct.core.files` writes them, whole or not at all."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxstruct.core.files import write_file


def file_in(folder: str | os.PathLike, filename: str) -> Path:
    """The path folder/filename.

    Raises:
      ValueError: `filename` holds a path separator.
    """
    if not filename or Path(filename).name != filename:
        raise ValueError(f"name: got {filename!r}, expected a plain file name; use `folder`.")
    return Path(folder) / filename


def write_results(folder: str | os.PathLike, name: str, payload: Any) -> Path:
    """Write `payload` as folder/name.json and return the path.

    numpy and jax scalars and arrays become numbers and lists, NamedTuples and dataclasses become
    objects, enumeration members their names, paths and keys strings; nan and the infinities,
    which JSON lacks, become null. Written under a temporary name, then renamed.

    Raises:
      TypeError: a value that JSON cannot hold; the message says where it sits.
      ValueError: `name` holds a path separator, or two keys become the same string.
    """
    plain = to_plain(payload, name)
    text = json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    return write_file(file_in(folder, f"{name}.json"), text)


def to_plain(value: Any, where: str = "payload") -> Any:
    """`value` as JSON's own types, by the rules of `write_results`; `where` is for messages."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return _plain_mapping(value, where)
    if hasattr(value, "_asdict"):
        return _plain_mapping(value._asdict(), where)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return _plain_mapping({f.name: getattr(value, f.name) for f in fields}, where)
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [to_plain(item, f"{where}[{i}]") for i, item in enumerate(items)]
    if hasattr(value, "__array__"):
        return _plain_array(np.asarray(value), where)
    raise TypeError(
        f"{where}: got {type(value).__name__}, which JSON cannot hold; convert it to numbers, "
        "strings, lists or mappings."
    )


def _plain_mapping(value: Mapping, where: str) -> dict[str, Any]:
    plain = {_key(key): to_plain(item, f"{where}.{key}") for key, item in value.items()}
    if len(plain) != len(value):
        raise ValueError(f"{where}: two keys of {list(value)} become the same string.")
    return plain


def _key(key: Any) -> str:
    return key.name if isinstance(key, enum.Enum) else str(key)


def _plain_array(array: np.ndarray, where: str) -> Any:
    if array.dtype.kind not in "biufUV" or array.dtype.fields:
        raise TypeError(f"{where}: got an array of {array.dtype}, which JSON cannot hold.")
    if array.dtype.kind in "fV":  # V: the small floats of jax, such as bfloat16
        array = array.astype(np.float64)
    return to_plain(array.tolist(), where)
