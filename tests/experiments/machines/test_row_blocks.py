"""Rows in blocks of one size."""

from __future__ import annotations

import numpy as np

from experiments.machines.row_blocks import row_blocks


def test_blocks_of_rows_have_one_size_and_hold_every_row_once() -> None:
    """Ten outputs of 4 labels in blocks of 12 labels: 3 rows each, two of padding."""
    found = np.asarray(row_blocks(np.zeros((10, 4), np.int32), 12))
    np.testing.assert_array_equal(found.ravel(), [*range(10), -1, -1])
    assert found.shape == (4, 3)
    assert np.asarray(row_blocks(np.zeros(10, np.int32), 100)).shape == (1, 10)
    assert np.asarray(row_blocks(np.zeros((2, 9), np.int32), 1)).shape == (2, 1)
