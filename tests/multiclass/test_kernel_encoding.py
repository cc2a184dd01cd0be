"""Kernel machines from people's own data: the machine on the Gram matrix, model files, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from jax.tree_util import Partial
from scipy import sparse

import jaxstruct as js
from tests.lib.refusals import refused

K = js.kernels
random = np.random.default_rng(3)
DENSE = random.normal(size=(30, 3)).astype(np.float32)
CLASSES = [["in", "out"][int(row @ row > 2)] for row in DENSE]
WORDS = ["abba", "baab", "aabb", "cddc", "dccd", "ccdd"]
NAMED = [{"x": float(a), "y": float(b)} for a, b in DENSE[:, :2]]
CASES = {
    "dense": (K.gaussian(1.0), DENSE, CLASSES),
    "named": (K.polynomial(2), NAMED, CLASSES),
    "sparse": (K.normalised(K.polynomial(2, 0.5)), sparse.csr_matrix(DENSE), CLASSES),
    "texts": (K.spectrum(2), WORDS, [*"aaabbb"]),
    "sums": (K.weighted_sum([K.linear(), K.gaussian(2.0)], [0.5, 2]), DENSE, CLASSES),
    "windows": (K.convolution(K.windows(2), [K.equality()] * 2), WORDS, [*"aaabbb"]),
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
    own = data.encoding.decode(js.predict(data.problem, solution, data.inputs))
    assert found == own and np.mean(np.array(found) == labels) > 0.8
    shown = str(js.explain(model))
    assert ("abba" if things is WORDS else "training input ") in shown
    if things is DENSE:
        loaded = K.gram_matrix(model.encoding.anchors.kernel, DENSE[:4])
        np.testing.assert_array_equal(loaded, K.gram_matrix(kernel, DENSE[:4]))


def test_what_does_not_fit_is_refused(tmp_path) -> None:
    prepare = js.multiclass.prepare_kernel
    refused("kernel must be a Partial", prepare, np.dot, DENSE, CLASSES)
    refused("labels must be n = 30, one a thing, got 2", prepare, K.linear(), DENSE, ["a", "b"])
    refused("at least two classes", prepare, K.linear(), DENSE, ["a"] * 30)
    refused("options .*unexpected keyword", prepare, K.linear(), DENSE, CLASSES, los=1)
    data = prepare(K.spectrum(2), WORDS, [*"aaabbb"])
    refused("'z'", data.encoding.inputs, ["abz"])
    own = prepare(Partial(lambda x, z: x @ z), DENSE, CLASSES)
    model = js.trained(own, own.problem.initial_weights)
    refused("the kernel calls <lambda>, no function of jaxstruct.kernels", js.save, model, "m")
