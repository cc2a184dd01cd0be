"""The split of scikit-learn's digits."""

from __future__ import annotations

import sys

import numpy as np
import sklearn.datasets

from jaxstruct.data.digits import load_digits_split
from jaxstruct.data.errors import sklearn_datasets
from tests.lib.refusals import refused


def test_split_is_the_permutation() -> None:
    """First 1347 to train on, 450 to test on, grey levels over 16."""
    split = load_digits_split()
    source = sklearn.datasets.load_digits()
    order = np.random.RandomState(0).permutation(1797)
    x, y = (
        np.concatenate([split.train_x, split.test_x]),
        np.concatenate([split.train_y, split.test_y]),
    )
    assert split.train_x.shape == (1347, 64)
    assert split.test_x.shape == (450, 64)
    np.testing.assert_array_equal(x, (source.data / 16)[order].astype(np.float32), strict=True)
    np.testing.assert_array_equal(y, source.target[order].astype(np.int32), strict=True)
    assert x.min() == 0.0
    assert x.max() == 1.0


def test_split_is_frozen() -> None:
    """The first labels, as RandomState(0) of NumPy has given them since 2005."""
    assert load_digits_split().train_y[:5].tolist() == [2, 8, 2, 6, 6]


def test_other_seeds_split_otherwise() -> None:
    """The same seed repeats."""
    one, again, other = (load_digits_split(seed).train_y for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_without_sklearn_the_extra_is_named(monkeypatch) -> None:
    """`None` in sys.modules is how Python marks a module that cannot be imported."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with refused(r"a thing needs scikit-learn; .*jaxstruct\[experiments\]", error=ImportError):
        sklearn_datasets("a thing")
    refused("load_digits_split needs", load_digits_split, error=ImportError)
