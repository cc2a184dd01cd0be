"""Padding against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.core.length_buckets import assign_buckets, bucket_lengths
from jaxstruct.data.feature_index import TokenRows
from jaxstruct.data.length_buckets import pad_dense, pad_labels, pad_tokens, token_values


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
