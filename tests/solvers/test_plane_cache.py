"""What a cache holds, in memory or in files, and what it held before."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.core.archive import DamagedFile
from jaxstruct.solvers.out_of_core.plane_cache import Packed, PlaneCache, names_in, pack, unpack
from tests.lib.refusals import refused
from tests.solvers.test_packed_sets import SLOTS, assert_same, grown, outputs

ALL = 1 << 30


def drawn(seed):
    """(true outputs, working sets)."""
    random = np.random.default_rng(seed)
    truth = outputs(random)
    return truth, grown(random, truth)


def names(folder):
    return {path.name for path in folder.iterdir()}


def is_held(cache, number, seed):
    """Whether a block has the working sets that were drawn with that seed."""
    truth, sets = drawn(seed)
    packed = cache.take(number)
    assert isinstance(packed, Packed)
    assert_same(unpack(packed, truth, SLOTS, "float32"), sets)


@pytest.mark.parametrize("most", [0, ALL])
@pytest.mark.parametrize("lasting", [False, True])
def test_planes_come_back(most, lasting, tmp_path):
    cache = PlaneCache(2, tmp_path, most, lasting)
    assert cache.take(1) is None and cache.contents == (None, None)
    for seed in range(4):
        sets = drawn(seed)[1]
        cache.put(1, pack(sets))
        is_held(cache, 1, seed)
        assert cache.planes.tolist() == [0, int(sets.occupied[:, 1:].sum())]
        assert cache.carrying[1] == np.sum(sets.multipliers > 0)
    assert len(names(tmp_path)) == (0 if most else 4 if lasting else 1)


def test_as_many_in_memory_as_fit(tmp_path):
    size = pack(drawn(0)[1]).nbytes
    cache = PlaneCache(3, tmp_path, 2 * size)
    for number in (0, 1, 2, 1):
        cache.put(number, pack(drawn(0)[1]))
    assert [held.packed is None for held in cache.contents] == [False, False, True]
    few = np.tile(np.arange(SLOTS) < 2, (7, 1)) & np.array(drawn(0)[1].occupied)
    for number in (0, 1):  # planes that were evicted
        cache.put(number, pack(drawn(0)[1]._replace(occupied=few)))
    cache.put(2, pack(drawn(0)[1]))
    assert not names(tmp_path), "there is room in memory again"


@pytest.mark.parametrize("most", [0, ALL])
def test_what_it_held_before_comes_back_from_files(most, tmp_path):
    """Also on another cache, as after a kill; files have names that were never used."""
    cache = PlaneCache(3, tmp_path, most, lasting=True)
    cache.put(0, pack(drawn(0)[1]))
    cache.put(2, pack(drawn(1)[1]))
    before = cache.contents
    cache.put(2, pack(drawn(2)[1]))
    filed = cache.in_files(before)
    assert cache.in_files(filed) == filed and filed[1] is None
    cache.keep_only(names_in(filed) | names_in(cache.contents))
    assert names(tmp_path) >= names_in(filed)
    is_held(cache, 2, 2)
    again = PlaneCache(3, tmp_path, most, lasting=True)
    again.put_back(tuple(held and held._replace(packed=None) for held in filed))
    is_held(again, 0, 0)
    is_held(again, 2, 1)
    assert again.planes.tolist() == [0 if held is None else held.planes for held in before]
    again.put(1, pack(drawn(3)[1]))
    (new,) = again.in_files((None, again.contents[1], None))[1:2]
    assert new.name not in names_in(filed)
    again.keep_only({new.name})
    assert names(tmp_path) == {new.name}


def test_files_of_others_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    cache = PlaneCache(1, tmp_path, 0, lasting=True)
    cache.put(0, pack(drawn(0)[1]))
    cache.keep_only(())
    assert names(tmp_path) == {"notes.txt"}


def test_damaged_files_are_refused(tmp_path):
    cache = PlaneCache(1, tmp_path, 0, lasting=True)
    cache.put(0, pack(drawn(0)[1]))
    (held,), (path,) = cache.contents, tmp_path.iterdir()
    whole, other = path.read_bytes(), PlaneCache(1, tmp_path, 0, lasting=True)
    for damaged in (whole[:-1], whole[: len(whole) // 2], whole[:99] + b"x" + whole[100:]):
        path.write_bytes(damaged)
        with pytest.raises(DamagedFile, match=path.name):
            other.put_back((held,))
    path.write_bytes(whole)
    other.put_back((held,))
    is_held(other, 0, 0)
    path.unlink()
    with pytest.raises(DamagedFile, match=path.name):
        other.put_back((held,))


def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch):
    def full(stream, *given, **options):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    cache = PlaneCache(1, tmp_path, 0)
    monkeypatch.setattr(np.lib.format, "write_array", full)
    with refused("No space left", error=OSError):
        cache.put(0, pack(drawn(0)[1]))
    assert not names(tmp_path)
