"""Small training sets that the tests of the estimators share."""

from __future__ import annotations

import numpy as np


def blobs(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """n points [n, 5] about three means, and their classes "a", "b", "c"."""
    random = np.random.default_rng(0)
    classes = np.arange(n) % 3
    means = 2.0 * np.eye(3, 5)
    return means[classes] + 0.7 * random.normal(size=(n, 5)), np.array(["a", "b", "c"])[classes]


def sentences(n: int = 24) -> tuple[list, list]:
    """n sequences of tokens as mappings, and labels that follow the word or the one before."""
    random = np.random.default_rng(1)
    X, y = [], []
    for _ in range(n):
        words = random.integers(0, 6, random.integers(3, 8))
        X.append([{"word": str(word), "even": bool(word % 2 == 0)} for word in words])
        labels = ["name" if word < 2 else "other" for word in words]
        after = [False, *(word == 5 for word in words[:-1])]
        y.append(["next" if a else label for label, a in zip(labels, after, strict=True)])
    return X, y


def reordered(n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two folds: all n examples in another order, scored on a half of them.

    The programs of the other tests serve them: folds of another size would compile their own.
    """
    order = np.random.default_rng(2).permutation(n)
    return [(order, order[: n // 2]), (order[::-1], order[n // 2 :])]
