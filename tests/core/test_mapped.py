"""Pages of a mapped file are let go of; nothing else is touched."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.core.archive import forget_pages


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_what_was_read_and_written_stays(tmp_path, mode) -> None:
    """What was written to a private map lies in no file: its pages must not go."""
    np.save(tmp_path / "a.npy", np.arange(5000))
    array = np.load(tmp_path / "a.npy", mmap_mode=mode)
    if mode != "r":
        array[7] = -1
    forget_pages(np.asarray(array)[3:])
    expected = np.arange(5000)
    expected[7] = 7 if mode == "r" else -1
    np.testing.assert_array_equal(array, expected)


def test_pages_are_let_go_of(tmp_path) -> None:
    statm = pytest.importorskip("pathlib").Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("the system has no such table")
    np.save(tmp_path / "a.npy", np.ones(4_000_000))
    array = np.asarray(np.load(tmp_path / "a.npy", mmap_mode="r"))

    def pages() -> int:
        return int(statm.read_text().split()[1])

    before = pages()
    assert array.sum() == 4_000_000
    read = pages()
    forget_pages(array[10:])
    assert read - before > 6000 and pages() - before < 2000


def test_other_arrays_stay_as_they_are() -> None:
    for array in (np.ones(3), np.frombuffer(b"abc", np.int8), np.zeros((2, 0))):
        forget_pages(array)
