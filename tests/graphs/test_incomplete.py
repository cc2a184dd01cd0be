"""Graphs of which some nodes are not labelled, against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.contract import Incomplete, Truth
from jaxstruct.core.padding import padded
from tests.lib.incomplete import check_completions, weights
from tests.lib.refusals import refused

pytestmark = pytest.mark.usefixtures("x64")
COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
EDGES = [(0, 1), (1, 2), (2, 3), (0, 3)]
KINDS = [0, None, {1, 2}, 2, 1]


def graphs(seed: int, n: int) -> tuple[list, list]:
    """(n squares of nodes with two features, their labels, some None or sets)."""
    random = np.random.default_rng(seed)
    given = [(random.normal(size=(4, 2)), EDGES) for _ in range(n)]
    return given, [[KINDS[k] for k in random.integers(0, 5, 4)] for _ in range(n)]


def tables(labels: list) -> np.ndarray:
    """[4, 3] bool, which labels are possible."""
    may = [{0, 1, 2} if one is None else one if isinstance(one, set) else {one} for one in labels]
    return np.array([[s in own for s in range(3)] for own in may])


EVERY = np.array([*itertools.product(range(3), repeat=4)])


def costs(loss: object, possible: np.ndarray) -> np.ndarray:
    """[81] Delta of every labelling."""
    table = COSTS if loss is COSTS else 1 - np.eye(3)
    each = np.array([table[own].min(axis=0) for own in possible])
    return each[np.arange(4), EVERY].sum(axis=1)


def outputs_of(labels: list, loss: object):
    """All labellings, which agree, and Delta of each; see `tests.lib.incomplete`."""

    def of(i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        possible = tables(labels[i])
        return EVERY, possible[np.arange(4), EVERY].all(axis=1), costs(loss, possible)

    return of


@pytest.mark.parametrize(
    ("inference", "loss"), [("elimination", COSTS), ("enumeration", "hamming")]
)
def test_what_agrees_is_found(inference: str, loss: Any) -> None:
    given, labels = graphs(0, 8)
    options = {"inference": inference, "loss": loss, "dtype": "float64"}
    data = js.graphs.prepare(given, labels, classes=range(3), plans=True, **options)
    check_completions(data, outputs_of(labels, loss))


@pytest.mark.thorough
def test_passing_messages_completes_what_is_known() -> None:
    """By outputs that agree; `fit_latent` keeps no worse one."""
    given, labels = graphs(0, 8)
    problem, *data = js.graphs.prepare(given, labels, classes=range(3), inference="reweighted")
    model, (x, y) = problem.model, padded(problem.padding, data[0], Truth(*data[1]))
    complete = jax.vmap(lambda w, x, known: model.complete(model.potentials(w, x), known))
    w = weights(problem, np.random.default_rng(0), len(labels))
    for own, h in zip(labels, np.asarray(jax.jit(complete)(w, x, y.numbers)), strict=True):
        assert tables(own)[np.arange(4), h[:4]].all()


def test_what_does_not_fit_is_refused() -> None:
    given, known = graphs(0, 8)
    data = js.graphs.prepare(given, known)
    assert isinstance(data.outputs, Incomplete)
    refused("outputs are Incomplete", js.fit, *data)
    refused(
        "no Model.restrict", js.estimators.GraphLabeller(objective="log_loss").fit, given, known
    )
    zero_one, x, y = js.graphs.prepare(given, known, loss="zero_one")
    refused("add up", zero_one.check, *padded(zero_one.padding, x, Truth(*y)))
    problem, x, (y, may) = js.graphs.prepare(given, known)
    none = padded(problem.padding, x, Truth(y, js.Ragged(may.rows & False, may.offsets)))
    refused(r"outputs\[0\] does not agree with what is known", problem.check, *none)


NAMES = "abc"
KNOWN_SETS: list[Any] = [
    {"a": True, "b": False}, None, {"a", "c"}, {"c": None, "b": True}, {}, {"a": 1, "b": 0, "c": 1},
    set(),
]  # fmt: skip
"""The last but two is a mapping that names nothing."""
VALUES = [[1, 0, None], [None] * 3, [1, 0, 1], [None, 1, None], [None] * 3, [1, 0, 1], [0, 0, 0]]
X = np.random.default_rng(0).normal(size=(len(KNOWN_SETS), 2))
SETS = np.array([*itertools.product(range(2), repeat=3)])


def sets_of(loss: str):
    """All sets, which agree with `KNOWN_SETS`, and Delta of each; see `tests.lib.incomplete`."""

    def of(i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        wrong = np.array([[value not in (None, y) for value, y in zip(VALUES[i], own, strict=True)]
                          for own in SETS.tolist()])  # fmt: skip
        ones, zeros = VALUES[i].count(1), VALUES[i].count(0)
        if loss == "ranking":
            each = [0.5 / {1: ones, 0: zeros, None: 1}[value] for value in VALUES[i]]
            delta = wrong @ each if ones and zeros else np.zeros(len(SETS))
        else:
            delta = wrong.sum(axis=1) / (3 if loss == "normalised_hamming" else 1)
        return SETS, ~wrong.any(axis=1), delta

    return of


@pytest.mark.parametrize(
    ("loss", "pairs", "dtype"),
    [("hamming", True, "float32"), ("normalised_hamming", False, "float64"),
     ("ranking", True, "float64")],
)  # fmt: skip
def test_sets_that_agree_are_found_and_cost_nothing(loss: str, pairs: bool, dtype: str) -> None:
    data = js.graphs.prepare_sets(X, KNOWN_SETS, classes=NAMES, loss=loss, pairs=pairs, dtype=dtype)
    assert isinstance(data.outputs, Incomplete)
    check_completions(data, sets_of(loss), log_loss=loss != "ranking")  # which reads no loss


def test_sets_that_do_not_fit_are_refused() -> None:
    for rows, words in (
        ([{"a": 2}, *KNOWN_SETS[1:]], r"labels\[0\]\[0\]: 2 is none of the 2 known classes"),
        ([{"q": True}, *KNOWN_SETS[1:]], r"labels\[0\]\[0\]: 'q' is none of the 3"),
        ([{"a": np.nan}, *KNOWN_SETS[1:]], "a missing label"),
    ):
        refused(words, js.graphs.prepare_sets, X, rows, classes=NAMES)
    f1, x, known = js.graphs.prepare_sets(X, KNOWN_SETS, classes=NAMES, loss="f1")
    refused("does not add up over labels", f1.check, *padded(f1.padding, x, Truth(*known)))
    relaxed = js.graphs.prepare_sets(X, KNOWN_SETS, classes=NAMES, inference="relaxed")
    refused("does not say what agrees", js.fit_latent, *relaxed)
    y = [[1, 0, None], [0, 5, 1]]
    refused(r"labels\[1\]\[1\]: 5", js.estimators.MultiLabelClassifier().fit, X[:2], y)
