"""Buckets: the dynamic program against all choices."""

from __future__ import annotations

import itertools

import numpy as np

from jaxstruct.core.sizes import bucket_lengths


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
        assert made.tolist() == best, (lengths, most)


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


def test_by_hand() -> None:
    lengths = [3, 3, 3, 4, 4, 100]
    assert bucket_lengths(lengths, 1, price=0).tolist() == [100]
    assert bucket_lengths(np.array(lengths, np.int16), price=0).dtype == np.int64
    assert bucket_lengths(lengths, 2, price=0).tolist() == [4, 100]
    assert bucket_lengths(lengths, 3, price=0).tolist() == [3, 4, 100]
    assert bucket_lengths(lengths, 9, price=0).tolist() == [3, 4, 100]
    assert bucket_lengths([0], 2, price=0).tolist() == [1]


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
