"""Classes from people's own data: the four methods, order, labels, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.multiclass import prepare
from jaxstruct.solvers.predict import predict
from tests.lib.refusals import refused

LABELS = ["north", ("a", 1), 2.5, True]


def test_predictions_come_in_the_callers_labels_and_order() -> None:
    """Weights are set by hand: feature j votes for class j."""
    rows = [["f0"], ["f1"], ["f2"], ["f3"]]
    encoding = prepare(rows, LABELS, classes=LABELS, constant=0).encoding
    problem = encoding.problem()
    w = {"weights": np.eye(4, dtype=np.float32)}
    new = [["f3"], ["f0", "f3", "f3"], ["f2"], [], ["f1"]]
    assert encoding.decode(predict(problem, w, encoding.inputs(new))) == [
        True, True, 2.5, "north", ("a", 1),
    ]  # fmt: skip
    assert encoding.decode(encoding.outputs(LABELS)) == LABELS


@pytest.mark.parametrize("rows", [np.eye(3), sparse.csr_array(np.eye(3)), np.eye(3).tolist()])
def test_arrays_and_matrices(rows) -> None:
    encoding = prepare(rows, ["b", "a", "b"]).encoding
    assert encoding.codec.classes == ("a", "b")
    assert encoding.problem().initial_weights["weights"].shape == (4, 2)  # the constant, too
    assert encoding.outputs(["a", "b"]).tolist() == [0, 1]
    x, y = encoding.inputs(rows), encoding.outputs(["a", "b", "a"])
    w = {"weights": np.array([[1, 0], [0, 1], [0, 1], [0, 0]], np.float32)}
    assert encoding.decode(predict(encoding.problem(), w, x)) == ["a", "b", "b"]
    assert y.tolist() == [0, 1, 0]


def test_options_are_those_of_multiclass() -> None:
    encoding = prepare(np.eye(3), ["b", "a", "b"], constant=0).encoding
    assert encoding.problem(output_features=np.ones((2, 5))).initial_weights["weights"].shape == (
        3, 5,
    )  # fmt: skip
    refused("los", encoding.problem, los=1, error=TypeError)


@pytest.mark.parametrize(
    "rows, labels, message",
    [
        (np.eye(2), ["a"], "labels must be n = 2, one a row, got 1"),
        (np.eye(2), ["a", "a"], r"labels must name at least two classes, got \('a',\) alone"),
        (np.eye(2), ["a", np.nan], r"labels\[1\]: got nan, a missing label"),
        (np.eye(2), ["a", ["b"]], r"labels\[1\]: got the unhashable list"),
        (np.eye(2), "ab", "labels must be a list of n = 2 labels"),
    ],
)
def test_what_does_not_fit_is_refused(rows, labels, message: str) -> None:
    refused(message, prepare, rows, labels)


def test_an_unseen_label_is_named_and_an_unseen_feature_counted() -> None:
    encoding = prepare([["x"], ["y"]], ["north", "south"]).encoding
    with refused(r"labels\[1\]: 'nort' is none of the 2 .*close names: 'no"):
        encoding.outputs(["south", "nort"])
    with pytest.warns(UnseenFeatures, match="rows names feature 'z'"):
        encoding.inputs([["x", "z"]])
