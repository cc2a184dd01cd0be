"""Feature strings as columns 0 .. d-1, and tokens as rows of those columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.utf8 import parse_json

_FORMAT = "jaxstruct-feature-index"


class FeatureIndex(NamedTuple):
    """Which feature is which column. Made by `fit_index` or `from_json`.

    Fields:
      names: the d features, column j is names[j].
      columns: feature -> column.
    """

    names: tuple[str, ...]
    columns: Mapping[str, int]

    @property
    def number_of_features(self) -> int:
        """The dimension d."""
        return len(self.names)


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


def fit_index(counts: Mapping[str, int], *, min_count: int = 1) -> FeatureIndex:
    """Numbers the features that occur at least `min_count` times in the training set.

    Frequent features come first; ties go by name. The order of the sentences does not matter.

    Args:
      counts: feature -> how many tokens have it, of the training set alone.
      min_count: at least 1.

    Raises:
      ValueError: `min_count` is below 1, or no feature is left.
    """
    if min_count < 1:
        raise ValueError(f"min_count: got {min_count}, expected at least 1")
    kept = [(-count, name) for name, count in counts.items() if count >= min_count]
    if not kept:
        raise ValueError(
            f"counts: none of the {len(counts)} features occurs {min_count} times; lower min_count"
        )
    return _of_names(name for _, name in sorted(kept))


def _of_names(names: Iterable[str]) -> FeatureIndex:
    names = tuple(names)
    return FeatureIndex(names, {name: column for column, name in enumerate(names)})


def to_json(index: FeatureIndex) -> str:
    """Returns the index as JSON text, for a saved model to carry; `from_json` reads it."""
    return json.dumps({"format": _FORMAT, "names": index.names}, ensure_ascii=False)


def from_json(text: str) -> FeatureIndex:
    """Returns the index that `to_json` wrote.

    Raises:
      MalformedFile: not JSON, not of this format, or a name comes twice.
    """
    content = parse_json(text, "text")
    names = content.get("names") if isinstance(content, dict) else None
    if names is None or content.get("format") != _FORMAT:
        raise MalformedFile(f"text: expected an object of format {_FORMAT!r} with 'names'")
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise MalformedFile("text: 'names' is not a list of strings")
    index = _of_names(names)
    if len(index.columns) != len(index.names):
        raise MalformedFile("text: 'names' lists a feature twice")
    return index
