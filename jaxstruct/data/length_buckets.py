"""Rows of sequences padded on the right."""

from __future__ import annotations

import numpy as np

from jaxstruct.data.feature_index import TokenRows


def _places(offsets: np.ndarray, index: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """[n_b, length] which token each position holds (0 if none), and whether it holds one."""
    offsets, index = np.asarray(offsets), np.asarray(index)
    sizes = (offsets[1:] - offsets[:-1])[index]
    if (sizes > length).any():
        worst = int(np.argmax(sizes))
        raise ValueError(
            f"length: got {length}, but sequence {index[worst]} has {sizes[worst]} positions"
        )
    steps = np.arange(length)
    real = steps[None, :] < sizes[:, None]
    return np.where(real, offsets[index][:, None] + steps[None, :], 0), real


def pad_dense(
    values: np.ndarray, offsets: np.ndarray, index: np.ndarray, length: int
) -> np.ndarray:
    """Returns the vectors of some sequences as [n_b, length, d], padded on the right with 0.

    Args:
      values: [tokens, d], of any dtype, which stays.
      offsets: [n + 1]; sequence i is values[offsets[i] : offsets[i + 1]].
      index: [n_b] which sequences.
      length: positions to pad to.

    Raises:
      ValueError: a sequence is longer than `length`.
    """
    places, real = _places(offsets, index, length)
    padded = np.zeros((*real.shape, values.shape[1]), dtype=values.dtype)
    padded[real] = values[places[real]]
    return padded


def pad_labels(
    labels: np.ndarray, offsets: np.ndarray, index: np.ndarray, length: int
) -> np.ndarray:
    """Returns the labels of some sequences as [n_b, length] int32, padded on the right with -1.

    Args:
      labels: [tokens] integers.
      offsets, index, length: as for `pad_dense`.

    Raises:
      ValueError: a sequence is longer than `length`.
    """
    places, real = _places(offsets, index, length)
    padded = np.full(real.shape, -1, dtype=np.int32)
    padded[real] = np.asarray(labels)[places[real]]
    return padded


def pad_tokens(
    rows: TokenRows, index: np.ndarray, length: int, width: int | None = None
) -> np.ndarray:
    """Returns the feature columns of some sentences as [n_b, length, m] int32.

    Padding, of positions and of features, is rows.number_of_features, out of range on purpose
    (`jaxstruct.core.types.SparseFeatures`); `token_values` gives the values that belong to it.

    Args:
      rows: the features of all sentences.
      index: [n_b] which sentences.
      length: positions to pad to.
      width: m, or None for the most features of any token in `rows`, at least 1, which is the same
        for every bucket.

    Raises:
      ValueError: a sentence is longer than `length`, or a token has more than `width` features.
    """
    sizes = np.diff(rows.token_offsets)
    longest = int(sizes.max(initial=1))
    width = longest if width is None else width
    places, real = _places(rows.sentence_offsets, index, length)
    tokens = places[real]
    if (sizes[tokens] > width).any():
        worst = tokens[np.argmax(sizes[tokens])]
        raise ValueError(f"width: got {width}, but token {worst} has {sizes[worst]} features")
    table = np.full((len(tokens), width), rows.number_of_features, dtype=np.int32)
    entries, known = _places(rows.token_offsets, tokens, width)
    table[known] = rows.indices[entries[known]]
    padded = np.full((*real.shape, width), rows.number_of_features, dtype=np.int32)
    padded[real] = table
    return padded


def token_values(indices: np.ndarray, number_of_features: int) -> np.ndarray:
    """Returns 1 for every real feature and 0 for padding, float32 of the shape of `indices`."""
    return (indices < number_of_features).astype(np.float32)
