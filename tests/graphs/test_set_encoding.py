"""Sets of labels from people's own data: the four methods, empty sets, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.graphs import prepare_sets
from jaxstruct.solvers.predict import predict
from tests.lib.refusals import refused

ROWS = [["f0", "f1"], ["f1"], ["f2"], []]
SETS = [{"u", "v"}, {"v"}, {"w"}, set()]
ENCODING = prepare_sets(ROWS, SETS, constant=0).encoding


def test_sets_come_back_from_their_numbers() -> None:
    y = ENCODING.outputs(SETS)
    assert y.dtype == np.int32
    assert y.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert ENCODING.decode(y) == SETS
    assert ENCODING.outputs([["v", "u"], ("v", "v")]).tolist() == [[1, 1, 0], [0, 1, 0]]


def test_predictions_come_in_the_callers_order() -> None:
    problem = ENCODING.problem()
    w = {name: np.zeros(leaf.shape, np.float32) for name, leaf in problem.initial_weights.items()}
    columns = [ENCODING.features.index.columns[name] for name in ("f0", "f1", "f2")]
    w["labels"][columns] = np.eye(3)
    assert ENCODING.decode(predict(problem, w, ENCODING.inputs(ROWS))) == SETS


def test_many_labels_are_not_enumerated() -> None:
    labels = [[number] for number in range(15)]
    encoding = prepare_sets(np.eye(15), labels).encoding
    assert encoding.problem().oracles.contenders is None  # message passing, with a bound
    assert encoding.problem(inference="enumeration").oracles.contenders is not None
    assert prepare_sets(np.eye(14), labels[:14]).encoding.problem().oracles.contenders is not None


WRONG = {
    "a text": (lambda: prepare_sets(ROWS, ["u", "v", "w", ""]), r"labels\[0\] must be a set of"),
    "count": (lambda: prepare_sets(ROWS, SETS[:2]), "labels must be of n = 4 rows, got 2 sets"),
    "missing": (lambda: prepare_sets(ROWS[:1], [["u", None]]), r"labels\[0\]\[1\]: got None"),
    "unseen": (lambda: ENCODING.outputs([["u"], ["x"]]), r"labels\[1\]\[0\]: 'x' is none of the 3"),
    "shape": (lambda: ENCODING.decode(np.eye(2)), r"outputs must be \[n, L = 3\], got shape"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case: str) -> None:
    call, message = WRONG[case]
    refused(message, call)
