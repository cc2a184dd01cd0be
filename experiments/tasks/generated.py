"""Texts and sentences of any number, generated to look like real ones.

Words follow Zipf's law; a class prefers some of them. Lengths are log-normal, with a long tail, and
labels of sentences come from a chain in which most tokens have the label 0, as in named entities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxstruct import SparseFeatures, ragged

WORDS, CLASSES, LABELS = 5_000, 20, 9
AFFIXES = 7
"""Sparse features a token beside its word."""


class Texts(NamedTuple):
    """n texts: a store of tf-idf-like rows of length 1, and their classes [n]."""

    features: SparseFeatures
    classes: np.ndarray


class Sentences(NamedTuple):
    """Features [tokens, 1 + AFFIXES], labels [tokens] and where each of the n sentences starts."""

    features: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray


def _zipf(size: int) -> np.ndarray:
    weights = 1 / np.arange(1, size + 1)
    return weights / weights.sum()


def _documents(n: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """(the words of each text, its class)."""
    random = np.random.default_rng([seed, n])
    classes = random.integers(0, CLASSES, n).astype(np.int32)
    ranks = np.stack([random.permutation(WORDS) for _ in range(CLASSES)])
    common, counts = _zipf(WORDS), np.clip(random.lognormal(4.0, 0.5, n), 8, 400).astype(int)
    documents = []
    for own, count in zip(classes, counts, strict=True):
        drawn = random.choice(WORDS, count, p=common)
        topical = random.random(count) < 0.3
        documents.append(np.where(topical, ranks[own][drawn], drawn))
    return documents, classes


def strings(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The texts of `texts` as strings [n], and their classes [n]."""
    documents, classes = _documents(n, seed)
    return np.array([" ".join(f"w{word}" for word in own) for own in documents]), classes


def texts(n: int, seed: int = 0) -> Texts:
    """n short texts of 20 classes over 5,000 words."""
    documents, classes = _documents(n, seed)
    rows = []
    for own in documents:
        words, times = np.unique(own, return_counts=True)
        values = (1 + np.log(times)) * np.log(2 + words)  # frequent words weigh less
        rows.append((words, values / np.linalg.norm(values)))
    indices = ragged([words.astype(np.int32) for words, _ in rows], WORDS)
    weights = ragged([values.astype(np.float32) for _, values in rows])
    return Texts(SparseFeatures(indices, weights), classes)


def sentences(n: int, features: int, seed: int = 0) -> Sentences:
    """n labelled sentences whose tokens have a few of so many binary features."""
    random = np.random.default_rng([seed, n, features])
    lengths = np.clip(random.lognormal(3.1, 0.7, n), 1, 200).astype(int)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    total, moves = int(offsets[-1]), random.random(int(offsets[-1]))
    labels = np.where(moves < 0.85, 0, random.integers(1, LABELS, total)).astype(np.int32)
    again = np.flatnonzero((random.random(total) < 0.4) & (np.arange(total) > 0))
    labels[again] = labels[again - 1]
    kinds = 1 + AFFIXES
    each = features // kinds  # every kind of feature has a block of its own
    drawn = random.choice(each, (total, kinds), p=_zipf(each))
    preferred = (drawn + random.integers(0, each, (LABELS, kinds))[labels]) % each
    found = np.where(random.random(drawn.shape) < 0.3, preferred, drawn) + each * np.arange(kinds)
    return Sentences(found.astype(np.int32), labels, offsets)
