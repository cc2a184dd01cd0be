"""Sequences from people's own data: the four methods, order, empty sequences, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import jaxstruct as js
from jaxstruct.chains import prepare, prepare_kernel
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.solvers.predict import predict
from tests.lib.refusals import refused

SEQUENCES = [[["f0"], ["f1"], ["f1", "f0"]], [], [["f1"]], [["f0"]] * 7]
LABELS = [["A", "B", "B"], [], ["B"], ["A"] * 7]


def _weights(encoding) -> dict[str, np.ndarray]:
    """Feature j votes for label j, the later one louder."""
    problem = encoding.problem()
    w = {name: np.zeros(leaf.shape, np.float32) for name, leaf in problem.initial_weights.items()}
    w["emissions"][[0, 1], [0, 1]] = 1, 2
    return w


def test_predictions_come_in_the_callers_labels_and_order() -> None:
    encoding = prepare(SEQUENCES, LABELS).encoding
    assert encoding.features.names == ("f0", "f1")
    problem = encoding.problem()
    found = encoding.decode(predict(problem, _weights(encoding), encoding.inputs(SEQUENCES)))
    assert found == LABELS
    assert encoding.decode(encoding.outputs(LABELS)) == LABELS
    nothing = encoding.decode(predict(problem, _weights(encoding), encoding.inputs([[], []])))
    assert nothing == [[], []]


def test_names_too_rare_to_count_are_dropped_in_silence(recwarn) -> None:
    data = prepare([[["often", "once"], ["often"]]], [["A", "B"]], min_count=2)
    assert data.encoding.features.names == ("often",) and not recwarn


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, lambda rows: rows.tolist()])
def test_arrays_matrices_and_lists_of_numbers(kind) -> None:
    sequences = [kind(np.eye(3)), kind(np.ones((1, 3)))]
    encoding = prepare(sequences, [[*"aba"], ["b"]], constant=1).encoding
    x = encoding.inputs(sequences)
    assert x.length.tolist() == [3, 1] and encoding.features.number_of_features == 4
    assert encoding.outputs([[*"aba"], ["b"]]).rows.tolist() == [0, 1, 0, 1]
    assert encoding.inputs([[], []]).length.tolist() == [0, 0]


def test_options_are_those_of_chain() -> None:
    problem = prepare(SEQUENCES, LABELS).encoding.problem(start_stop=True, window=1)
    assert (
        problem.initial_weights["emissions"].shape == (6, 2) and "start" in problem.initial_weights
    )


@pytest.mark.parametrize(
    "labels, message",
    [
        (LABELS[:3], r"labels must be of n = 4 sequences, got 3"),
        (
            [*LABELS[:2], ["B", "A"], LABELS[3]],
            r"labels\[2\] has 2 entries, but sequences\[2\] has 1",
        ),
        ([["A"] * 3, [], ["A"], ["A"] * 7], "at least two labels"),
        ([["A", "B", np.nan], [], ["B"], ["A"] * 7], r"labels\[0\]\[2\]: got nan, a missing label"),
        ([*LABELS[:3], 3], r"labels\[3\] must be a list of labels .*, got 3"),
        ("abc", "labels must be a list of n lists of labels"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message: str) -> None:
    refused(message, prepare, SEQUENCES, labels)


def test_outputs_are_those_of_predict() -> None:
    with refused("outputs must be a Ragged .see predict., got list"):
        prepare(SEQUENCES, LABELS).encoding.decode([[0, 1]])


def test_an_unseen_label_is_named_with_sequence_and_token() -> None:
    encoding = prepare(SEQUENCES, LABELS).encoding
    with refused(r"labels\[2\]\[0\]: 'C' is none of the 2 known classes"):
        encoding.outputs([["A", "B"], [], ["C"]])
    with pytest.warns(UnseenFeatures, match="sequences names feature 'new'"):
        encoding.inputs([[["f0", "new"]]])
    assert prepare(SEQUENCES, LABELS, classes=["B", "A", "C"]).encoding.outputs([["C"]]).rows == [2]


def test_a_kernel_of_tokens_trains_and_comes_back_from_a_file(tmp_path) -> None:
    """A polynomial one reads products of features."""
    random = np.random.default_rng(0)
    tokens = [random.normal(size=(n, 2)).astype(np.float32) for n in (3, 5, 4, 2, 6)]
    labels = [["odd" if a * b < 0 else "even" for a, b in one] for one in tokens]
    data = prepare_kernel(js.kernels.polynomial(2), tokens, labels, start_stop=True)
    solution = js.fit(*data, C=20.0)
    model = js.load(js.save(js.trained(data, solution), tmp_path / "chain.model"))
    assert model.predict(tokens) == labels and solution.status.solved
    assert "training input " in str(js.explain(model))
    assert model.predict(tokens[:1]) == labels[:1]
    refused("labels must name at least two", prepare_kernel, js.kernels.linear(), tokens, [
        ["odd"] * len(one) for one in tokens
    ])  # fmt: skip
