"""Inputs of candidate sets: lists in every form, kernel values, pairs for a joint kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jaxstruct import Ragged, SparseFeatures, kernels, ragged
from jaxstruct.strings.inputs import (
    as_lists,
    feature_inputs,
    joint_inputs,
    joint_pairs,
    kernel_inputs,
)
from tests.lib.refusals import refused

LISTS = [[3, 1], [0], [2, 4, 1]]
PADDED = np.array([[3, 1, -1], [0, -1, -1], [2, 4, 1]])
SMALL = np.eye(6)


def test_lists_in_every_form_are_one_store() -> None:
    for given in (LISTS, PADDED, ragged(LISTS), [np.array(own) for own in LISTS]):
        store = as_lists(given)
        assert [own.tolist() for own in store] == LISTS
        assert store.rows.dtype == np.int32 and store.fill == -1


def test_features_by_row_by_list_and_padded() -> None:
    rows = np.arange(12.0).reshape(6, 2)
    parts = np.split(rows, [2, 3])
    padded = np.zeros((3, 3, 2))
    padded[PADDED >= 0] = rows
    for given in (rows, parts, padded, ragged(parts)):
        x = feature_inputs(LISTS, given)
        assert isinstance(x.features, Ragged)
        np.testing.assert_array_equal(x.features.rows, rows)
    same = feature_inputs([[0, 1], [2, 3], [4, 5]], rows)
    assert same.numbers.shape == (3, 2) and same.features.shape == (3, 2, 2)
    indices = np.array([[0, 4], [1, 2]] * 3, np.int32)
    sparse = feature_inputs(LISTS, SparseFeatures(indices, np.ones((6, 2))), 4)
    assert (sparse.features.indices.fill, sparse.features.values.fill) == (4, 0)


def test_joint_pairs_are_those_of_the_lists() -> None:
    """J of two pairs through `gram_matrix` is J written down, and K times L."""
    random = np.random.default_rng(0)
    x, table = random.normal(size=(3, 2)), random.normal(size=(5, 4))
    pairs = joint_pairs(x, table, LISTS)
    which = [(i, y) for i, own in enumerate(LISTS) for y in own]
    joint = kernels.tensor_product(kernels.linear(), kernels.gaussian(2.0))
    gram = np.asarray(kernels.gram_matrix(joint, pairs))
    L = np.exp(-((table[:, None] - table) ** 2).sum(axis=2) / 8)
    wanted = [[x[i] @ x[j] * L[y, z] for j, z in which] for i, y in which]
    np.testing.assert_allclose(gram, wanted, atol=1e-5)
    inputs = joint_inputs(gram, LISTS)
    assert inputs.anchors.rows.tolist() == list(range(6)) and inputs.anchors.fill == 6
    fresh = joint_inputs(gram[:3], [[0, 1, 2]], new=True)
    assert fresh.rows.shape == (1, 3, 6) and (fresh.anchors == 6).all()


def test_kernel_inputs_know_their_anchors() -> None:
    x = kernel_inputs(SMALL[:3, :3], LISTS)
    assert x.anchor.tolist() == [0, 1, 2] and x.row.shape == (3, 3)
    fresh = kernel_inputs(SMALL[:3, :5], LISTS, new=True)
    assert fresh.anchor.tolist() == [5, 5, 5]


BAD: dict[str, tuple[Callable, str]] = {
    "empty list": (lambda: as_lists([[0], []]), r"numbers\[1\] has no candidate"),
    "padding only": (lambda: as_lists(np.array([[-1, -1]])), "no candidate"),
    "no lists": (lambda: as_lists([]), "no candidate"),
    "negative": (lambda: as_lists([[0, -2]]), "got -2..0"),
    "floats": (lambda: as_lists([[0.5]]), "integers, got float64"),
    "a text": (lambda: as_lists("abc"), "numbers must be n lists"),
    "rows": (lambda: feature_inputs(LISTS, np.zeros((5, 2))), "5 rows for 6 candidates"),
    "row lists": (
        lambda: feature_inputs(LISTS, [np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 2))]),
        r"features\[1\] has 2 entries, but numbers\[1\] has 1: one each",
    ),
    "inputs": (lambda: feature_inputs(LISTS, [np.zeros((2, 2))]), "of n = 3 numbers, got 1"),
    "padded": (lambda: feature_inputs(LISTS, np.zeros((3, 2, 2))), r"\[n, K, ..\] = \[3, 3"),
    "no d": (
        lambda: feature_inputs(LISTS, SparseFeatures(np.zeros((6, 1), int), np.ones((6, 1)))),
        "number_of_features",
    ),
    "gram rows": (lambda: kernel_inputs(SMALL[:2, :2], LISTS), "a matrix of 3 rows"),
    "gram not square": (lambda: kernel_inputs(SMALL[:3], LISTS), "say new=True"),
    "indefinite": (lambda: joint_inputs(-SMALL, LISTS), "gram: not positive semi-definite"),
    "nan": (lambda: joint_inputs(SMALL * np.nan, LISTS), "gram: got nan"),
    "asymmetric": (lambda: kernel_inputs(np.triu(np.ones((3, 3))), LISTS), "not symmetric"),
    "flag": (lambda: kernel_inputs(SMALL[:3, :3], LISTS, new="no"), "new must be True or False"),
    "pairs": (lambda: joint_pairs(SMALL, SMALL, LISTS), "inputs are 6, numbers of 3"),
    "table": (lambda: joint_pairs(SMALL[:3], SMALL[:4], LISTS), "numbers go to 4"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_one_line(name: str) -> None:
    call, message = BAD[name]
    refused(message, call)
