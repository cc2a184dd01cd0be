"""Arrays on a disk: memory-mapped, so that what is read of them need not stay in memory."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def forget_pages(array: np.ndarray) -> None:
    """Let go of the pages that were read of an array mapped to be read only; others stay.

    They are read anew where they are needed again. Without this a process that goes through a large
    file seems to hold all of it, until the system wants the memory for others.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and _is_read_only(base):
        base.madvise(mmap.MADV_DONTNEED)


def _is_read_only(mapped: mmap.mmap) -> bool:
    """Whether nothing can have been written to it that is not in the file."""
    with memoryview(mapped) as view:
        return view.readonly
