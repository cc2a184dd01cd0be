"""Candidates with features: the four methods by name and by place, refusals."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxstruct as js
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
    assert encoding.inputs(lists).numbers.rows.tolist() == [0, 1, 0, 1, 2]
    assert encoding.decode(encoding.outputs([1, 2]), lists) == [1, 2]


K = js.kernels
LONG = ["abab", "baba", "ccdd", "ddcc", "abba", "dccd"]
SHORT = ["ab", "ba", "cd", "dc", "ab", "cd"]
PAIRS = [
    (word, ["cd", "ab", "ba", "dc"] if n % 2 else ["ab", "dc", "cd", "ba"])
    for n, word in enumerate(LONG)
]
ROWS = [([float(n), 1.0], own) for n, (_, own) in enumerate(PAIRS)]


@pytest.mark.thorough
@pytest.mark.parametrize("pairs, kernel", [(PAIRS, K.spectrum(2)), (ROWS, K.gaussian(1.0))])
def test_it_is_the_machine_on_the_gram_matrices_and_comes_back_from_a_file(
    pairs, kernel, tmp_path
) -> None:
    data = js.strings.prepare_kernel(kernel, K.spectrum(1), pairs, SHORT, loss="similarity")
    solution = js.fit(*data, C=100.0)
    L = np.asarray(data.encoding.table.gram())
    problem = js.strings.kernel_candidates(len(LONG), L, loss=js.strings.similarity_loss(L))
    bare = js.fit(problem, data.inputs, data.outputs, C=100.0)
    jax.tree.map(np.testing.assert_array_equal, bare.weights, solution.weights)
    model = js.trained(data, solution)
    loaded = js.load(js.save(model, tmp_path / "kernel.model"))
    jax.tree.map(np.testing.assert_array_equal, dict(loaded.weights), dict(model.weights))
    assert (
        loaded.predict(pairs)
        == model.predict(pairs)
        == data.encoding.decode(js.predict(data.problem, solution, data.inputs))
    )
    jax.tree.map(np.testing.assert_array_equal, loaded.on(pairs)[2], model.on(pairs)[2])
    assert "ab" in str(js.explain(loaded))


def test_outputs_of_inputs_to_come_and_what_does_not_fit() -> None:
    prepare = js.strings.prepare_kernel
    kernels = K.spectrum(2), K.spectrum(1)
    data = prepare(*kernels, PAIRS, SHORT, more=["ad"])
    assert data.encoding.table.names == ("ab", "dc", "cd", "ba", "ad")
    assert data.encoding.inputs([("abab", ["ad", "ab"])]).numbers.tolist() == [[4, 0]]
    refused(r"pairs\[0\]\[1\] has 'da' .*more=", data.encoding.inputs, [("abab", ["da"])])
    refused("right has 'da'", data.encoding.outputs, ["da"])
    refused(r"got pairs\[1\] = 'abab'", prepare, *kernels, [PAIRS[0], "abab"], SHORT[:2])
    refused(r"got pairs\[0\] = \('abab', 'ab'\)", prepare, *kernels, [("abab", "ab")], SHORT[:1])
    refused("right must be of n = 6 pairs, got 1", prepare, *kernels, PAIRS, SHORT[:1])
    refused("outputs must be texts, got 3", prepare, *kernels, [("abab", [3])], ["ab"])
    refused("kernel must be a Partial", prepare, np.dot, K.spectrum(1), PAIRS, SHORT)


def test_what_does_not_fit_is_refused() -> None:
    refused(r"right\[1\] must be a cand", ENCODING.outputs, ["good", "q"], LISTS)
    refused(r"right\[0\] must be a position >= 0 in its", ENCODING.outputs, RIGHT)
    refused("right must be of n = 2 lists, got 1", ENCODING.outputs, ["good"], LISTS)
    refused(r"numbers\[0\] has no candidate", ENCODING.inputs, [{}, LISTS[1]])
    refused("lists must be n lists of candidates", prepare, "ab", "ab")
