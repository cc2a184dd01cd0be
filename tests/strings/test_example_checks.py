"""What the problems of candidate sets refuse: one line that names the argument."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from jaxstruct import SparseFeatures, fit, predict, take
from jaxstruct.strings.inputs import CandidateFeatures, feature_inputs, kernel_inputs
from jaxstruct.strings.structure import candidates, joint_candidates, kernel_candidates
from tests.lib.refusals import refused
from tests.strings.candidate_cases import M, N, random_case

CASE = random_case(1)
NUMBERS = np.array([[0, 1], [2, -1]], np.int32)
X = CandidateFeatures(NUMBERS, np.ones((2, 2, 3)))
Y = np.array([0, 2])
KERNEL = kernel_inputs(np.eye(2), NUMBERS)
FRESH = kernel_inputs(np.eye(2), NUMBERS, new=True)
TABLE = 1.0 - np.eye(2)


def features(loss: object = "zero_one", y: np.ndarray = Y, **changes: object) -> Callable:
    return lambda: fit(candidates(3, loss=loss), X._replace(**changes), y)


def sparse(indices: object, values: object) -> Callable:
    return features(features=SparseFeatures(np.array(indices), np.array(values)))


BAD: dict[str, tuple[Callable, str]] = {
    "empty": (features(numbers=np.array([[0, 1], [-1, -1]])), "[1] is [-1, -1]: expected a cand"),
    "twice": (features(numbers=np.array([[0, 1], [2, 2]])), "[1] is [2, 2]: expected every can"),
    "gap": (features(numbers=np.array([[-1, 1], [2, -1]])), "inputs.numbers[0, 0] is -1"),
    "below -1": (features(numbers=np.array([[0, 1], [2, -5]])), "inputs.numbers[1, 1] is -5"),
    "true output": (features(y=np.array([0, 1])), "outputs[1] is 1: expected a candidate of"),
    "outputs": (features(y=np.array([0.0, 2.0])), "outputs must be [n = 2] integers"),
    "not best": (features(np.array([1.0, 0.5, 0])), "it costs 1, another candidate 0.5"),
    "loss": (features(TABLE), "inputs.numbers[1, 0] is 2: expected rows of loss, 0..1"),
    "record": (lambda: fit(candidates(3), np.ones((2, 3)), Y), "inputs must be a Candidate"),
    "width": (features(features=np.ones((2, 2, 4))), "[n = 2, K = 2, number_of_features = 3]"),
    "count": (features(features=np.ones((2, 1, 3))), "[n = 2, K = 2, number_of_features ="),
    "nan": (features(features=np.full((2, 2, 3), np.nan)), "inputs"),
    "index": (sparse([[[4]] * 2] * 2, np.ones((2, 2, 1))), "is 4: expected 0..3, features, and"),
    "feature twice": (sparse([[[1, 1]] * 2] * 2, np.ones((2, 2, 2))), "names feature 1 twice"),
    "sparse shape": (sparse([[[1]] * 2] * 2, np.ones((2, 2, 2))), "must be [n = 2, K = 2, m = 1]"),
    "few outputs": (
        lambda: fit(kernel_candidates(2, np.eye(2)), KERNEL, Y),
        "inputs.numbers[1, 0] is 2: expected rows of output_gram, 0..1",
    ),
    "no anchor": (
        lambda: fit(kernel_candidates(2, np.eye(3)), FRESH, Y),
        "inputs.anchor[0] is 2: expected one of the 2 anchors",
    ),
    "anchors": (
        lambda: fit(kernel_candidates(3, np.eye(3)), KERNEL, Y),
        "inputs.row must be [n = 2, anchors = 3]",
    ),
    "pairs": (
        lambda: fit(joint_candidates(3), CASE.machine("joint", "float32")[1], CASE.y),
        "inputs.rows must be [n = ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_errors_are_one_line(name: str) -> None:
    call, message = BAD[name]
    refused(re.escape(message), call)


def test_prediction_asks_for_no_true_output_and_no_anchor() -> None:
    problem, x = candidates(3), X
    w = {"weights": np.array([1.0, 0, 0], np.float32)}
    np.testing.assert_array_equal(predict(problem, w, x), [0, 2])
    with refused("expected a candidate"):
        predict(problem, w, x._replace(numbers=np.array([[0, 1], [-1, -1]])))


def test_a_fold_keeps_its_anchors() -> None:
    problem, x = CASE.machine("kernel", "float32")
    few = take(x, np.array([5, 2]))
    assert few.anchor.tolist() == [5, 2] and few.row.shape == (2, N)
    problem.check(take(kernel_inputs(np.eye(N), [[0, 1]] * N), np.array([3])), np.array([1]))
    assert kernel_candidates(N, np.eye(M)).initial_weights["coefficients"].shape == (N, M)
    ragged = feature_inputs([[0], [1, 2]], np.ones((3, 2)))
    refused(
        "outputs.1. is 0: expected a candidate",
        lambda: fit(candidates(2), ragged, np.array([0, 0])),
    )
