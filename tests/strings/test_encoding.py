"""Candidates with features: the four methods by name and by place, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.solvers.predict import predict
from jaxstruct.strings import prepare
from tests.lib.refusals import refused

LISTS = [{"good": {"f": 1.0}, "bad": {"g": 1.0}}, {"x": {"g": 1.0}, "y": {"f": 1.0}, "z": ["h"]}]
RIGHT = ["good", "y"]
ENCODING = prepare(LISTS, RIGHT).encoding


def test_candidates_come_back_from_their_places() -> None:
    y = ENCODING.outputs(RIGHT, LISTS)
    assert y.tolist() == [0, 1] and y.dtype == np.int32
    assert ENCODING.decode(y, LISTS) == RIGHT
    assert ENCODING.decode(y) == [0, 1] and ENCODING.outputs([0, 1]).tolist() == [0, 1]


def test_predictions_are_candidates_of_the_lists() -> None:
    problem = ENCODING.problem()
    w = {"weights": np.array([name == "f" for name in ENCODING.features.names], np.float32)}
    assert ENCODING.decode(predict(problem, w, ENCODING.inputs(LISTS)), LISTS) == RIGHT


def test_rows_alone_are_known_by_their_places() -> None:
    lists = [np.eye(2), np.ones((3, 2))]
    encoding = prepare(lists, [1, 2]).encoding
    x = encoding.inputs(lists)
    assert x.numbers.rows.tolist() == [0, 1, 0, 1, 2]
    assert encoding.decode(encoding.outputs([1, 2]), lists) == [1, 2]


WRONG = {
    "no candidate": (lambda: ENCODING.outputs(["good", "q"], LISTS), r"right\[1\] must be a cand"),
    "names alone": (lambda: ENCODING.outputs(RIGHT), r"right\[0\] must be a position >= 0 in its"),
    "count": (lambda: ENCODING.outputs(["good"], LISTS), "right must be of n = 2 lists, got 1"),
    "empty list": (lambda: ENCODING.inputs([{}, LISTS[1]]), r"numbers\[0\] has no candidate"),
    "no list": (lambda: prepare("ab", "ab"), "lists must be n lists of candidates"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case: str) -> None:
    call, message = WRONG[case]
    refused(message, call)
