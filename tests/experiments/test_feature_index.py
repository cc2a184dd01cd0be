"""The table of the columns of tokens."""

from __future__ import annotations

import numpy as np

from experiments.tasks.feature_index import TokenRows, token_table
<<<<<<< HEAD
from jaxstruct.core.feature_encoding import fit_index
from tests.experiments.slow_features import count_features, index_features
from tests.lib.refusals import refused

SENTENCES = [[["w=a", "bias"], ["w=b", "bias", "w=b"]], [["w=a", "bias"]], []]


def test_counts_tokens() -> None:
    """A feature listed twice in a token counts once."""
    assert count_features(SENTENCES) == {"bias": 3, "w=a": 2, "w=b": 1}


def test_frequent_first_ties_by_name() -> None:
    index = fit_index({"z": 1, "b": 2, "a": 2, "c": 9})
    assert index.names == ("c", "a", "b", "z") and index.number_of_features == 4
    assert index.columns == {"c": 0, "a": 1, "b": 2, "z": 3}
    assert fit_index({"c": 9, "a": 2, "b": 2, "z": 1}) == index


def test_min_count() -> None:
    counts = count_features(SENTENCES)
    assert fit_index(counts, min_count=2).names == ("bias", "w=a")
    assert fit_index(counts, min_count=3).names == ("bias",)
    with refused("none of the 3 features occurs 4 times; lower min_count"):
        fit_index(counts, min_count=4)
    refused("min_count: got 0, expected at least 1", fit_index, counts, min_count=0)
    refused("none of the 0 features", fit_index, {})


def test_rows() -> None:
    """Sorted and unique within a token; unknown ones dropped and counted, once a token."""
    index = fit_index({"bias": 3, "w=a": 2, "w=b": 1})
    new = [[["w=b", "new", "new", "bias", "w=b"], []], [], [["other"], ["w=a"]]]
    rows = index_features(index, new)
    assert rows.indices.tolist() == [0, 2, 1] and rows.indices.dtype == np.int32
    assert rows.token_offsets.tolist() == [0, 2, 2, 2, 3]
    assert rows.sentence_offsets.tolist() == [0, 2, 2, 4]
    assert rows.token_offsets.dtype == rows.sentence_offsets.dtype == np.int64
    assert rows.number_of_features == 3 and rows.unknown == 2


def test_no_sentences() -> None:
    rows = index_features(fit_index({"a": 1}), [])
    assert isinstance(rows, TokenRows) and rows.indices.dtype == np.int32
    assert rows.token_offsets.tolist() == rows.sentence_offsets.tolist() == [0]


def test_random_rows_against_a_dense_count() -> None:
    rng = np.random.default_rng(0)
    names = [f"f{i}" for i in range(20)]
    sentences = [
        [list(rng.choice(names, rng.integers(0, 8))) for _ in range(rng.integers(0, 5))]
        for _ in range(60)
    ]
    index = fit_index(count_features(sentences[:20]), min_count=10)
    rows = index_features(index, sentences)
    tokens = [set(token) for sentence in sentences for token in sentence]
    dense = np.array([[name in token for name in index.names] for token in tokens])
    made = np.zeros_like(dense)
    owner = np.repeat(np.arange(len(tokens)), np.diff(rows.token_offsets))
    made[owner, rows.indices] = True
    assert (np.diff(rows.indices)[np.diff(owner) == 0] > 0).all()
    assert np.array_equal(made, dense) and dense.sum() == len(rows.indices)
    assert rows.unknown == Counter(f in index.columns for token in tokens for f in token)[False] > 0
    assert rows.number_of_features < 20
=======
>>>>>>> h_trest


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
