"""Choices of examples: small training sets with equal classes, and stratified folds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Fold(NamedTuple):
    """One fold of a cross-validation: `train` and `test` are sorted int64 indices, disjoint."""

    train: np.ndarray
    test: np.ndarray


def per_class_subsample(labels: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    """Returns the sorted indices of `per_class` random examples of each class.

    A smaller class gives all it has. Choices of one seed are nested: the examples for 2 a class are
    among those for 4 a class.

    Args:
      labels: [n] class names or numbers.
      per_class: how many to take, at least 1.
      seed: of numpy.random.default_rng.
    """
    order, rank = _shuffle_by_class(labels, seed)
    return np.sort(order[rank < per_class])


def stratified_folds(labels: np.ndarray, folds: int, seed: int) -> tuple[Fold, ...]:
    """Deals the examples onto `folds` test sets; each example is in exactly one.

    The examples are shuffled, grouped by class and dealt in turn. Any two test sets then differ by
    at most one in their number of examples, of each class and in all. A class with fewer examples
    than folds is absent from some test sets. A class with one example is absent from the training
    set of the fold that tests it.

    Args:
      labels: [n] class names or numbers.
      folds: 2 .. n.
      seed: of numpy.random.default_rng.
    """
    order, _ = _shuffle_by_class(labels, seed)
    if not 2 <= folds <= len(order):
        raise ValueError(f"folds: got {folds}, expected 2 .. {len(order)} (the examples)")
    fold_of = np.empty(len(order), dtype=np.int64)
    fold_of[order] = np.arange(len(order)) % folds
    return tuple(
        Fold(np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold))
        for fold in range(folds)
    )


def _shuffle_by_class(labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns indices grouped by class, shuffled within each, and their ranks in the class."""
    labels = np.asarray(labels)
    _, classes = np.unique(labels, return_inverse=True)
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    order = shuffled[np.argsort(classes[shuffled], kind="stable")]
    sizes = np.bincount(classes)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order, np.arange(len(labels)) - starts
