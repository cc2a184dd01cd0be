"""Arrays that grow on the disk are NumPy's own files."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.models.growing_arrays import GrowingArray, closed, digest_of


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("pieces", [[], [0], [1], [5, 0, 12_345]])
def test_what_was_added_is_read_back(tmp_path, shape, pieces):
    array, path = GrowingArray(tmp_path / "a.npy", "<i4", shape), tmp_path / "a.npy"
    parts = [np.random.default_rng(n).integers(0, 99, (n, *shape)) for n in pieces]
    for part in parts:
        array.add(part)
    said = array.close()
    found = np.load(path, allow_pickle=False)
    whole = np.concatenate([np.zeros((0, *shape), np.int32), *parts])
    np.testing.assert_array_equal(found, whole)
    assert found.dtype == np.dtype("<i4") and said["shape"] == list(found.shape)
    assert said["sha256"] == digest_of(path)


def test_a_passing_array_is_mapped(tmp_path):
    array = GrowingArray(tmp_path / "b.passing", "<f4")
    array.add(np.arange(4.0))
    found = closed(array)
    assert isinstance(found, np.memmap) and found.tolist() == [0, 1, 2, 3]
