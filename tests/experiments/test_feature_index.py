"""The table of the columns of tokens."""

from __future__ import annotations

import numpy as np

from experiments.tasks.feature_index import TokenRows, token_table


def test_the_table_of_tokens_holds_each_in_its_row() -> None:
    """Every token in its place; the rest is d."""
    rng = np.random.default_rng(5)
    tokens = [np.sort(rng.choice(30, rng.integers(0, 6), replace=False)) for _ in range(40)]
    offsets = np.concatenate([[0], np.cumsum([len(token) for token in tokens])])
    rows = TokenRows(np.concatenate(tokens).astype(np.int32), offsets, np.array([0, 40]), 30, 0)
    table = token_table(rows)
    assert table.dtype == np.int32 and table.shape == (40, max(map(len, tokens)))
    for row, token in zip(table, tokens, strict=True):
        assert row.tolist() == [*token, *[30] * (table.shape[1] - len(token))]


def test_tokens_without_features_have_one_column_of_padding() -> None:
    """So that no axis is empty."""
    rows = TokenRows(np.zeros(0, np.int32), np.zeros(3, int), np.array([0, 2]), 7, 0)
    assert token_table(rows).tolist() == [[7], [7]]
