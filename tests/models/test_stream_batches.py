"""Batches of a stream hold every record once, waste little, and come in few shapes."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

from jaxstruct.core.contract import Padding
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.types import SparseFeatures
from jaxstruct.models.stream import (
    LEAST_ROWS,
    cut,
    length_class,
    padded_batch,
    rows_of_class,
    widened,
)
from jaxstruct.trees.structure import _PADDING as CHARTS
from jaxstruct.trees.structure import EXACT

RNG = np.random.default_rng(0)


def inputs_of(lengths) -> dict:
    rows = [np.full((int(n), 2), i + 1.0) for i, n in enumerate(lengths)]
    return {"x": ragged(rows), "length": np.asarray(lengths)}


def test_rows_are_a_power_of_four_of_a_few_at_least() -> None:
    found = [rows_of_class(n, 24) for n in (0, 1, 4, 5, 9, 17, 24, 99)]
    assert found == [4, 4, 4, 16, 16, 24, 24, 24]
    assert LEAST_ROWS == 4 and rows_of_class(9, 2) == 2 and rows_of_class(1, 1) == 1


def test_lengths_are_rounded_by_a_quarter_at_most_and_stay_sizes_of_the_structure() -> None:
    for n in range(1, 500):
        assert length_class(Padding(), n) == Padding().size(n)
        most = 1.25 if n <= EXACT else 1.5  # longer sentences are of size classes
        assert max(n, 8) <= length_class(CHARTS, n) <= max(most * n, 8)
    assert len({length_class(CHARTS, n) for n in range(1, 128)}) <= 17
    thirds = [length_class(Padding(size=lambda n: -(-n // 3) * 3), n) for n in range(1, 99)]
    assert all(size % 3 == 0 and size >= n for n, size in enumerate(thirds, 1))


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_every_record_is_in_one_batch_beside_those_of_its_size(batch: int) -> None:
    lengths = np.concatenate([RNG.integers(1, 9, 150), RNG.integers(9, 40, 40), [300]])
    size = partial(length_class, Padding())
    pieces = cut(Padding(), inputs_of(lengths), len(lengths), batch)
    np.testing.assert_array_equal(np.sort(np.concatenate(pieces)), np.arange(len(lengths)))
    assert max(map(len, pieces)) <= batch
    ends = [(lengths[piece].max(), lengths[piece].min()) for piece in pieces]
    assert all(before[1] >= after[0] or size(before[1]) >= size(after[0])
               for before, after in zip(ends, ends[1:], strict=False))  # fmt: skip
    assert len(pieces[0]) == min(batch, LEAST_ROWS)  # the one that is long takes few along
    padded = sum(rows_of_class(len(p), batch) * size(int(lengths[p].max())) for p in pieces)
    assert padded < 3 * np.maximum(lengths, 8).sum() + 300 * LEAST_ROWS


def test_plain_arrays_are_cut_in_order() -> None:
    pieces = cut(Padding(), {"x": np.zeros((10, 3))}, 10, 4)
    assert [piece.tolist() for piece in pieces] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_tokens_are_as_wide_as_a_size_class() -> None:
    offsets = np.array([0, 2, 3])
    tokens = SparseFeatures(
        Ragged(np.ones((3, 9), np.int32), offsets, 7), Ragged(np.ones((3, 9)), offsets)
    )
    wide = widened({"x": tokens, "row": inputs_of([2, 1])["x"]})
    assert wide["row"].rows.shape == (3, 2) and wide["x"].indices.rows.shape == (3, 12)
    np.testing.assert_array_equal(wide["x"].indices.rows[:, 9:], 7)
    np.testing.assert_array_equal(wide["x"].values.rows[:, 9:], 0)


def test_a_batch_is_padded_to_its_classes_with_its_first_record() -> None:
    padded = padded_batch(Padding(), inputs_of([1, 3, 2]), np.array([2, 0]), 8)
    assert jax.tree.map(np.shape, padded) == {"x": (4, 8, 2), "length": (4,)}
    assert padded["length"].tolist() == [2, 1, 2, 2]
    assert padded["x"][:, :, 0].sum(axis=1).tolist() == [6, 1, 6, 6]
