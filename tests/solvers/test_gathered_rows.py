"""Rows of many blocks side by side: those of the largest gaps, whose multipliers go back."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.objective.formulations import Penalty
from jaxstruct.solvers.out_of_core.gathered_rows import GatheredRows
from jaxstruct.solvers.out_of_core.plane_cache import PlaneCache, pack, unpack, unpack_enumerated
from tests.solvers.test_packed_sets import ROWS, SLOTS, assert_same, grown, outputs

N, BLOCKS = sum(ROWS), 2
SHARES = tuple(rows // BLOCKS for rows in ROWS)
"""2 of the 4 rows of one bucket, 1 of the 3 of the other."""


def drawn(seed, enumerated):
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
        blocks = [drawn(seed + number, enumerated) for number in range(BLOCKS)]
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
            task, sets, slots, gaps = blocks[n]
            bucket, own = (0, row) if row < ROWS[0] else (1, row - ROWS[0])
            at = place - (ROWS[0] if bucket else 0)
            assert_same(
                jax.tree.map(lambda leaf, at=at: leaf[at], (
                    here.task.inputs[bucket], here.task.outputs[bucket], here.sets.outputs[bucket],
                    here.sets.gram[bucket],
                )),
                jax.tree.map(lambda leaf, own=own: leaf[own], (
                    task.inputs[bucket], task.outputs[bucket], sets.outputs[bucket],
                    sets.gram[bucket],
                )),
            )  # fmt: skip
            np.testing.assert_array_equal(here.sets.losses[place], sets.losses[row])
            np.testing.assert_array_equal(here.slots[place], slots[row])
            assert here.task.terms.cap[place] == task.terms.cap[row]
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
    task, sets, slots, gaps = drawn(0, False)
    rows, cache = GatheredRows(2), PlaneCache(2, tmp_path, 1 << 30)
    cache.put(0, pack(sets))
    before = cache.take(0)
    rows.take(0, task, sets, slots, 0 * gaps)
    assert rows.at_hand is None
    rows.give_back(cache)
    assert_same(cache.take(0), before)


def test_more_blocks_than_rows_gather_none():
    task, sets, slots, gaps = drawn(0, False)
    rows = GatheredRows(5)
    rows.take(0, task, sets, slots, gaps)
    assert rows.at_hand is None
