"""Generated sentences and texts, and the models that label them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

import jaxstruct as js
from jaxstruct.core.files import write_file

WORDS, TAGS, CLASSES = 20_000, 9, 20
TRAINED = 500
"""Sentences, or texts, that a model learns from."""


def _words(rng: np.random.Generator, counts: np.ndarray) -> Iterator[list[str]]:
    """Lists of so many words each; the r-th word is 1 / r times as frequent as the first."""
    shares = np.cumsum(1 / np.arange(1, WORDS + 1))
    drawn = np.searchsorted(shares, rng.random(int(counts.sum())) * shares[-1])
    ends = np.cumsum(counts)
    for begin, end in zip(ends - counts, ends, strict=True):
        yield [f"w{r}" for r in drawn[begin:end]]


def sentences(seed: int, count: int) -> Iterator[list[list[str]]]:
    """Sentences of 5 to 39 tokens of six names: the word, its ends, its length, its neighbours."""
    rng = np.random.default_rng([seed, 1])
    for at in range(0, count, 1000):
        for own in _words(rng, rng.integers(5, 40, min(1000, count - at))):
            around = zip(own, ["<", *own], [*own[1:], ">"], strict=False)
            yield [
                [word, f"p={word[:2]}", f"s={word[-2:]}", f"l={len(word)}", f"b={a}", f"a={b}"]
                for word, a, b in around
            ]


def tags_of(sentence: Iterable[list[str]]) -> list[str]:
    """A tag a token, which its own last digit and the length of the word before decide."""
    return [f"T{(int(token[0][-1]) + len(token[4])) % TAGS}" for token in sentence]


def texts(seed: int, count: int) -> Iterator[list[str]]:
    """Texts of 12 words."""
    rng = np.random.default_rng([seed, 2])
    for at in range(0, count, 1000):
        yield from _words(rng, np.full(min(1000, count - at), 12))


def class_of(text: Iterable[str]) -> str:
    """One of 20 classes: that of the most frequent of its words."""
    return f"C{min(int(word[1:]) for word in text) % CLASSES}"


def write_tagger(path: Path, seed: int) -> Path:
    """A model of label sequences."""
    x = list(sentences(seed, TRAINED))
    y = [tags_of(one) for one in x]
    return _trained(path, js.chains.prepare(x, y), len(x))


def write_classifier(path: Path, seed: int) -> Path:
    """A model of 20 classes."""
    x = list(texts(seed, 4 * TRAINED))
    y = [class_of(one) for one in x]
    classes = [f"C{k}" for k in range(CLASSES)]
    return _trained(path, js.multiclass.prepare(x, y, classes=classes), len(x))


def _trained(path: Path, data: js.Prepared, n: int) -> Path:
    solution = js.fit(*data, "svm1_margin", C=0.1 * n, tolerance=0.1)
    return js.save(js.trained(data, solution), path)


def write_sentences(path: Path, seed: int, count: int) -> Path:
    """Columns between tabs."""
    blocks = ("\n".join(map("\t".join, one)) for one in sentences(seed, count))
    return _written(path, (f"{block}\n\n" for block in blocks))


def write_texts(path: Path, seed: int, count: int) -> Path:
    """A text a line."""
    return _written(path, (f"{' '.join(one)}\n" for one in texts(seed, count)))


def _written(path: Path, pieces: Iterable[str]) -> Path:
    return write_file(path, lambda stream: stream.writelines(map(str.encode, pieces)))
