"""Classes from people's own data: the four methods, order, labels, refusals."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy import sparse

import jaxstruct as js
from jaxstruct.core.contract import Incomplete
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.multiclass import prepare
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.predict import predict
from tests.lib.incomplete import check_training
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


def test_what_does_not_fit_is_refused() -> None:
    refused("labels must be n = 2, one a row, got 1", prepare, np.eye(2), ["a"])
    refused(r"labels must name at least two classes, got \('a',\)", prepare, np.eye(2), ["a", "a"])
    refused(r"labels\[1\]: got nan, a missing label", prepare, np.eye(2), ["a", np.nan])
    refused("labels must be a list of n = 2 labels", prepare, np.eye(2), "ab")
    refused("los", prepare(np.eye(3), [*"bab"]).encoding.problem, los=1, error=TypeError)


def test_an_unseen_label_is_named_and_an_unseen_feature_counted() -> None:
    encoding = prepare([["x"], ["y"]], ["north", "south"]).encoding
    with refused(r"labels\[1\]: 'nort' is none of the 2 .*close names: 'no"):
        encoding.outputs(["south", "nort"])
    with pytest.warns(UnseenFeatures, match="rows names feature 'z'"):
        encoding.inputs([["x", "z"]])


K = js.kernels
random = np.random.default_rng(3)
DENSE = random.normal(size=(30, 3)).astype(np.float32)
CLASSES = [["in", "out"][int(row @ row > 2)] for row in DENSE]
WORDS = ["abba", "baab", "aabb", "cddc", "dccd", "ccdd"] * 5
NAMED = [{"x": float(a), "y": float(b)} for a, b in DENSE[:, :2]]
CASES = {
    "dense": (K.gaussian(1.0), DENSE, CLASSES),
    "named": (K.polynomial(2), NAMED, CLASSES),
    "sparse": (K.normalised(K.polynomial(2, 0.5)), sparse.csr_matrix(DENSE), CLASSES),
    "texts": (K.spectrum(2), WORDS, [*"aaabbb"] * 5),
    "sums": (K.weighted_sum([K.linear(), K.gaussian(2.0)], [0.5, 2]), DENSE, CLASSES),
    "windows": (K.convolution(K.windows(2), [K.equality()] * 2), WORDS, [*"aaabbb"] * 5),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_machine_on_the_gram_matrix_and_comes_back_from_a_file(name, tmp_path) -> None:
    kernel, things, labels = CASES[name]
    data = js.multiclass.prepare_kernel(kernel, things, labels)
    solution = js.fit(*data, C=30.0)
    gram = data.inputs[0]
    problem = js.multiclass.kernel_multiclass(len(labels), 2)
    y = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    bare = js.fit(problem, js.multiclass.kernel_inputs(gram), y, C=30.0)
    assert bare.primal >= solution.dual and solution.primal >= bare.dual
    model = js.load(js.save(js.trained(data, solution), tmp_path / "kernel.model"))
    found = model.predict(things)
    new = data.encoding.inputs(things[-3:])  # as `js.fit` has them, but for their place
    np.testing.assert_allclose(new.row, gram[-3:], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(new.self_kernel, np.diagonal(gram)[-3:], rtol=1e-5)
    own = data.encoding.decode(js.predict(data.problem, solution, data.inputs))
    assert found == own and np.mean(np.array(found) == labels) > 0.8
    shown = str(js.explain(model))
    assert ("abba" if things is WORDS else "training input ") in shown
    if things is DENSE:
        loaded = K.gram_matrix(model.encoding.anchors.kernel, DENSE)
        np.testing.assert_array_equal(loaded, K.gram_matrix(kernel, DENSE))


def test_kernel_machines_refuse_what_does_not_fit(tmp_path) -> None:
    prepare = js.multiclass.prepare_kernel
    refused("kernel must be a Partial", prepare, np.dot, DENSE, CLASSES)
    refused("labels must be n = 30, one a thing, got 2", prepare, K.linear(), DENSE, ["a", "b"])
    refused("at least two classes", prepare, K.linear(), DENSE, ["a"] * 30)
    refused("options .*unexpected keyword", prepare, K.linear(), DENSE, CLASSES, los=1)
    data = prepare(K.spectrum(2), WORDS, [*"aaabbb"] * 5)
    refused("'z'", data.encoding.inputs, ["abz"])
    own = prepare(Partial(lambda x, z: x @ z), DENSE, CLASSES)
    model = js.trained(own, own.problem.initial_weights)
    refused("the kernel calls <lambda>, no function of jaxstruct.kernels", js.save, model, "m")


COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
POSSIBLE = [0, {0, 1}, None, 2, {1, 2}, 1, {0}]


def agrees(i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All classes, which are possible, and what each costs beside the cheapest possible one."""
    label = POSSIBLE[i]
    may = {0, 1, 2} if label is None else label if type(label) is set else {label}
    return np.arange(3), np.isin(range(3), sorted(may)), COSTS[sorted(may)].min(axis=0)


def test_the_objective_is_as_defined(x64) -> None:
    X = np.random.default_rng(0).normal(size=(len(POSSIBLE), 2))
    data = js.multiclass.prepare(X, POSSIBLE, constant=0, loss=COSTS, dtype="float64")
    found = check_training(data, agrees, 3.0, tolerance=1e-6)
    assert found.dual > 0, "three points have one class alone"
    assert all(may[y] for may, y in zip(data.outputs.known, found.details.completions, strict=True))
    assert js.fit_latent(*data, C=3.0, restarts=3).primal <= found.primal * (1 + 1e-3)


def test_labels_are_read_and_what_does_not_fit_is_refused(x64) -> None:
    X = np.eye(len(POSSIBLE))
    data = js.multiclass.prepare(X, POSSIBLE)
    assert isinstance(data.outputs, Incomplete)
    np.testing.assert_array_equal(data.outputs.known.sum(axis=1), [1, 2, 3, 1, 2, 1, 1])
    refused(
        r"labels\[1\] is an empty set", js.multiclass.prepare, X[:2], [0, set()], classes=[0, 1]
    )
    nothing = Incomplete(np.zeros(7, int), np.zeros((7, 3), bool))
    refused("is none of its possible classes", js.fit_latent, *data[:2], nothing)
    other = Incomplete(np.zeros(7, int), np.ones((7, 2), bool))
    refused("outputs.numbers|broadcast|incompatible", js.fit_latent, *data[:2], other)


def test_the_difference_of_log_z_and_the_score_keeps_its_digits() -> None:
    """Scores of 1e5, where float32 knows steps of 0.008: log Z - F would be off by so much."""
    theta = jnp.asarray([1e5 + 0.5, 1e5], jnp.float32)
    found = multiclass(2, 2).inference.log_loss(theta, jnp.int32(1))
    np.testing.assert_allclose(found, np.log1p(np.exp(0.5)), rtol=1e-6)
