"""Ragged stores, examples in buckets and back, size classes: against plain loops."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from jaxstruct import Padding, Ragged, ragged, take
from jaxstruct.core.padding import (
    NUMBERS,
    bucketed,
    bucketed_inputs,
    layout_of,
    padded,
    padded_part,
    restored,
)
from jaxstruct.core.sizes import batch_rows, bucket_lengths, size_class
from tests.lib.equality import assert_same
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


def test_lists_of_all_kinds() -> None:
    assert ragged([[1, 2], [], (3,)]).rows.tolist() == [1, 2, 3]
    assert ragged([[], np.ones((2, 4), np.float32)]).rows.dtype == np.float32
    assert ragged([np.ones(1, np.int8), np.ones(1, np.int16)]).rows.dtype == np.int16
    assert len(ragged([])) == 0 and len(ragged([[], []])) == 2
    assert ragged(STORE, -1).fill == -1 and ragged(STORE).rows is STORE.rows


def test_it_is_one_leaf() -> None:
    np.testing.assert_array_equal(STORE.padded([1, 0], 2, fill=7)[0], np.full((2, 2), 7))
    assert jax.tree.leaves({"a": STORE}) == [STORE]
    assert np.shape(STORE) == (3,)
    assert repr(STORE) == "Ragged(n=3, rows int64[5, 2])"
    with pytest.raises(AttributeError):
        STORE.fill = 3  # type: ignore[misc]


def test_errors() -> None:
    for call, message in [
        (lambda: Ragged(np.zeros(5), [0, 2, 4]), r"offsets must go from 0 to 5, .* got .*0, 2, 4"),
        (lambda: Ragged(np.zeros(5), [0, 4, 3, 5]), r"offsets\[2\] is 3 after 4"),
        (lambda: Ragged(np.zeros(5), [[0, 5]]), r"offsets must be .* got int64 of shape \(1, 2\)"),
        (lambda: Ragged(np.zeros(0), []), "offsets must be "),
        (lambda: Ragged(np.zeros(1), [0, 1], "x"), "fill must be one number, got 'x'"),
        (lambda: Ragged(3.0, [0]), r"rows must be \[R, ...\] numbers, got 3.0"),
        (lambda: ragged(["ab", "c"]), r"lists\[0\] must be \[l, ...\] numbers, got 'ab'"),
        (lambda: ragged([[[1, 2], [3]]]), r"lists\[0\] must be \[l, ...\] numbers"),
        (
            lambda: ragged([[], np.zeros((1, 2)), np.zeros((1, 3))]),
            r"lists\[2\] has rows of shape \(3,\), lists\[1\] of \(2,\)",
        ),
        (lambda: STORE.padded([1, 2], 2), "length is 2, but example 2 has 3 rows"),
        (lambda: STORE[[0, 1]], r"number of an example must be an integer, got \[0, 1\]; .*take"),
        (lambda: np.asarray(STORE), r"Ragged\(n=3, .* is no array of one shape"),
    ]:
        refused(message, call)
    for i in (3, -4):
        with refused(f"there is no example {i} of 3", error=IndexError):
            STORE[i]


def _sizes(x):
    return {"labels": x["tokens"].shape[1], "class": 0}


def _with_count(x):
    return x | {"count": np.sum(x["tokens"] >= 0, axis=1)}


PADDING = Padding(price=20, output_sizes=_sizes, complete=_with_count)


def random_examples(rng):
    """Tokens and their labels, a second sequence of other lengths, and plain arrays."""
    n = int(rng.integers(1, 30))
    lengths, others = rng.integers(0, 60, n), rng.integers(0, 20, n)
    tokens = [rng.integers(0, 9, length) for length in lengths]
    inputs = {
        "tokens": ragged(tokens, -1),
        "other": ragged([rng.normal(size=(length, 2)) for length in others]),
        "plain": rng.normal(size=(n, 3)),
    }
    outputs = {"labels": ragged([one + 1 for one in tokens], -1), "class": rng.integers(0, 3, n)}
    return inputs, outputs


def test_every_example_in_its_bucket() -> None:
    rng, counts = np.random.default_rng(0), set()
    for _ in range(100):
        inputs, outputs = random_examples(rng)
        x, y = bucketed(PADDING, inputs, outputs)
        counts.add(len(x.parts))
        np.testing.assert_array_equal(
            np.sort(np.concatenate(x.index)), np.arange(len(outputs["class"]))
        )
        assert x.index == y.index
        for part, of_part, index in zip(x.parts, y.parts, x.index, strict=True):
            for name, fill in (("tokens", -1), ("other", 0)):
                store, array = inputs[name], part[name]
                assert array.shape[1] == size_class(int(store.lengths[index].max()))
                for row, i in zip(array, index, strict=True):
                    np.testing.assert_array_equal(row[: len(store[i])], store[i])
                    assert (row[len(store[i]) :] == fill).all()
            np.testing.assert_array_equal(part["plain"], inputs["plain"][index])
            np.testing.assert_array_equal(of_part["class"], outputs["class"][index])
            assert of_part["labels"].shape == part["tokens"].shape
            np.testing.assert_array_equal(
                of_part["labels"], np.where(part["tokens"] < 0, -1, part["tokens"] + 1)
            )
            np.testing.assert_array_equal(part["count"], inputs["tokens"].lengths[index])
        assert all("count" not in part for part in bucketed_inputs(PADDING, inputs).parts)
        assert_same(restored(PADDING, x, y.parts), outputs)
    assert {1, 2, 3} <= counts


def test_positions_of_several_numbers_are_restored() -> None:
    """A position is padding where all its numbers are -1; other negative numbers are none."""
    rng = np.random.default_rng(4)
    for shape in ((2,), (2, 3)):
        pairs = [rng.choice([-4, 0, 3], (length, *shape)) for length in rng.integers(0, 40, 20)]
        for one in pairs:
            one[..., 0] = -1
        inputs, outputs = ragged([one[..., 1] for one in pairs]), ragged(pairs)
        padding = Padding(price=1, output_sizes=lambda x: x.shape[1])
        x, y = bucketed(padding, inputs, outputs)
        assert len(y.parts) > 1
        back = restored(padding, x, y.parts)
        np.testing.assert_array_equal(back.rows, outputs.rows)
        np.testing.assert_array_equal(back.offsets, outputs.offsets)


def test_plain_examples_are_one_bucket() -> None:
    x, y = bucketed(PADDING, np.zeros((3, 2)), np.zeros(3))
    assert len(x.parts) == len(y.parts) == 1 and x.index[0].tolist() == [0, 1, 2]
    assert len(bucketed_inputs(PADDING, np.zeros((3, 2))).parts) == 1


def test_wide_positions_are_worth_a_bucket() -> None:
    """40 positions saved: not of one number each, but where they hold more than NUMBERS / 40."""
    lengths = np.array([8] * 5 + [16])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for width, buckets in ((1, 1), (NUMBERS // 30, 2)):
        rows = np.broadcast_to(np.zeros(1, np.int8), (lengths.sum(), width))
        x = bucketed_inputs(Padding(), Ragged(rows, offsets))
        assert len(x.parts) == buckets


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (np.zeros((2, 3)), ragged([[1], [2]]), "outputs are ragged and inputs are not"),
        (ragged([[1], [2]]), np.zeros((2, 1)), r"outputs hold an array of shape \(2, 1\), but"),
        (ragged([[1], [2] * 30]), ragged([[0] * 40, [1]]), r"outputs\[0\] has 40 positions, more"),
        (ragged([[1], [2]]), {"a": np.zeros(2)}, "outputs must be a pytree like"),
    ],
)
def test_examples_that_do_not_fit_are_refused(inputs, outputs, message: str) -> None:
    padding = Padding(output_sizes=lambda x: x.shape[1])
    refused(message, bucketed, padding, inputs, outputs)


def test_a_structure_that_does_not_say_how_outputs_are_padded() -> None:
    x = ragged([[1], [2] * 30])
    refused("no output of several lengths: .*Padding", lambda: bucketed(Padding(), x, x))
    parts = bucketed_inputs(Padding(price=1), x)
    refused("does not say which axis is padded", lambda: restored(Padding(), parts, parts.parts))


def test_one_batch_of_the_longest() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        inputs, outputs = random_examples(rng)
        x, y = padded(PADDING, inputs, outputs)
        assert set(x) == {"tokens", "other", "plain"}  # nothing is completed
        T = size_class(int(inputs["tokens"].lengths.max()))
        assert x["tokens"].shape == y["labels"].shape == (len(inputs["tokens"]), T)
        for i, own in enumerate(inputs["tokens"]):
            np.testing.assert_array_equal(x["tokens"][i], [*own, *[-1] * (T - len(own))])
            np.testing.assert_array_equal(y["labels"][i], [*(own + 1), *[-1] * (T - len(own))])
        np.testing.assert_array_equal(y["class"], outputs["class"])
        again, _ = padded(PADDING, x, y)
        assert again["tokens"] is x["tokens"]


def test_some_examples_of_a_bucket_are_padded_as_all_of_it() -> None:
    """Any part of a bucket, an empty one too, has the shapes and rows of the whole."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        x, y = random_examples(rng)
        inputs, outputs = bucketed(PADDING, x, y)
        layout = layout_of(PADDING, x, y)
        for own, longest, px, py in zip(*layout, inputs.parts, outputs.parts, strict=True):
            assert set(longest) <= set(own)
            rows = np.flatnonzero(rng.random(len(own)) < 0.4)
            found = padded_part(PADDING, x, y, own[rows], longest)
            rows = rows if len(rows) else np.flatnonzero(np.isin(own, longest))[:1]
            for one, whole in zip(*map(jax.tree.leaves, (found, (px, py))), strict=True):
                np.testing.assert_array_equal(one, whole[rows])
    plain = rng.normal(size=(5, 2)), np.arange(5)
    layout = layout_of(PADDING, *plain)
    assert [len(own) for own in layout.index] == [5]
    for which, rows in (([3, 1], [3, 1]), ([], [0])):
        found = padded_part(PADDING, *plain, np.array(which, int), layout.longest[0])
        np.testing.assert_array_equal(found[0], plain[0][rows])
    with refused("outputs are ragged and inputs are not"):
        layout_of(PADDING, plain[0], ragged([[1], [2, 3]]))


CLASSES = sorted({2**k for k in range(20)} | {3 * 2**k for k in range(20)})


def test_the_smallest_class_that_holds_it() -> None:
    for least in (1, 2, 5, 8, 100):
        for n in range(300):
            wanted = min(size for size in CLASSES if size >= n and size >= least)
            assert size_class(n, least) == wanted
    assert [size_class(n) for n in (0, 8, 9, 13, 17, 25)] == [8, 8, 12, 16, 24, 32]


def test_few_rows_come_in_few_sizes():
    found = [batch_rows(n, 200) for n in (0, 1, 4, 5, 16, 17, 64, 65, 129, 200, 999)]
    assert found == [4, 4, 4, 16, 16, 64, 64, 128, 200, 200, 200]
    assert batch_rows(9, 2) == 2 and batch_rows(1, 1) == 1


def padded_positions(lengths, boundaries):
    """How many positions, real and padded, these buckets compute on."""
    return boundaries[np.searchsorted(boundaries, lengths)].sum()


def _slow_positions(lengths, boundaries) -> int:
    return sum(min(b for b in boundaries if b >= length) for length in lengths)


def _best_by_enumeration(lengths, most: int, price: int = 0) -> list[int]:
    """Every choice of boundaries; among the best, the one whose last buckets start lowest."""
    sizes = list(range(1, max(*lengths, 1, 1) + 1))
    choices = [
        (*inner, sizes[-1])
        for k in range(most)
        for inner in itertools.combinations(sizes[:-1], min(k, len(sizes) - 1))
    ]
    used = [c for c in choices if all(_holds_one(lengths, c, j) for j in range(len(c)))]
    cost = {c: _slow_positions(lengths, c) + price * len(c) for c in used}
    return list(min(used, key=lambda c: (cost[c], len(c), c[::-1])))


def _holds_one(lengths, boundaries, j: int) -> bool:
    lower = boundaries[j - 1] if j else -1
    return any(lower < length <= boundaries[j] for length in lengths)


def test_against_enumeration() -> None:
    """Small histograms, many with ties: the least total and the documented choice among equals."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        lengths = rng.integers(0, 9, rng.integers(1, 12))
        most = int(rng.integers(1, 5))
        made = bucket_lengths(lengths, most, price=0)
        best = _best_by_enumeration(lengths, most)
        assert padded_positions(lengths, made) == _slow_positions(lengths, best)
        assert len(made) == min(most, len(np.unique(np.maximum(lengths, 1))))
        assert made.tolist() == best and made.dtype == np.int64, (lengths, most)


def test_a_bucket_that_saves_less_than_its_price_is_not_made() -> None:
    rng = np.random.default_rng(1)
    counts = set()
    for _ in range(300):
        lengths, price = rng.integers(0, 9, rng.integers(1, 30)), int(rng.integers(0, 40))
        made = bucket_lengths(lengths, 4, price)
        assert made.tolist() == _best_by_enumeration(lengths, 4, price), (lengths, price)
        counts.add(len(made))
    assert counts == {1, 2, 3, 4}
    assert bucket_lengths([3, 3, 14, 14]).tolist() == [14]
    assert len(bucket_lengths(np.repeat([20, 1000], [10_000, 10]))) == 2


def test_many_lengths_do_not_overflow() -> None:
    """2^31 positions and more in one bucket."""
    lengths = np.full(50_000, 100_000)
    assert padded_positions(lengths, bucket_lengths(lengths)) == 5_000_000_000


def test_take():
    lists, which = [[1, 2], [], [3], [4, 5, 6]], np.array([3, 1, 0])
    some = take({"store": ragged(lists), "array": np.eye(4)}, which)
    np.testing.assert_array_equal(some["array"], np.eye(4)[which])
    assert [one.tolist() for one in some["store"]] == [lists[i] for i in which]


@pytest.mark.parametrize("which", [[0, 0], [3], [-1], [[0]], [0.0], [True, False, True]])
def test_take_refuses_what_names_no_examples(which):
    for tree in (ragged([[1], [], [2, 3]]), np.zeros(3)):
        refused("which must be", take, tree, np.array(which))
