"""Texts and sentences of any number, generated some at a time to look like real ones.

As those of `experiments.benchmarks.generated`: words follow Zipf's law, a class or label prefers
some of them, lengths have a long tail. Here all pieces share what classes and labels prefer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxstruct import Ragged, SparseFeatures
from jaxstruct.chains import ChainEncoding, chain_inputs
from jaxstruct.core.feature_encoding import FeatureEncoding
from jaxstruct.core.labels import LabelCodec
from jaxstruct.core.types import PyTree
from jaxstruct.models import write_arrays
from jaxstruct.multiclass import ClassEncoding

WORDS, CLASSES, FEATURES, LABELS = 5_000, 20, 20_000, 9
KINDS = 8
"""Features of a token, each of a kind of its own."""
PIECE = 10_000
"""Examples that are made together."""


def _drawn(random: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Numbers below `size` by Zipf's law."""
    ends = np.cumsum(1 / np.arange(1, size + 1))
    return np.searchsorted(ends, random.random(count) * ends[-1]).clip(max=size - 1)


def texts(random: np.random.Generator, fixed: np.random.Generator, n: int) -> tuple:
    """n texts and their classes; `fixed` is the same for all pieces."""
    ranks = np.stack([fixed.permutation(WORDS) for _ in range(CLASSES)])
    classes = random.integers(0, CLASSES, n).astype(np.int32)
    counts = np.clip(random.lognormal(4.0, 0.5, n), 8, 400).astype(int)
    text = np.repeat(np.arange(n), counts)
    drawn = _drawn(random, WORDS, len(text))
    topical = random.random(len(text)) < 0.3
    words = np.where(topical, ranks[classes[text], drawn], drawn)
    keys, times = np.unique(text * WORDS + words, return_counts=True)
    text, words = keys // WORDS, keys % WORDS
    offsets = np.concatenate([[0], np.cumsum(np.bincount(text, minlength=n))])
    values = (1 + np.log(times)) * np.log(2 + words)  # frequent words weigh less
    lengths = np.sqrt(np.add.reduceat(values**2, offsets[:-1]))
    values = (values / lengths[text]).astype(np.float32)
    stores = Ragged(words.astype(np.int32), offsets, WORDS), Ragged(values, offsets)
    return SparseFeatures(*stores), classes


def sentences(random: np.random.Generator, fixed: np.random.Generator, n: int) -> tuple:
    """n sentences and their labels; `fixed` is the same for all pieces."""
    each = FEATURES // KINDS
    table = fixed.integers(0, each, (LABELS, KINDS))
    offsets = np.concatenate([[0], np.cumsum(_lengths(random, n))])
    total = int(offsets[-1])
    rare = random.random(total) >= 0.85
    labels = np.where(rare, random.integers(1, LABELS, total), 0).astype(np.int32)
    again = np.flatnonzero((random.random(total) < 0.4) & (np.arange(total) > 0))
    labels[again] = labels[again - 1]
    drawn = _drawn(random, each, total * KINDS).reshape(total, KINDS)
    preferred = (drawn + table[labels]) % each
    found = np.where(random.random(drawn.shape) < 0.3, preferred, drawn) + each * np.arange(KINDS)
    stores = (
        Ragged(found.astype(np.int32), offsets, FEATURES),
        Ragged(np.ones(found.shape, np.float32), offsets),
    )
    return chain_inputs(SparseFeatures(*stores)), Ragged(labels, offsets, -1)


def _lengths(random: np.random.Generator, n: int) -> np.ndarray:
    return np.clip(random.lognormal(3.1, 0.7, n), 1, 200).astype(int)


class Kind(NamedTuple):
    """A kind of examples.

    Fields:
      make: (random, fixed, n) -> (inputs, outputs). encoding: of its class.
      sizes: features and labels. C: divided by n.
    """

    make: Callable[[np.random.Generator, np.random.Generator, int], tuple[PyTree, PyTree]]
    encoding: type
    sizes: tuple[int, int]
    C: float


TASKS = {
    "sentences": Kind(sentences, ChainEncoding, (FEATURES, LABELS), 0.1),
    "texts": Kind(texts, ClassEncoding, (WORDS, CLASSES), 1.0),
}


def make_store(folder: Path, name: str, n: int, seed: int) -> Path:
    """The store of n examples of a kind, in a folder that is not there yet."""
    kind = TASKS[name]
    features, labels = kind.sizes
    encoding = kind.encoding(
        FeatureEncoding("sparse", None, features, 0.0), LabelCodec(tuple(range(labels)))
    )

    def pieces() -> Iterator[tuple[PyTree, PyTree]]:
        for number, first in enumerate(range(0, n, PIECE)):
            random = np.random.default_rng([seed, number])
            yield kind.make(random, np.random.default_rng(seed), min(PIECE, n - first))

    return write_arrays(folder, encoding, pieces()).folder
