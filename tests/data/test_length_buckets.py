"""Buckets: the dynamic program against all choices, and padding against plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jaxstruct.data.conll import load_conll2002
from jaxstruct.data.feature_index import TokenRows
from jaxstruct.data.length_buckets import (
    LengthBucket,
    assign_buckets,
    bucket_lengths,
    pad_dense,
    pad_labels,
    pad_tokens,
    token_values,
)


def padded_positions(lengths, boundaries):
    """How many positions, real and padded, these buckets compute on."""
    return sum(len(one.index) * one.length for one in assign_buckets(lengths, boundaries))


def _slow_positions(lengths, boundaries) -> int:
    return sum(min(b for b in boundaries if b >= length) for length in lengths)


def _best_by_enumeration(lengths, most: int, align: int, price: int = 0) -> list[int]:
    """Every choice of boundaries; among the best, the one whose last buckets start lowest."""
    longest = max(-(-max(lengths) // align), 1)
    sizes = [align * j for j in range(1, longest + 1)]
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
        most, align = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        made = bucket_lengths(lengths, most, align, price=0)
        best = _best_by_enumeration(lengths, most, align)
        assert padded_positions(lengths, made) == _slow_positions(lengths, best)
        padded = np.unique(np.maximum(-(-lengths // align), 1) * align)
        assert len(made) == min(most, len(padded))
        assert made.tolist() == best, (lengths, most, align)


def test_a_bucket_that_saves_less_than_its_price_is_not_made() -> None:
    rng = np.random.default_rng(1)
    counts = set()
    for _ in range(300):
        lengths, price = rng.integers(0, 9, rng.integers(1, 30)), int(rng.integers(0, 40))
        made = bucket_lengths(lengths, 4, 1, price)
        assert made.tolist() == _best_by_enumeration(lengths, 4, 1, price), (lengths, price)
        counts.add(len(made))
    assert counts == {1, 2, 3, 4}
    assert bucket_lengths([3, 3, 14, 14]).tolist() == [14]
    assert len(bucket_lengths(np.repeat([20, 1000], [10_000, 10]))) == 2


def test_by_hand() -> None:
    lengths = [3, 3, 3, 4, 4, 100]
    assert bucket_lengths(lengths, 1, price=0).tolist() == [100]
    assert bucket_lengths(np.array(lengths, np.int16), price=0).dtype == np.int64
    assert bucket_lengths(lengths, 2, price=0).tolist() == [4, 100]
    assert bucket_lengths(lengths, 3, price=0).tolist() == [3, 4, 100]
    assert bucket_lengths(lengths, 9, price=0).tolist() == [3, 4, 100]
    assert bucket_lengths(lengths, 9, align=8, price=0).tolist() == [8, 104]
    assert bucket_lengths([0], 2, price=0).tolist() == [1] and bucket_lengths(
        [0], align=8, price=0
    ).tolist() == [8]
    assert bucket_lengths([16, 8], align=8, price=0).tolist() == [8, 16]


def test_many_lengths_do_not_overflow() -> None:
    """2^31 positions and more in one bucket."""
    lengths = np.full(50_000, 100_000)
    assert padded_positions(lengths, bucket_lengths(lengths)) == 5_000_000_000


def test_more_buckets_never_cost_more() -> None:
    lengths = np.random.default_rng(1).geometric(0.03, 2000)
    costs = [
        padded_positions(lengths, bucket_lengths(lengths, most, price=0)) for most in range(1, 12)
    ]
    assert all(b < a for a, b in itertools.pairwise(costs))
    every = bucket_lengths(lengths, most=len(lengths), price=0)
    assert padded_positions(lengths, every) == lengths.sum()


def test_one_giant_among_short_ones() -> None:
    """One of 1,238 among lengths of about 30 leaves little waste at six buckets."""
    rng = np.random.default_rng(2)
    lengths = np.append(rng.poisson(30, 8000), 1238)
    boundaries = bucket_lengths(lengths, price=0)
    assert boundaries[-1] == 1238 and boundaries[-2] < 80
    assert padded_positions(lengths, boundaries) < 1.35 * lengths.sum()


def test_real_spanish_news(require_corpus) -> None:
    """Six buckets: 1.31 positions a token; one would take 38.9."""
    require_corpus("conll2002", "conll2002.zip")
    lengths = [len(sentence.words) for sentence in load_conll2002("esp").train]
    assert padded_positions(lengths, bucket_lengths(lengths, price=0)) < 1.31 * sum(lengths)
    assert padded_positions(lengths, bucket_lengths(lengths, align=8, price=0)) < 1.33 * sum(
        lengths
    )
    assert padded_positions(lengths, bucket_lengths(lengths, 1)) > 38 * sum(lengths)


def test_assignment() -> None:
    """Each to the lowest bucket that holds it; empty buckets are left out."""
    found = assign_buckets([5, 2, 0, 9, 3, 2], [2, 3, 4, 9])
    expected = [LengthBucket([1, 2, 5], 2), LengthBucket([4], 3), LengthBucket([0, 3], 9)]
    assert [(b.index.tolist(), b.length) for b in found] == [tuple(b) for b in expected]
    assert all(b.index.dtype == np.int64 and isinstance(b.length, int) for b in found)
    assert assign_buckets([], [3]) == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bucket_lengths([]), "lengths: got none, expected at least one sequence"),
        (lambda: bucket_lengths([3, -1]), r"lengths\[1\]: got -1, expected at least 0"),
        (lambda: bucket_lengths([2.0]), "lengths: got float64 .* expected integers"),
        (lambda: bucket_lengths([[2]]), r"lengths: got int64 of shape \(1, 1\)"),
        (lambda: bucket_lengths([2], 0), "most: got 0, expected at least 1"),
        (lambda: bucket_lengths([2], 2, 0), "align: got 0, expected at least 1"),
        (lambda: bucket_lengths([2], price=-1), "price: got -1, expected at least 0"),
        (lambda: assign_buckets([2, 7], [3, 6]), r"lengths\[1\]: got 7, .* bucket holds 6"),
        (lambda: assign_buckets([2], [3, 3]), r"boundaries: got \[3, 3\], expected rising, from 1"),
        (lambda: assign_buckets([2], [0, 3]), r"boundaries: got \[0, 3\]"),
        (lambda: assign_buckets([2], []), r"boundaries: got \[\]"),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def _ragged(rng: np.random.Generator, n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    lengths = rng.integers(0, 6, n)
    return lengths, np.concatenate([[0], np.cumsum(lengths)])


def test_pad_dense_and_labels() -> None:
    """Every sequence of every bucket, element by element; dtypes stay; padding is 0 and -1."""
    rng = np.random.default_rng(4)
    lengths, offsets = _ragged(rng)
    for dtype in (np.uint8, np.float32, np.float64):
        values = rng.integers(1, 9, (offsets[-1], 3)).astype(dtype)
        labels = rng.integers(0, 5, offsets[-1])
        for bucket in assign_buckets(lengths, bucket_lengths(lengths, 3, price=0)):
            dense = pad_dense(values, offsets, bucket.index, bucket.length)
            padded = pad_labels(labels, offsets, bucket.index, bucket.length)
            assert dense.shape == (len(bucket.index), bucket.length, 3) and dense.dtype == dtype
            assert padded.shape == dense.shape[:2] and padded.dtype == np.int32
            for row, i in enumerate(bucket.index):
                own = slice(offsets[i], offsets[i + 1])
                assert np.array_equal(dense[row, : lengths[i]], values[own])
                assert np.array_equal(padded[row, : lengths[i]], labels[own])
                assert not dense[row, lengths[i] :].any()
                assert (padded[row, lengths[i] :] == -1).all()


def _random_rows(rng: np.random.Generator, d: int = 30) -> TokenRows:
    _, sentence_offsets = _ragged(rng)
    tokens = [
        np.sort(rng.choice(d, rng.integers(0, 6), replace=False))
        for _ in range(sentence_offsets[-1])
    ]
    token_offsets = np.concatenate([[0], np.cumsum([len(token) for token in tokens])])
    return TokenRows(np.concatenate(tokens).astype(np.int32), token_offsets, sentence_offsets, d, 0)


@pytest.mark.parametrize("width", [None, 9])
def test_pad_tokens(width: int | None) -> None:
    """Every token of every sentence in its place; the rest is d, whose value is 0."""
    rows = _random_rows(np.random.default_rng(5))
    lengths = np.diff(rows.sentence_offsets)
    longest = np.diff(rows.token_offsets).max() if width is None else width
    for bucket in assign_buckets(lengths, bucket_lengths(lengths, 3, price=0)):
        padded = pad_tokens(rows, bucket.index, bucket.length, width)
        assert padded.shape == (len(bucket.index), bucket.length, longest)
        assert padded.dtype == np.int32
        expected = np.full_like(padded, 30)
        for row, i in enumerate(bucket.index):
            for t in range(lengths[i]):
                token = rows.sentence_offsets[i] + t
                own = rows.indices[rows.token_offsets[token] : rows.token_offsets[token + 1]]
                expected[row, t, : len(own)] = own
        assert np.array_equal(padded, expected)
        values = token_values(padded, 30)
        assert values.dtype == np.float32
        assert np.array_equal(values, np.where(expected == 30, 0.0, 1.0))


def test_pad_errors() -> None:
    rows = _random_rows(np.random.default_rng(6))
    lengths = np.diff(rows.sentence_offsets)
    longest, index = int(lengths.argmax()), np.arange(len(lengths))
    message = f"length: got {lengths.max() - 1}, but sequence {longest} has {lengths.max()}"
    labels = np.zeros(lengths.sum(), np.int32)
    short = int(lengths.max()) - 1
    with pytest.raises(ValueError, match=message):
        pad_labels(labels, rows.sentence_offsets, index, short)
    with pytest.raises(ValueError, match=message):
        pad_dense(labels[:, None], rows.sentence_offsets, index, short)
    with pytest.raises(ValueError, match=message):
        pad_tokens(rows, index, short)
    sizes = np.diff(rows.token_offsets)
    worst = int(sizes.argmax())
    with pytest.raises(ValueError, match=f"width: got 2, but token {worst} has {sizes[worst]}"):
        pad_tokens(rows, index, short + 1, 2)


def test_tokens_without_features() -> None:
    """One column of padding, so that no axis is empty."""
    offsets = np.array([0, 0, 0])
    rows = TokenRows(np.zeros(0, np.int32), offsets, np.array([0, 2]), 7, 0)
    assert pad_tokens(rows, np.array([0]), 3).tolist() == [[[7], [7], [7]]]
