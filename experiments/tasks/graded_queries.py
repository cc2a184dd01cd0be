"""Queries with graded documents: some of them, and RankSVM on all pairs of documents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.corpora.lambdarank import Queries


def taken(queries: Queries, which: Sequence[int] | np.ndarray) -> Queries:
    """Some of the queries."""
    return Queries([queries.rows[i] for i in which], [queries.relevances[i] for i in which])


def rank_svm(queries: Queries, C: float) -> np.ndarray:
    """w of LinearSVC on x_i - x_j for documents of larger and smaller relevance."""
    from sklearn.svm import LinearSVC

    found = []
    for rows, own in zip(*queries, strict=True):
        better, worse = np.nonzero(own[:, None] > own)
        found.append(rows[better] - rows[worse])
    sign = np.where(np.arange(sum(map(len, found))) % 2, 1, -1)  # two classes of mirrored pairs
    machine = LinearSVC(C=C, loss="hinge", fit_intercept=False, max_iter=20_000)
    return machine.fit(np.concatenate(found) * sign[:, None], sign).coef_[0]
