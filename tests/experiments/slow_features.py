"""Feature strings as counts and as rows of columns, one token after the other: the slow truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from experiments.tasks.feature_index import TokenRows
from jaxstruct.core.feature_encoding import FeatureIndex


def count_features(sentences: Iterable[Sequence[Sequence[str]]]) -> Counter[str]:
    """Returns feature -> number of tokens that have it, of sentences of tokens of features."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        for features in sentence:
            counts.update(set(features))
    return counts


def index_features(index: FeatureIndex, sentences: Iterable[Sequence[Sequence[str]]]) -> TokenRows:
    """Returns the columns of every token's features; the slow and general way.

    `token_features.token_rows` gives the same of its own features, without the strings.

    Args:
      index: of d features.
      sentences: n sentences of tokens of feature strings. A feature listed twice counts once;
        unknown ones are dropped and counted.
    """
    indices: list[int] = []
    token_offsets, sentence_offsets = [0], [0]
    unknown = 0
    for sentence in sentences:
        for features in sentence:
            distinct = set(features)
            known = sorted(index.columns[name] for name in distinct if name in index.columns)
            unknown += len(distinct) - len(known)
            indices.extend(known)
            token_offsets.append(len(indices))
        sentence_offsets.append(len(token_offsets) - 1)
    return TokenRows(
        np.array(indices, dtype=np.int32),
        np.array(token_offsets, dtype=np.int64),
        np.array(sentence_offsets, dtype=np.int64),
        index.number_of_features,
        unknown,
    )
