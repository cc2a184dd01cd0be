"""Homologues are drawn, not read: natives, homologues and decoys by the recipe of JMLR 5.3.

A homologue is a changed stretch of its native, filled up with random letters. The paper leaves two
things open: where these letters go, and whether the native's letters around the stretch are kept.
`generate_homologues(padding=)` chooses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LETTERS = 20
LENGTH = 50
ALIGNMENT_LENGTH = 30
DECOYS = 10
MATCH, SUBSTITUTE, INSERT, DELETE = range(4)
PROBABILITIES = (0.2, 0.4, 0.2, 0.2)
PADDINGS = ("end", "both", "kept")


class Homologues(NamedTuple):
    """n examples.

    Fields:
      natives: [n, 50] int32 letters 0..19 (the paper's 1..20 less one).
      candidates: [n, 11, 50] int32, the homologue at a random place among the decoys.
      homologue: [n] int32, that place.
      operations: [n, 30] int32, the alignment: 0 pairs two letters (match or substitute), 1 skips
        a letter of the native (delete), 2 skips one of the homologue (insert).
      begin: [n, 2] int32, how many letters of the native and of the homologue come before it.
    """

    natives: np.ndarray
    candidates: np.ndarray
    homologue: np.ndarray
    operations: np.ndarray
    begin: np.ndarray


def letter_probabilities() -> np.ndarray:
    """[20] P(c) = c / 210 of the paper's letter c = 1..20."""
    return np.arange(1, LETTERS + 1) / (LETTERS * (LETTERS + 1) / 2)


def _letters(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.choice(LETTERS, size=shape, p=letter_probabilities()).astype(np.int32)


def substituted(letters: np.ndarray) -> np.ndarray:
    """c -> (c mod 20) + 1 of the paper's letters 1..20."""
    return (letters + 1) % LETTERS


def _evolve(generator: np.random.Generator, stretch: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """What an alignment string makes of a stretch of the native."""
    reads = kinds != INSERT
    source = stretch[np.maximum(np.cumsum(reads) - 1, 0)]
    made = np.where(kinds == SUBSTITUTE, substituted(source), source)
    made = np.where(kinds == INSERT, _letters(generator, len(kinds)), made)
    return made[kinds != DELETE]


def _fill(
    generator: np.random.Generator, native: np.ndarray, start: int, end: int,
    made: np.ndarray, padding: str,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """(a homologue of 50 letters, where its aligned part begins)."""
    before, after = (native[:start], native[end:]) if padding == "kept" else (made[:0], made[:0])
    body = np.concatenate([before, made, after])[:LENGTH]
    missing = LENGTH - len(body)
    left = int(generator.integers(0, missing + 1)) if padding == "both" else 0
    ends = _letters(generator, left), _letters(generator, missing - left)
    return np.concatenate([ends[0], body, ends[1]]), left + len(before)


def generate_homologues(
    generator: np.random.Generator, n: int, *, padding: str = "end"
) -> Homologues:
    """Draw n examples.

    Each native has 50 letters of P(c) = c / 210, as has each of 10 decoys. An alignment string of
    30 operations (match .2, substitute .4, insert .2, delete .2) is applied to a random stretch of
    the native; random letters of the same distribution fill the result up to 50. A decoy is never
    looked at again: it may resemble the native by chance.

    Args:
      generator: of random numbers.
      n: at least 1.
      padding: where the random letters go.
        "end": behind the aligned part.
        "both": on both sides; how many come before it is drawn uniformly.
        "kept": at the end, after the native's own letters on either side of the stretch. The whole
        is cut off at 50 letters; a string whose aligned part would be cut is drawn anew.
    """
    examples = [_example(generator, padding) for _ in range(n)]
    return Homologues(*(np.stack(leaves) for leaves in zip(*examples, strict=True)))


def _example(generator: np.random.Generator, padding: str) -> tuple[np.ndarray | np.int32, ...]:
    native = _letters(generator, LENGTH)
    while True:
        kinds = generator.choice(4, size=ALIGNMENT_LENGTH, p=PROBABILITIES)
        used = int(np.sum(kinds != INSERT))
        start = int(generator.integers(0, LENGTH - used + 1))
        made = _evolve(generator, native[start : start + used], kinds)
        if padding != "kept" or start + len(made) <= LENGTH:
            break
    homologue, begins = _fill(generator, native, start, start + used, made, padding)
    place = int(generator.integers(0, DECOYS + 1))
    candidates = np.insert(_letters(generator, DECOYS, LENGTH), place, homologue, axis=0)
    operations = np.select([kinds == DELETE, kinds == INSERT], [1, 2], 0).astype(np.int32)
    begin = np.array([start, begins], np.int32)
    return native, candidates, np.int32(place), operations, begin
