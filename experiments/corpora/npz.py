"""Arrays of an .npz file that nobody vouches for: nothing is unpickled, nothing allocated ahead."""

from __future__ import annotations

import io
import math
import tokenize
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from experiments.corpora.archives import read_members
from experiments.corpora.errors import CorruptArchive, MissingMember
from jaxstruct.data.errors import MalformedFile

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_LAST_LETTER = 0x10FFFF


def read_npz(path: Path, keys: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Returns arrays of an .npz file, in the order of `keys`.

    Args:
      path: the file, plain or compressed, of at most `archives.DEFAULT_LIMIT` unpacked bytes.
      keys: the names of the arrays wanted.

    Raises:
      FileNotFoundError: no such file.
      UnsafeArchive: see `archives.read_members`.
      MalformedFile: damaged, no .npz, an array missing, of Python objects, or with a header that
        does not fit its bytes.
    """
    path = Path(path)
    names = [f"{key}.npy" for key in keys]
    try:
        members = read_members(path, names)
        return tuple(_array(members[name]) for name in names)
    except (CorruptArchive, MissingMember, _BadArray) as error:
        raise MalformedFile(f"{path}: expected an npz with {', '.join(keys)} ({error})") from error


class _BadArray(ValueError):
    """The content of one member is no sound .npy."""


def _array(content: bytes) -> np.ndarray:
    stream = io.BytesIO(content)
    try:
        version = npy.read_magic(stream)
        if version not in _HEADERS:
            raise _BadArray(f"an array has format {version}, expected (1, 0) or (2, 0)")
        with warnings.catch_warnings():  # of headers that Python 2 wrote, which are read as well
            warnings.simplefilter("ignore")
            shape, columns_first, dtype = _HEADERS[version](stream)
    except (ValueError, TypeError, SyntaxError, OverflowError, tokenize.TokenError) as error:
        raise _BadArray(f"not the header of an array: {error}") from error
    body = content[stream.tell() :]
    if dtype.hasobject or min(shape, default=0) < 0 or dtype.itemsize == 0:
        raise _BadArray(f"an array holds {dtype} of shape {shape}, expected plain numbers or text")
    if math.prod(shape) * dtype.itemsize != len(body):
        raise _BadArray(f"an array of {dtype} and shape {shape} has {len(body)} bytes")
    if dtype.kind == "U" and (_code_points(body, dtype) > _LAST_LETTER).any():
        raise _BadArray("an array of text holds numbers that are no letters")
    return np.frombuffer(body, dtype).reshape(shape, order="F" if columns_first else "C").copy()


def _code_points(body: bytes, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(body, np.dtype(np.uint32).newbyteorder(dtype.byteorder))
