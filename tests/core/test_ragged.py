"""The ragged store: taking and padding against plain loops, and what it refuses."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct import Ragged, ragged
from tests.lib.refusals import refused

OFFSETS = np.array([0, 2, 2, 5])
STORE = Ragged(np.arange(10).reshape(5, 2), OFFSETS)


def random_store(rng, dtype=np.float32, shape=(3,), fill=0):
    """Up to ten examples of up to five rows, some of them empty; and the list of them."""
    lists = [
        rng.integers(0, 100, (rng.integers(0, 6), *shape)).astype(dtype)
        for _ in range(rng.integers(1, 11))
    ]
    return ragged(lists, fill), lists


def test_a_store_holds_its_examples() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        store, lists = random_store(rng)
        assert len(store) == len(lists) and store.shape == (len(lists),)
        assert store.lengths.tolist() == [len(one) for one in lists]
        assert store.offsets.dtype == np.int64 and len(store.rows) == store.offsets[-1]
        for i, one in enumerate(store):
            np.testing.assert_array_equal(one, lists[i])
            np.testing.assert_array_equal(store[i - len(lists)], lists[i])


@pytest.mark.smoke
def test_take_copies_the_rows_of_some_examples() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        store, lists = random_store(rng, np.int8, (), fill=-1)
        which = rng.integers(0, len(lists), rng.integers(0, 12))
        some = store.take(which)
        assert len(some) == len(which) and some.fill == -1 and some.rows.dtype == np.int8
        assert len(some.rows) == sum(len(lists[i]) for i in which)
        for one, i in zip(some, which, strict=True):
            np.testing.assert_array_equal(one, lists[i])


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("dtype", "fill", "padded_dtype"),
    [
        (np.float32, 0, np.float32),
        (np.uint8, 0, np.uint8),
        (np.uint8, -1, np.int16),
        (np.int8, -1, np.int8),
        (np.int8, 1000, np.int16),
        (np.int32, 300, np.int32),
        (np.uint64, -1, np.int64),
        (bool, 0, bool),
        (np.float64, np.nan, np.float64),
    ],
)
def test_padded_against_a_loop(dtype, fill, padded_dtype) -> None:
    rng = np.random.default_rng(2)
    for shape in ((), (3,), (2, 2)):
        store, lists = random_store(rng, dtype, shape, fill)
        which = rng.integers(0, len(lists), rng.integers(1, 12))
        length = max(len(lists[i]) for i in which) + int(rng.integers(0, 3))
        padded = store.padded(which, length)
        assert padded.dtype == padded_dtype and padded.shape == (len(which), length, *shape)
        for row, i in zip(padded, which, strict=True):
            np.testing.assert_array_equal(row[: len(lists[i])], lists[i])
            np.testing.assert_array_equal(
                row[len(lists[i]) :], np.full_like(row, fill)[len(lists[i]) :]
            )


def test_another_fill_for_once() -> None:
    np.testing.assert_array_equal(STORE.padded([1, 0], 2, fill=7)[0], np.full((2, 2), 7))


def test_lists_of_all_kinds() -> None:
    assert ragged([[1, 2], [], (3,)]).rows.tolist() == [1, 2, 3]
    assert ragged([[], np.ones((2, 4), np.float32)]).rows.dtype == np.float32
    assert ragged([np.ones(1, np.int8), np.ones(1, np.int16)]).rows.dtype == np.int16
    assert len(ragged([])) == 0 and len(ragged([[], []])) == 2
    assert ragged(STORE, -1).fill == -1 and ragged(STORE).rows is STORE.rows


def test_it_is_one_leaf() -> None:
    assert jax.tree.leaves({"a": STORE}) == [STORE]
    assert np.shape(STORE) == (3,)
    assert repr(STORE) == "Ragged(n=3, rows int64[5, 2])"
    with pytest.raises(AttributeError):
        STORE.fill = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Ragged(np.zeros(5), [0, 2, 4]),
            r"offsets must go from 0 to 5, .* got .*0, 2, 4",
        ),
        (lambda: Ragged(np.zeros(5), [1, 5]), r"offsets must go from 0 to 5, .* got array\(.1, 5"),
        (lambda: Ragged(np.zeros(5), [0, 4, 3, 5]), r"offsets\[2\] is 3 after 4"),
        (
            lambda: Ragged(np.zeros(5), [0.0, 5.0]),
            r"offsets must be \[n\+1\] integers, got f",
        ),
        (lambda: Ragged(np.zeros(5), [[0, 5]]), r"offsets must be .* got int64 of shape \(1, 2\)"),
        (lambda: Ragged(np.zeros(0), []), "offsets must be "),
        (lambda: Ragged(["a"], [0, 1]), r"rows must be \[R, ...\] numbers, got"),
        (lambda: Ragged(np.zeros(1), [0, 1], "x"), "fill must be one number, got 'x'"),
        (lambda: ragged([[1]], None), "fill must be one number, got None"),
        (lambda: ragged([[1]], [0]), r"fill must be one number, got \[0\]"),
        (lambda: Ragged(3.0, [0]), r"rows must be \[R, ...\] numbers, got 3.0"),
        (lambda: ragged(["ab", "c"]), r"lists\[0\] must be \[l, ...\] numbers, got 'ab'"),
        (lambda: ragged("ab"), "lists must be a list of n arrays or lists of numbers, got 'ab'"),
        (lambda: ragged([[1], 2]), r"lists\[1\] must be \[l, ...\] numbers, got 2"),
        (lambda: ragged([[[1, 2], [3]]]), r"lists\[0\] must be \[l, ...\] numbers"),
        (
            lambda: ragged([[], np.zeros((1, 2)), np.zeros((1, 3))]),
            r"lists\[2\] has rows of shape \(3,\), lists\[1\] of \(2,\)",
        ),
        (lambda: STORE.padded([1, 2], 2), "length is 2, but example 2 has 3 rows"),
        (lambda: STORE[[0, 1]], r"number of an example must be an integer, got \[0, 1\]; .*take"),
        (lambda: STORE[:2], "number of an example must be an integer, got slice.*; .*take"),
        (lambda: np.asarray(STORE), r"Ragged\(n=3, .* is no array of one shape"),
    ],
)
def test_errors(call, message: str) -> None:
    refused(message, call)


def test_no_such_example() -> None:
    for i in (3, -4):
        with refused(f"there is no example {i} of 3", error=IndexError):
            STORE[i]
