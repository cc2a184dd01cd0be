"""Arrays that grow on the disk row after row."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


def digest_of(path: Path) -> str:
    """sha256 of a file in hexadecimal digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class GrowingArray:
    """An array in a `.npy` file that grows row after row."""

    def __init__(self, path: Path, dtype: str, shape: tuple[int, ...] = ()) -> None:
        """An empty file of rows of this shape."""
        self._stream: BinaryIO = open(path, "wb")  # noqa: SIM115  closed by `close`
        self._dtype, self._shape, self.path, self.rows = np.dtype(dtype), shape, path, 0
        self._write_head()

    def _write_head(self) -> None:
        """NumPy's, which leaves room for any number of rows."""
        shape = (self.rows, *self._shape)
        said = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._stream, said)

    def add(self, rows: np.ndarray) -> None:
        """Write some rows."""
        assert rows.shape[1:] == self._shape, (rows.shape, self._shape)
        self._stream.write(np.ascontiguousarray(rows, self._dtype).tobytes())
        self.rows += len(rows)

    def close(self) -> dict[str, Any]:
        """Write the head anew; what the header of a store says of the array."""
        self._stream.seek(0)
        self._write_head()
        self._stream.close()
        shape = [self.rows, *self._shape]
        return {"dtype": self._dtype.str, "shape": shape, "sha256": digest_of(self.path)}


def closed(array: GrowingArray) -> np.ndarray:
    """What was written to a passing array, memory-mapped."""
    array.close()
    return np.load(array.path, mmap_mode="r" if array.rows else None, allow_pickle=False)
