"""Inputs of candidate sets: lists in every form, kernel values, pairs for a joint kernel."""

from __future__ import annotations

import numpy as np

from jaxstruct import Ragged, SparseFeatures, kernels, ragged
from jaxstruct.strings.candidate_lists import number_candidates
from jaxstruct.strings.inputs import (
    as_lists,
    feature_inputs,
    joint_inputs,
    joint_pairs,
    kernel_inputs,
)
from jaxstruct.strings.losses import candidate_losses, checked_loss, loss_table, similarity_loss
from tests.lib.refusals import refused

NUMBERED = [[3, 1], [0], [2, 4, 1]]
PADDED = np.array([[3, 1, -1], [0, -1, -1], [2, 4, 1]])
SMALL = np.eye(6)


def test_lists_in_every_form_are_one_store() -> None:
    for given in (NUMBERED, PADDED, ragged(NUMBERED), [np.array(own) for own in NUMBERED]):
        store = as_lists(given)
        assert [own.tolist() for own in store] == NUMBERED
        assert store.rows.dtype == np.int32 and store.fill == -1


def test_features_by_row_by_list_and_padded() -> None:
    rows = np.arange(12.0).reshape(6, 2)
    parts = np.split(rows, [2, 3])
    padded = np.zeros((3, 3, 2))
    padded[PADDED >= 0] = rows
    for given in (rows, parts, padded, ragged(parts)):
        x = feature_inputs(NUMBERED, given)
        assert isinstance(x.features, Ragged)
        np.testing.assert_array_equal(x.features.rows, rows)
    same = feature_inputs([[0, 1], [2, 3], [4, 5]], rows)
    assert same.numbers.shape == (3, 2) and same.features.shape == (3, 2, 2)
    indices = np.array([[0, 4], [1, 2]] * 3, np.int32)
    sparse = feature_inputs(NUMBERED, SparseFeatures(indices, np.ones((6, 2))), 4)
    assert (sparse.features.indices.fill, sparse.features.values.fill) == (4, 0)


def test_joint_pairs_are_those_of_the_lists() -> None:
    """J of two pairs through `gram_matrix` is J written down, and K times L."""
    random = np.random.default_rng(0)
    x, table = random.normal(size=(3, 2)), random.normal(size=(5, 4))
    pairs = joint_pairs(x, table, NUMBERED)
    which = [(i, y) for i, own in enumerate(NUMBERED) for y in own]
    joint = kernels.tensor_product(kernels.linear(), kernels.gaussian(2.0))
    gram = np.asarray(kernels.gram_matrix(joint, pairs))
    L = np.exp(-((table[:, None] - table) ** 2).sum(axis=2) / 8)
    wanted = [[x[i] @ x[j] * L[y, z] for j, z in which] for i, y in which]
    np.testing.assert_allclose(gram, wanted, atol=1e-5)
    inputs = joint_inputs(gram, NUMBERED)
    assert inputs.anchors.rows.tolist() == list(range(6)) and inputs.anchors.fill == 6
    fresh = joint_inputs(gram[:3], [[0, 1, 2]], new=True)
    assert fresh.rows.shape == (1, 3, 6) and (fresh.anchors == 6).all()


def test_kernel_inputs_know_their_anchors() -> None:
    x = kernel_inputs(SMALL[:3, :3], NUMBERED)
    assert x.anchor.tolist() == [0, 1, 2] and x.row.shape == (3, 3)
    fresh = kernel_inputs(SMALL[:3, :5], NUMBERED, new=True)
    assert fresh.anchor.tolist() == [5, 5, 5]


def hamming(a: str, b: str) -> float:
    return sum(x != y for x, y in zip(a, b, strict=True))


LISTS, TRUE = [["ab", "bb"], ["bb", "aa", "bb"], ["ba"]], ["bb", "ab", "ba"]


def test_shared_numbers_name_outputs() -> None:
    found = number_candidates(LISTS, TRUE, missing="add", table=["aa", "zz"])
    assert found.outputs == ("aa", "zz", "ab", "bb", "ba")
    assert [own.tolist() for own in found.numbers] == [[2, 3], [3, 0, 2], [4]]
    assert [found.outputs[number] for number in found.targets] == TRUE
    assert found.present.tolist() == [True, False, True]


def test_the_best_candidate_stands_for_a_missing_output() -> None:
    """Numbers by list: every candidate has its own, what comes again is dropped."""
    found = number_candidates(LISTS, TRUE, missing="best", loss=hamming, shared=False)
    assert found.outputs == ("ab", "bb", "bb", "aa", "ba")
    assert found.targets.tolist() == [1, 2, 4]  # of two equally good ones the first
    assert [own.tolist() for own in found.numbers] == [[0, 1], [2, 3], [4]]
    unknown = number_candidates(LISTS)
    assert unknown.targets is None and unknown.present is None
    assert len(unknown.outputs) == len(set(unknown.outputs)) == 4


def test_one_minus_the_kernel() -> None:
    """Table 4.6: 1 - L of unit vectors; of any others, 1 minus the cosine."""
    random = np.random.default_rng(0)
    rows = random.uniform(0.1, 1, size=(6, 4))
    L = rows @ rows.T
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    loss = similarity_loss(L)
    np.testing.assert_allclose(loss, 1 - unit @ unit.T, atol=1e-12)
    np.testing.assert_allclose(loss, similarity_loss(unit @ unit.T), atol=1e-12)
    assert not np.diag(loss).any() and loss.max() > 0.1
    assert similarity_loss(np.array([[1.0, -1.0], [-1.0, 1.0]]))[0, 1] == 2


def test_by_a_function_and_by_list() -> None:
    table = loss_table(["ab", "abc", "b"], lambda a, b: abs(len(a) - len(b)))
    np.testing.assert_array_equal(table, [[0, 1, 1], [1, 0, 2], [1, 2, 0]])
    found = candidate_losses([["a", "abc"], ["b"]], ["ab", "b"], lambda a, b: float(a != b))
    assert [own.tolist() for own in found] == [[1.0, 1.0], [0.0]]
    assert checked_loss("zero_one") is None
    np.testing.assert_array_equal(checked_loss(found.rows), [1, 1, 0])


def test_what_does_not_fit_is_refused() -> None:
    refused(r"numbers\[1\] has no candidate", as_lists, [[0], []])
    refused("no candidate", as_lists, [])
    refused("got -2..0", as_lists, [[0, -2]])
    refused("integers, got float64", as_lists, [[0.5]])
    refused("numbers must be n lists", as_lists, "abc")
    refused("5 rows for 6 candidates", feature_inputs, NUMBERED, np.zeros((5, 2)))
    parts = [np.zeros((2, 2))] * 3
    refused(r"features\[1\] has 2 entries, but numbers\[1\] has 1", feature_inputs, NUMBERED, parts)
    refused("of n = 3 numbers, got 1", feature_inputs, NUMBERED, parts[:1])
    refused(r"\[n, K, ..\] = \[3, 3", feature_inputs, NUMBERED, np.zeros((3, 2, 2)))
    sparse = SparseFeatures(np.zeros((6, 1), int), np.ones((6, 1)))
    refused("number_of_features", feature_inputs, NUMBERED, sparse)
    refused("a matrix of 3 rows", kernel_inputs, SMALL[:2, :2], NUMBERED)
    refused("say new=True", kernel_inputs, SMALL[:3], NUMBERED)
    refused("new must be True or False", kernel_inputs, SMALL[:3, :3], NUMBERED, new="no")
    refused("gram: not positive semi-definite", joint_inputs, -SMALL, NUMBERED)
    refused("inputs are 6, numbers of 3", joint_pairs, SMALL, SMALL, NUMBERED)
    refused("numbers go to 4", joint_pairs, SMALL[:3], SMALL[:4], NUMBERED)


def test_lists_and_losses_that_do_not_fit_are_refused() -> None:
    lacks = r"true_outputs\[1\] is 'ab', which lists\[1\] lacks \(1 such\)"
    refused(lacks, number_candidates, LISTS, TRUE)
    refused(r"lists\[1\] has no candidate", number_candidates, [["a"], []])
    refused(r"lists\[0\] must hold hashable outputs", number_candidates, [[[1]]])
    refused("needs loss, a function", number_candidates, LISTS, TRUE, missing="best")
    refused("missing is 'drop'", number_candidates, LISTS, TRUE, missing="drop")
    refused("of n = 3 lists, got 2", number_candidates, LISTS, TRUE[:2])
    refused("shared numbers", number_candidates, LISTS, table=["a"], shared=False)
    refused(r"gram\[1, 1\] is 0", similarity_loss, np.diag([1.0, 0.0]))
    refused("gram: not positive semi-definite", similarity_loss, -np.eye(2))
    refused(r"loss\[0, 0\] is 1", checked_loss, np.ones((2, 2)))
    refused(r"loss\[1\] is -1", checked_loss, np.array([0.0, -1.0]))
    refused(r"loss\[0, 0\] is nan", loss_table, "ab", lambda a, b: np.nan)
    refused("of n = 1 lists, got 0", candidate_losses, [["a"]], [], max)
    refused("loss is 'f1'; expected \"zero_one\"", checked_loss, "f1")
    refused(r"strings.loss_table", checked_loss, max)
