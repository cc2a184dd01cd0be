"""Planes at rest: packed and unpacked, in memory or in files, and rows that stay at hand."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.core.archive import DamagedFile
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.objective.formulations import Penalty
from jaxstruct.solvers.out_of_core.gathered_rows import GatheredRows
from jaxstruct.solvers.out_of_core.plane_cache import (
    Packed,
    PlaneCache,
    names_in,
    narrowed,
    pack,
    unpack,
    unpack_enumerated,
)
from tests.lib.equality import assert_same
from tests.lib.refusals import refused

ROWS, SLOTS = (4, 3), 6
N = sum(ROWS)


def outputs(random):
    return tuple(
        {"a": random.integers(0, 9, (n, width)).astype(np.int32)}
        for n, width in zip(ROWS, (5, 300), strict=True)
    )


def grown(random, truth):
    """Planes in the first slots; empty ones hold the true outputs and zeros."""
    counts = random.integers(0, SLOTS, N)
    held = (np.arange(SLOTS) > 0) & (np.arange(SLOTS) <= counts[:, None])
    numbers = [np.where(held, random.random((N, SLOTS)), 0).astype(np.float32) for _ in range(5)]
    parts, gram, first = [], [], 0
    for part in truth:
        mine = held[first : first + len(part["a"])]
        first += len(mine)
        leaf = np.repeat(part["a"][:, None], SLOTS, axis=1)
        leaf[mine] = random.integers(-1, 200, leaf[mine].shape)
        parts.append({"a": leaf})
        pairs = mine[:, :, None] & mine[:, None, :]
        gram.append(np.where(pairs, random.random(pairs.shape), 0).astype(np.float32))
    last = np.where(held, random.integers(1, 9, held.shape), 0).astype(np.int32)
    held[:, 0] = True
    return WorkingSets(tuple(parts), *numbers, tuple(gram), held, last)


def test_planes_that_were_evicted_leave_no_gap():
    """Slots in between that are empty: the planes move up, with their Gram blocks."""
    random = np.random.default_rng(7)
    truth = outputs(random)
    sets = grown(random, truth)
    held = np.array(sets.occupied) & (random.random((N, SLOTS)) < 0.5)
    held[:, 0] = True
    packed = pack(sets._replace(occupied=held))
    back = unpack(packed, truth, SLOTS, "float32")
    for row in range(7):
        kept = np.flatnonzero(held[row])
        np.testing.assert_array_equal(
            np.asarray(back.losses)[row, : len(kept)], np.asarray(sets.losses)[row, kept]
        )
        bucket, own = (0, row) if row < 4 else (1, row - 4)
        np.testing.assert_array_equal(
            np.asarray(back.gram[bucket])[own, : len(kept), : len(kept)],
            np.asarray(sets.gram[bucket])[own][np.ix_(kept, kept)],
        )


def test_enumerated_sets_keep_their_multipliers_in_place():
    random = np.random.default_rng(3)
    listed = grown(random, outputs(random))._replace(
        gram=(np.zeros((4, 0, 0)), np.zeros((3, 0, 0)))
    )
    used = np.where(random.random((N, SLOTS)) < 0.4, 3, 0).astype(np.int32)
    used[:, 0] = 0
    multipliers = np.where(used > 0, random.random((N, SLOTS)), 0).astype(np.float32)
    sets = listed._replace(multipliers=multipliers, last_used=used)
    packed, zeros = pack(sets), np.zeros((N, SLOTS), np.float32)
    fresh = listed._replace(multipliers=zeros, last_used=zeros.astype(np.int32))
    assert_same(unpack_enumerated(packed, fresh), sets)
    assert not packed.outputs and packed.numbers.shape[1] == 1


def test_integers_are_as_narrow_as_they_may_be():
    for most, dtype in ((127, "int8"), (128, "int16"), (32767, "int16"), (32768, "int32")):
        leaf = np.array([-1, most], np.int32)
        assert narrowed(leaf).dtype == dtype
        np.testing.assert_array_equal(narrowed(leaf), leaf)
        assert narrowed(leaf[:0]).dtype == np.int8


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
    wider = unpack(packed, truth, SLOTS + 3, "float32")
    np.testing.assert_array_equal(wider.multipliers[:, :SLOTS], sets.multipliers)
    assert not np.asarray(wider.occupied)[:, SLOTS:].any()


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
    (tmp_path / "notes.txt").write_text("mine")
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
    assert names(tmp_path) == {new.name, "notes.txt"}


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


BLOCKS = 2
SHARES = tuple(rows // BLOCKS for rows in ROWS)
"""2 of the 4 rows of one bucket, 1 of the 3 of the other."""


def drawn_block(seed, enumerated):
    """(task, working sets, slots, gaps) of a block."""
    random = np.random.default_rng(seed)
    truth = outputs(random)
    sets = grown(random, truth)
    if enumerated:  # a plane counts once its multiplier has been positive
        empty = tuple(np.zeros((rows, 0, 0)) for rows in ROWS)
        used = np.where(np.asarray(sets.multipliers) > 0, sets.last_used, 0)
        sets = sets._replace(gram=empty, last_used=used, occupied=np.ones((N, SLOTS), bool))
    inputs = tuple({"x": random.normal(size=(rows, 2))} for rows in ROWS)
    terms = Penalty(0, 0, random.uniform(1, 2, N), np.zeros(N))
    gaps = np.where(random.random(N) < 0.8, random.random(N), 0)
    return Task(inputs, truth, terms), sets, random.integers(0, SLOTS, (N, 3)), gaps


def of_row(task, sets, slots, row):
    """All that is of one row."""
    bucket, at = (0, row) if row < ROWS[0] else (1, row - ROWS[0])
    of_bucket = task.inputs, task.outputs, sets.outputs, sets.gram
    of_all = task.terms.cap, sets.losses, slots
    parts = jax.tree.map(lambda leaf: np.asarray(leaf[at]), [each[bucket] for each in of_bucket])
    return parts, [np.asarray(each[row]) for each in of_all]


def expected_rows(gaps):
    """Of each bucket the rows of the largest gaps that are not 0, rising."""
    found, first = [], 0
    for rows, share in zip(ROWS, SHARES, strict=True):
        own = gaps[first : first + rows]
        best = [row for row in sorted(range(rows), key=lambda row: -own[row])[:share] if own[row]]
        found += [first + row for row in sorted(best)]
        first += rows
    return found


@pytest.mark.parametrize("enumerated", [False, True])
@pytest.mark.parametrize("most", [0, 1 << 30])
def test_rows_are_gathered_moved_and_given_back(enumerated, most, tmp_path):
    for seed in range(0, 40, 2):
        blocks = [drawn_block(seed + number, enumerated) for number in range(BLOCKS)]
        cache, rows = PlaneCache(BLOCKS, tmp_path, most), GatheredRows(BLOCKS)
        assert rows.at_hand is None
        for number in (1, 0):  # in any order
            cache.put(number, pack(blocks[number][1]))
            rows.take(number, *blocks[number])
        here = rows.at_hand
        wanted = [(n, row) for n in (1, 0) for row in expected_rows(blocks[n][3])]
        assert np.sum(here.task.terms.cap > 0) == np.sum(here.gaps > 0) == len(wanted)
        moved = np.random.default_rng(seed).random((N, SLOTS)) * (
            here.sets.occupied & (np.arange(SLOTS) > 0) & (here.gaps > 0)[:, None]
        )
        last = np.where(moved > 0, 99, here.sets.last_used)
        places = {}
        for place in np.flatnonzero(here.gaps):
            ((n, row),) = [(n, r) for n, r in wanted if blocks[n][3][r] == here.gaps[place]]
            places[n, row] = place
            own = of_row(*blocks[n][:3], row)
            assert_same(of_row(here.task, here.sets, here.slots, place), own)
        rows.moved(here.sets._replace(multipliers=moved, last_used=last))
        rows.give_back(cache)
        for number, (task, sets, _, _) in enumerate(blocks):
            multipliers, last_used = np.array(sets.multipliers), np.array(sets.last_used)
            for (n, row), place in places.items():
                if n == number:
                    multipliers[row], last_used[row] = moved[place], last[place]
            new = sets._replace(multipliers=multipliers, last_used=last_used)
            packed = cache.take(number)
            if enumerated:
                zeros = np.zeros((N, SLOTS), np.float32)
                fresh = sets._replace(multipliers=zeros, last_used=zeros.astype(np.int32))
                multipliers[last_used == 0] = 0
                assert_same(unpack_enumerated(packed, fresh), new)
            else:
                back = unpack(packed, task.outputs, SLOTS, "float32")
                assert_same(back, jax.tree.map(lambda a, b: np.asarray(b, a.dtype), back, new))
            assert cache.planes[number] == len(packed.last_used)
            assert cache.carrying[number] == np.sum(packed.carried > 0)


def test_blocks_that_lack_nothing_are_not_swept(tmp_path):
    task, sets, slots, gaps = drawn_block(0, False)
    rows, cache = GatheredRows(2), PlaneCache(2, tmp_path, 1 << 30)
    cache.put(0, pack(sets))
    before = cache.take(0)
    rows.take(0, task, sets, slots, 0 * gaps)
    assert rows.at_hand is None
    rows.give_back(cache)
    assert_same(cache.take(0), before)
    more_blocks_than_rows = GatheredRows(5)
    more_blocks_than_rows.take(0, task, sets, slots, gaps)
    assert more_blocks_than_rows.at_hand is None
