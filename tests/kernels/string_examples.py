"""Random strings and the slow truth that string kernels are compared with."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np

from jaxstruct.kernels import Strings, encode_strings

ALPHABET = "abcd"
WIDTH = 8


def random_texts(seed: int, n: int, longest: int = WIDTH) -> list[str]:
    """n texts of 0 .. longest letters; the first two are empty and the same letter again."""
    rng = np.random.default_rng(seed)
    drawn = ["".join(rng.choice(list(ALPHABET), rng.integers(longest + 1))) for _ in range(n)]
    return (["", "a" * longest] + drawn)[:n]


def encoded(texts: list[str]) -> Strings:
    """At the width that all of these tests share."""
    return encode_strings(texts, ALPHABET, WIDTH)


def substrings_of(text: str) -> Counter:
    """How often each substring stands in a text, by enumeration."""
    ends = range(1, len(text) + 1)
    return Counter(text[i:j] for j in ends for i in range(j))


def subsequences_of(text: str, length: int, decay: float) -> Counter:
    """The weight of each subsequence of `length` letters, by enumeration of index tuples."""
    weights: Counter = Counter()
    for places in itertools.combinations(range(len(text)), length):
        word = "".join(text[i] for i in places)
        weights[word] += decay ** (places[-1] - places[0] + 1)
    return weights


def product_of(a: Counter, b: Counter, weight: Callable[[str], float] = lambda u: 1.0) -> float:
    """sum_u weight(u) a(u) b(u)."""
    return sum(weight(u) * count * b[u] for u, count in a.items())


def gram_of(features: list[Counter], weight: Callable[[str], float] = lambda u: 1.0) -> np.ndarray:
    """The kernel matrix of features by name."""
    return np.array([[product_of(a, b, weight) for b in features] for a in features])


def lodhi(s: str, t: str, n: int, decay: float) -> float:
    """K_n(s, t) by the recursive definition of Lodhi et al. 2002, section 4, in plain Python."""

    @cache
    def begun(i: int, s: str, t: str) -> float:  # K'_i
        if i == 0:
            return 1.0
        if min(len(s), len(t)) < i:
            return 0.0
        ends = (j for j, letter in enumerate(t) if letter == s[-1])
        added = sum(begun(i - 1, s[:-1], t[:j]) * decay ** (len(t) - j + 1) for j in ends)
        return decay * begun(i, s[:-1], t) + added

    def whole(s: str) -> float:  # K_n
        if min(len(s), len(t)) < n:
            return 0.0
        ends = (j for j, letter in enumerate(t) if letter == s[-1])
        return whole(s[:-1]) + sum(begun(n - 1, s[:-1], t[:j]) for j in ends) * decay**2

    return whole(s)
