"""How many slots a training begins with."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct import Settings
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.n_slack import run
from jaxstruct.solvers.n_slack.run import capacity_of


def _of(*shape, dtype=np.int32):
    return jax.ShapeDtypeStruct(shape, dtype)


def _unlisted(k=4):
    """A problem that cannot list its outputs."""
    problem = multiclass(5, k)
    return problem._replace(oracles=problem.oracles._replace(all_outputs=None))


def _slots(problem, n, itemsize=4, length=(), **settings):
    return capacity_of(problem, Settings(**settings), (_of(n, *length),), itemsize)


def _fits(slots, n, itemsize, integers=1):
    """Whether the planes and Gram blocks of n examples stay within the room."""
    return n * (slots * 4 * integers + slots**2 * itemsize) <= run.FIRST_BYTES


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("length", [1, 50, 1000])
def test_slots_are_what_the_room_holds(length, itemsize):
    """The largest power of two from 8 to 64 that fits; 8 where none does."""
    random, seen = np.random.default_rng(0), set()
    for n in (10 ** random.uniform(0, 7, 60)).astype(int).tolist():
        sizes = [s for s in (64, 32, 16) if _fits(s, n, itemsize, length)]
        wanted = sizes[0] if sizes else 8
        assert _slots(_unlisted(), n, itemsize, (length,)) == wanted
        seen.add(wanted)
    assert seen == {8, 16, 32, 64}


def test_room_is_kept_to_the_byte(monkeypatch):
    monkeypatch.setattr(run, "FIRST_BYTES", 100 * (64 * 4 + 64 * 64 * 4))
    assert _slots(_unlisted(), 100) == 64
    assert _slots(_unlisted(), 101) == 32


def test_buckets_share_the_room(monkeypatch):
    monkeypatch.setattr(run, "FIRST_BYTES", 100 * (64 * 4 * 1000 + 64 * 64 * 4))
    for sizes, wanted in (((50, 50), 64), ((50, 51), 32), ((51, 50), 32)):
        buckets = tuple(_of(n, 1000) for n in sizes)
        assert capacity_of(_unlisted(), Settings(), buckets, 4) == wanted


def test_no_more_slots_than_hold_every_output():
    """The least power of two that does, where the structure lists its outputs, but at least 8."""
    for k, wanted in ((2, 8), (8, 8), (9, 16), (16, 16), (17, 32), (33, 64), (64, 64), (1000, 64)):
        assert _slots(multiclass(5, k), 10) == wanted
        assert _slots(_unlisted(k), 10) == 64


def test_settings_say_how_many_and_how_many_at_most():
    for slots in (2, 100, 512):
        assert _slots(_unlisted(), 9, capacity=slots) == slots
    for most, wanted in ((2, 2), (5, 5), (32, 32), (64, 64), (512, 64)):
        assert _slots(_unlisted(), 10, max_capacity=most) == wanted
    assert _slots(_unlisted(), 10**7, max_capacity=4) == 4
    assert _slots(multiclass(5, 3), 10, max_capacity=4) == 4


def test_outputs_of_several_leaves_are_all_counted():
    n = next(n for n in range(1000, 10**6, 1000) if not _fits(64, n, 4, 30))
    pair = {"one": _of(n, 10), "two": _of(n, 20)}
    assert capacity_of(_unlisted(), Settings(), (pair,), 4) == 32
    assert capacity_of(_unlisted(), Settings(), ({"one": pair["one"]},), 4) == 64
