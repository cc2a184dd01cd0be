"""Subsamples and folds: sizes, disjointness, determinism, small classes."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.corpora.splits import per_class_subsample, stratified_folds
from tests.lib.refusals import refused

LABELS = np.array(list("bbbbbbbaaaacc") + ["rare"])


def _counts(indices: np.ndarray) -> dict[str, int]:
    names, counts = np.unique(LABELS[indices], return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def test_subsamples_take_the_number_or_all_there_are_and_are_nested() -> None:
    """Of every class, in the order of the data; a curve over the training size adds examples."""
    chosen = [per_class_subsample(LABELS, number, seed=5) for number in (1, 2, 3, 9)]
    assert _counts(chosen[2]) == {"a": 3, "b": 3, "c": 2, "rare": 1}
    assert chosen[2].dtype == np.int64 and (np.diff(chosen[2]) > 0).all()
    sets = [*map(set, chosen)]
    assert all(small < large for small, large in zip(sets, sets[1:], strict=False))
    assert sets[-1] == set(range(len(LABELS)))


def test_subsample_depends_on_the_seed_alone() -> None:
    """The same seed repeats; over seeds every example is drawn about equally often."""
    first, again = (per_class_subsample(LABELS, 2, seed=1) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    draws = np.zeros(len(LABELS))
    for seed in range(700):
        draws[per_class_subsample(LABELS, 1, seed)] += 1
    # Of 7 examples each is drawn 100 times on average, with standard deviation 9.3.
    assert (np.abs(draws[LABELS == "b"] - 100) < 45).all()
    assert draws[LABELS == "rare"].tolist() == [700]


@pytest.mark.parametrize("folds", [2, 5, len(LABELS)])
def test_folds_partition_evenly(folds) -> None:
    """Each example is tested once, sizes and class counts differ by at most one."""
    split = stratified_folds(LABELS, folds, seed=3)
    assert len(split) == folds
    everything = np.arange(len(LABELS))
    np.testing.assert_array_equal(np.sort(np.concatenate([f.test for f in split])), everything)
    for fold in split:
        np.testing.assert_array_equal(np.sort([*fold.train, *fold.test]), everything)
        assert (np.diff(fold.train) > 0).all() and (np.diff(fold.test) > 0).all()
    assert np.ptp([len(fold.test) for fold in split]) <= 1
    for name in np.unique(LABELS):
        assert np.ptp([_counts(fold.test).get(name, 0) for fold in split]) <= 1


def test_impossible_folds() -> None:
    """Fewer than two, or more than examples."""
    for folds in (1, 0, len(LABELS) + 1):
        refused(rf"folds: got {folds}, expected 2 \.\. 14", stratified_folds, LABELS, folds, seed=0)
