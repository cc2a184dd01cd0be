"""Sequences from people's own data: the four methods, order, empty sequences, refusals."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct import fit
from jaxstruct.chains import prepare, prepare_kernel
from jaxstruct.chains.structure import Constraints, chain, chain_inputs
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.types import SparseFeatures
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


@pytest.mark.thorough
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


def test_labels_that_do_not_fit_are_refused() -> None:
    for labels, message in (
        (LABELS[:3], r"labels must be of n = 4 sequences, got 3"),
        ([*LABELS[:2], ["B", "A"], LABELS[3]], r"labels\[2\] has 2 entries, but sequences\[2\] ha"),
        ([["A"] * 3, [], ["A"], ["A"] * 7], "at least two labels"),
        ([["A", "B", np.nan], [], ["B"], ["A"] * 7], r"labels\[0\]\[2\]: got nan, a missing label"),
        ([*LABELS[:3], 3], r"labels\[3\] must be a list of labels .*, got 3"),
        ("abc", "labels must be a list of n lists of labels"),
    ):
        refused(message, prepare, SEQUENCES, labels)
    encoding = prepare(SEQUENCES, LABELS).encoding
    refused("outputs must be a Ragged .see predict., got list", encoding.decode, [[0, 1]])
    unseen = [["A", "B"], [], ["C"]]
    refused(r"labels\[2\]\[0\]: 'C' is none of the 2 known", encoding.outputs, unseen)
    with pytest.warns(UnseenFeatures, match="sequences names feature 'new'"):
        encoding.inputs([[["f0", "new"]]])
    assert prepare(SEQUENCES, LABELS, classes=["B", "A", "C"]).encoding.outputs([["C"]]).rows == [2]


N, T, D, S = 4, 3, 5, 2
RANDOM = np.random.default_rng(0)
TOKENS = RANDOM.normal(size=(N, T, D)).astype(np.float32)
LENGTH = np.array([3, 2, 3, 1])
TOKENS[np.arange(T) >= LENGTH[:, None]] = 0
Y = np.where(np.arange(T) < LENGTH[:, None], 1, -1)


def sparse(tokens):
    indices = np.broadcast_to(np.arange(D, dtype=np.int32), tokens.shape)
    return SparseFeatures(np.where(tokens != 0, indices, D).astype(np.int32), tokens)


def changed(gram, *place):
    gram = np.array(gram)
    gram[place] += 0.5
    return gram


@pytest.mark.parametrize("kind", [lambda tokens: tokens, sparse])
def test_gram_matrices_of_other_tokens(kind):
    problem, x = chain(D, S), chain_inputs(kind(TOKENS), LENGTH)
    gram = x.gram
    for wrong in (gram[::-1], 4 * gram, changed(gram, 2, 1, 1)):
        other = x._replace(gram=wrong)
        refused(r"inputs.gram\[\d, \d, \d\] is .* leave gram out", fit, problem, other, Y)
    # equal norms on the diagonal, other products beside it: row i % length of each is compared
    refused(r"inputs.gram\[2, 2, 0\] is", fit, problem, x._replace(gram=changed(gram, 2, 2, 0)), Y)
    problem.check(x._replace(gram=changed(gram, 1, 2, 2)), Y)  # padding is never read


def test_options_that_do_not_fit():
    for options, match in (
        ({"eta": -1.0}, "eta must be finite and >= 0, got -1.0"),
        ({"order": 3}, "order must be 1 or 2"),
        ({"start_stop": "no"}, "start_stop must be True or False, got 'no'"),
        ({"dtype": "int32"}, 'dtype must be "float32" or "float64", got .int32.'),
        ({"loss": "hamming loss"}, "loss is 'hamming loss'; choose one of"),
        ({"loss": lambda level, length: jnp.eye(3)}, "loss must be a function .*matrix"),
        ({"loss": lambda level: level}, "loss must be a function .* it raised TypeError"),
        ({"loss": lambda level, length: 1.0 if level > 0 else 0.0}, "loss must be .*jnp.where"),
        ({"loss": [[0, 1], [1]]}, r"loss must be \[S = 3, S = 3\] numbers, .* give a name"),
        ({"loss": np.ones((3, 3))}, r"loss\[0, 0\] is 1.0: expected 0 on the diagonal"),
        ({"constraints": np.zeros((3, 3), bool)}, "constraints must be a Constraints .see"),
        ({"constraints": Constraints(*np.zeros((3, 3, 3)))}, "constraints.transitions must be"),
    ):
        refused(match, chain, 3, 3, **options)
    refused("number_of_features must be at least 1, got 0", chain, 0, 3)
    refused("number_of_features must be .* got ndarray float32 of shape", chain, TOKENS, 3)
    refused("number_of_labels must be at least 2, got 1", chain, 3, 1)


def test_inputs_that_do_not_fit():
    for arguments, match in (
        ((LENGTH, TOKENS), r"features must be .* of shape \(4,\): chain_inputs\(feat"),
        ((TOKENS[0], LENGTH), r"features must be \[n, T, d\], got .* of shape \(3, 5\)"),
        (([[[1.0]], [[1.0], [2.0]]], [1, 2]), "features must be"),
        ((TOKENS, LENGTH + 2**32), r"length\[0\] is 4294967299: expected 0..3"),
        ((TOKENS, None), "length must be"),
        ((TOKENS, LENGTH, np.ones((N, T))), "gram must be .n = 4, T = 3, T = 3., got"),
    ):
        refused(match, chain_inputs, *arguments)
    x, problem = chain_inputs(TOKENS, LENGTH), chain(D, S)
    long = x._replace(length=LENGTH + 2**32)  # also where the record was made by hand
    refused(r"inputs.length\[0\] is 4294967299", fit, problem, long, Y)
