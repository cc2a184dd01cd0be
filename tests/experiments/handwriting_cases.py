"""Random words, and a file of them, for the tests of the commands that read handwriting."""

from __future__ import annotations

import numpy as np

from experiments.corpora.ocr_letters import OcrWords
from tests.experiments.corpora.packed import letter_data, letter_lines

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
    path.write_bytes(letter_data(letter_lines(words)))
