"""Random words, and a file of them, for the tests of the commands that read handwriting."""

from __future__ import annotations

import itertools

import numpy as np

from experiments.corpora.ocr_letters import LETTERS, OcrWords

LENGTHS = np.array([3, 1, 2, 2, 3, 1, 3, 2, 1, 3, 2, 3, 1, 2, 3, 3, 2, 1, 3, 2, 2, 3, 1, 2])
C = 0.01


def random_words(seed=0) -> OcrWords:
    """24 words of noisy random letters, 3 folds of 8; letters of a word repeat or follow on."""
    rng = np.random.default_rng(seed)
    prototypes = rng.integers(0, 2, (26, 128))
    starts = rng.integers(0, 26, len(LENGTHS))
    letters = np.concatenate(
        [(a + np.arange(size)) % 26 for a, size in zip(starts, LENGTHS, strict=True)]
    )
    noise = rng.random((len(letters), 128)) < 0.3
    return OcrWords(
        (prototypes[letters] ^ noise).astype(np.uint8), letters.astype(np.int32),
        np.concatenate([[0], np.cumsum(LENGTHS)]), (np.arange(len(LENGTHS)) % 3).astype(np.int32),
    )  # fmt: skip


def write_letter_data(path, words):
    lines = []
    for word, (start, end) in enumerate(itertools.pairwise(words.offsets)):
        for at in range(start, end):
            link = -1 if at + 1 == end else at + 1
            head = (at, LETTERS[words.letters[at]], link, word, at - start, words.folds[word])
            lines.append("\t".join(map(str, [*head, *words.pixels[at]])))
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
