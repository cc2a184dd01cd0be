"""Tokens as rows of the columns of a feature index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class TokenRows(NamedTuple):
    """Binary feature vectors of the tokens of n sentences, row after row.

    Phi(x^t) = sum_j e_{indices[j]}, j = token_offsets[t] .. token_offsets[t + 1] - 1.

    Fields:
      indices: [entries] int32, rising strictly within a token, in [0, number_of_features).
      token_offsets: [tokens + 1] int64.
      sentence_offsets: [n + 1] int64; sentence i is tokens sentence_offsets[i] ..
        sentence_offsets[i + 1] - 1.
      number_of_features: d.
      unknown: how many features of these tokens (repeats counted) the index does not have; they
        are dropped.
    """

    indices: np.ndarray
    token_offsets: np.ndarray
    sentence_offsets: np.ndarray
    number_of_features: int
    unknown: int


def token_table(rows: TokenRows) -> np.ndarray:
    """[tokens, m] int32 the features of every token, m the most of any, at least 1.

    Padding is rows.number_of_features, out of range on purpose
    (`jaxstruct.core.types.SparseFeatures`).
    """
    counts = np.diff(rows.token_offsets)
    shape = len(counts), int(counts.max(initial=1))
    table = np.full(shape, rows.number_of_features, dtype=np.int32)
    table[np.arange(shape[1]) < counts[:, None]] = rows.indices
    return table
