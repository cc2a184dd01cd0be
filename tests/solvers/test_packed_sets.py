"""Planes at rest come back as they were."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.solvers.n_slack.working_sets import WorkingSets
from jaxstruct.solvers.out_of_core.plane_cache import narrowed, pack, unpack, unpack_enumerated

ROWS, SLOTS = (4, 3), 6


def outputs(random):
    return tuple(
        {"a": random.integers(0, 9, (n, width)).astype(np.int32)}
        for n, width in zip(ROWS, (5, 300), strict=True)
    )


def grown(random, truth):
    """Planes in the first slots; empty ones hold the true outputs and zeros."""
    n = sum(ROWS)
    counts = random.integers(0, SLOTS, n)
    held = (np.arange(SLOTS) > 0) & (np.arange(SLOTS) <= counts[:, None])
    numbers = [np.where(held, random.random((n, SLOTS)), 0).astype(np.float32) for _ in range(5)]
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


def assert_same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_grown_sets_come_back():
    for seed in range(4):
        random = np.random.default_rng(seed)
        truth = outputs(random)
        sets = grown(random, truth)
        packed = pack(sets)
        assert_same(unpack(packed, truth, SLOTS, "float32"), sets)
        wider = unpack(packed, truth, SLOTS + 3, "float32")
        np.testing.assert_array_equal(wider.multipliers[:, :SLOTS], sets.multipliers)
        assert not np.asarray(wider.occupied)[:, SLOTS:].any()


def test_planes_that_were_evicted_leave_no_gap():
    """Slots in between that are empty: the planes move up, with their Gram blocks."""
    random = np.random.default_rng(7)
    truth = outputs(random)
    sets = grown(random, truth)
    held = np.array(sets.occupied) & (random.random((7, SLOTS)) < 0.5)
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
    used = np.where(random.random((7, SLOTS)) < 0.4, 3, 0).astype(np.int32)
    used[:, 0] = 0
    multipliers = np.where(used > 0, random.random((7, SLOTS)), 0).astype(np.float32)
    sets = listed._replace(multipliers=multipliers, last_used=used)
    packed, zeros = pack(sets), np.zeros((7, SLOTS), np.float32)
    fresh = listed._replace(multipliers=zeros, last_used=zeros.astype(np.int32))
    assert_same(unpack_enumerated(packed, fresh), sets)
    assert not packed.outputs and packed.numbers.shape[1] == 1


@pytest.mark.parametrize(
    ("most", "dtype"), [(127, np.int8), (128, np.int16), (32767, np.int16), (32768, np.int32)]
)
def test_integers_are_as_narrow_as_they_may_be(most, dtype):
    leaf = np.array([-1, most], np.int32)
    assert narrowed(leaf).dtype == dtype
    np.testing.assert_array_equal(narrowed(leaf), leaf)
    assert narrowed(leaf[:0]).dtype == np.int8
