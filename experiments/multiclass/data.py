"""The examples of `experiments.multiclass`: digits by their pixels or a kernel, and CLINC150."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.lib.peers import sparse_matrix
from experiments.taxonomy.documents import clinc150
from jaxstruct import take
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.data.digits import load_digits_split
from jaxstruct.data.splits import per_class_subsample
from jaxstruct.kernels import gaussian, gram_matrix
from jaxstruct.multiclass import kernel_inputs, kernel_multiclass, multiclass

NAMES = ("digits", "digits_gaussian", "clinc150")


class Data(NamedTuple):
    """A task.

    Fields:
      title: what it is. kernel: whether inputs are kernel values.
      inputs, test: as the library reads them. x, x_test: the same for scikit-learn, a matrix.
      labels, test_labels: [n], [N] classes 0..k-1.
      number_of_features, number_of_classes: d (n of a kernel matrix) and k.
    """

    title: str
    kernel: bool
    inputs: PyTree
    test: PyTree
    x: Any
    x_test: Any
    labels: np.ndarray
    test_labels: np.ndarray
    number_of_features: int
    number_of_classes: int

    def problem(self, dtype: str) -> Problem:
        """The structural problem of these inputs."""
        make = kernel_multiclass if self.kernel else multiclass
        return make(self.number_of_features, self.number_of_classes, dtype=dtype)


def load(name: str, per_class: int, seed: int) -> Data:
    """A task by its name, with so many training examples a class (0: all).

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    return _queries(per_class, seed) if name == "clinc150" else _digits(name, per_class, seed)


def _digits(name: str, per_class: int, seed: int) -> Data:
    split = load_digits_split(seed)
    some = _some(split.train_y, per_class, seed)
    x, y, new, truth = split.train_x[some], split.train_y[some], split.test_x, split.test_y
    if name == "digits":
        return Data("digits, 64 grey levels", False, x, new, x, new, y, truth, 64, 10)
    distances = np.sum((x[:200, None, :] - x[None, :200, :]) ** 2, axis=2)
    width = float(np.sqrt(np.median(distances[distances > 0])))
    kernel = gaussian(width)
    gram, rows = (gram_matrix(kernel, each, x) for each in (x, new))
    ones = jnp.ones(len(new), gram.dtype)
    return Data(
        f"digits, Gaussian kernel, sigma {width:.2f}", True, kernel_inputs(gram),
        kernel_inputs(rows, self_kernel=ones), np.asarray(gram), np.asarray(rows), y, truth,
        len(y), 10,
    )  # fmt: skip


def _queries(per_class: int, seed: int) -> Data:
    data = clinc150()
    assert data.test is not None, "CLINC150 has a test part"
    train = data.train[_some(data.labels[data.train], per_class, seed)]
    inputs, test = take(data.inputs, train), take(data.inputs, data.test)
    x, x_test = (sparse_matrix(part, data.number_of_features) for part in (inputs, test))
    return Data(
        "CLINC150, tf-idf of queries", False, inputs, test, x, x_test, data.labels[train],
        data.labels[data.test], data.number_of_features, len(data.taxonomy.classes),
    )  # fmt: skip


def _some(labels: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    everything = np.arange(len(labels))
    return per_class_subsample(labels, per_class, seed) if per_class else everything
