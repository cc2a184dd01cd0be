"""Size classes against their definition; buckets: the dynamic program against all choices."""

from __future__ import annotations

import itertools

import numpy as np

from jaxstruct.core.sizes import bucket_lengths, size_class

CLASSES = sorted({2**k for k in range(20)} | {3 * 2**k for k in range(20)})


def test_the_smallest_class_that_holds_it() -> None:
    for least in (1, 2, 5, 8, 100):
        for n in range(300):
            wanted = min(size for size in CLASSES if size >= n and size >= least)
            assert size_class(n, least) == wanted
    assert [size_class(n) for n in (0, 8, 9, 13, 17, 25)] == [8, 8, 12, 16, 24, 32]


def test_a_class_wastes_less_than_half() -> None:
    assert all(size_class(n) < 1.5 * n for n in range(9, 5000))


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
