"""Archives: what comes back, what is refused, and arrays that grow on the disk."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from jaxstruct.core.archive import Archive, DamagedFile, GrowingArray, Schema, write

SCHEMA = Schema("file of tests", "tests", 1, "nobody")


def test_what_was_written_is_read_back(tmp_path):
    arrays = {
        "whole": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
        "one['é']": np.array(2.5),
        "none": np.zeros((0, 4), bool),
    }
    path = write(tmp_path / "a", SCHEMA, {"own": [1]}, arrays)
    archive = Archive(SCHEMA, path)
    archive.read()
    assert archive.entry("own") == [1] and archive.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        found = archive.arrays[name]
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype and found.flags.writeable
    assert np.load(path, allow_pickle=False)["whole"].tolist() == [[0, 1, 2], [3, 4, 5]]
    part = Archive(SCHEMA, path)
    part.read(lambda name: name == "none")
    assert [*part.arrays] == ["none"] and part.digest == archive.digest
    assert write(tmp_path / "b", SCHEMA, {"own": [1]}, arrays).read_bytes() == path.read_bytes()


def _damaged(content, rng):
    """Cut off, with a hole, with other bits or bytes, or with more at its end."""
    a, b = np.sort(rng.choice(len(content), 2, replace=False))
    changed = bytearray(content)
    changed[a] ^= 1 << int(rng.integers(8))
    other = content[:a] + bytes(255 - each for each in content[a:b]) + content[b:]
    kinds = content[:a], content[:a] + content[b:], bytes(changed), other, content + rng.bytes(9)
    return kinds[rng.integers(len(kinds))]


def test_no_damaged_file_is_read(tmp_path):
    """Files of models, checkpoints and planes are archives."""
    rng, path = np.random.default_rng(0), tmp_path / "a"
    whole = write(path, SCHEMA, {"own": [1]}, {"x": rng.normal(size=(9, 9))}).read_bytes()
    for _ in range(1000):
        path.write_bytes(_damaged(whole, rng))
        with pytest.raises(DamagedFile, match=f"^file of tests {path} (is no|does not)"):
            Archive(SCHEMA, path).read()


def test_what_files_do_not_hold_is_refused(tmp_path):
    for array in (np.array([{}]), np.zeros(2, complex), np.zeros(2, ">f4")):
        with pytest.raises(ValueError, match="mine has dtype .* which files do not hold"):
            write(tmp_path / "a", SCHEMA, {}, {"mine": array})
    assert not [*tmp_path.iterdir()]


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
    assert said["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
