"""The machines of chapter 2 on one task: what each needs to train, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.corpora.splits import per_class_subsample
from experiments.lib.peers import sparse_matrix
from experiments.lib.record import Elapsed, Stopwatch
from experiments.machines.binary import decision_values
from experiments.machines.output_codes import (
    all_pairs_code,
    decode_code,
    decode_largest,
    fit_output_code,
    one_against_all_code,
    random_code,
)
from experiments.machines.weston_watkins import fit_weston_watkins
from experiments.tasks.documents import clinc150
from jaxstruct import fit, predict, take
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.data.digits import load_digits_split
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


MACHINES = ("one_against_all", "all_pairs", "random_code", "weston_watkins", "crammer_singer")
WORDS = {
    "one_against_all": "one against all", "all_pairs": "all pairs", "random_code": "random code",
    "weston_watkins": "Weston-Watkins", "crammer_singer": "Crammer-Singer",
}  # fmt: skip
PENALTIES = {"L1": "svm1", "L2": "svm2"}


class Run(NamedTuple):
    """How the machines are trained; see the flags."""

    c: float
    tolerance: float
    dtype: str
    seed: int


class Trained(NamedTuple):
    """One machine.

    Fields:
      machine, penalty: which. machines: how many hyperplanes it has.
      status, objective, gap: of the training; objective and gap are sums over binary machines, the
        gap in parts of the objective.
      support: multipliers that are not 0.
      guesses: name of the decoder -> [N] classes of the test inputs; the first is its usual one.
      first, second: seconds of two trainings, the first with compiling.
    """

    machine: str
    penalty: str
    machines: int
    status: str
    objective: float
    gap: float
    support: int
    guesses: Mapping[str, np.ndarray]
    first: Elapsed
    second: Elapsed


def code_length(k: int) -> int:
    """Machines of the random code: 4 log2 of the classes, rounded up."""
    return 4 * math.ceil(math.log2(k))


def code_of(machine: str, data: Data, run: Run) -> np.ndarray:
    """The code matrix of a machine that is made of binary ones."""
    k = data.number_of_classes
    if machine == "one_against_all":
        return one_against_all_code(k)
    if machine == "all_pairs":
        return all_pairs_code(k)
    return random_code(k, code_length(k), run.seed)


def trained(machine: str, penalty: str, data: Data, run: Run, twice: bool) -> Trained:
    """Train one machine, a second time for the clock where `twice`, and let it guess.

    Every slack costs C' = `run.c`: C is C' n, of Weston and Watkins C' n (k - 1).
    """
    make = {"weston_watkins": _weston_watkins, "crammer_singer": _crammer_singer}.get(machine)
    train, describe = make(penalty, data, run) if make else _binary(machine, penalty, data, run)
    seconds = []
    for _ in range(1 + twice):
        watch = Stopwatch()
        found = train()
        seconds.append(watch.elapsed())
    machines, status, objective, gap, support, guesses = describe(found)
    return Trained(
        machine, penalty, machines, status, objective, gap, support, guesses,
        seconds[0], seconds[-1],
    )  # fmt: skip


def _binary(machine: str, penalty: str, data: Data, run: Run) -> tuple[Callable, Callable]:
    code, n = code_of(machine, data, run), len(data.labels)
    width = None if data.kernel else data.number_of_features

    def train() -> Any:
        return fit_output_code(
            data.inputs, data.labels, code, PENALTIES[penalty], run.c * n,
            number_of_features=width, tolerance=run.tolerance, dtype=run.dtype,
        )  # fmt: skip

    def describe(found: Any) -> tuple:
        values = decision_values(found, data.test)
        guesses = dict(_decoded(machine, code, values))
        return (
            code.shape[1], found.status.name, float(found.primal.sum()),
            float(found.gap.sum() / found.primal.sum()), int(np.sum(found.alpha > 0)), guesses,
        )  # fmt: skip

    return train, describe


def _decoded(
    machine: str, code: np.ndarray, values: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    if machine == "one_against_all":
        yield "largest", decode_largest(values)
        return
    for rule in ("hamming", "hinge", "linear"):
        yield rule, decode_code(code, values, rule, "margins")


def _weston_watkins(penalty: str, data: Data, run: Run) -> tuple[Callable, Callable]:
    problem, n, k = data.problem(run.dtype), len(data.labels), data.number_of_classes

    def train() -> Any:
        return fit_weston_watkins(
            problem, data.inputs, data.labels, PENALTIES[penalty], run.c * n * (k - 1),
            tolerance=run.tolerance, max_passes=2000, seed=run.seed,
        )  # fmt: skip

    def describe(found: Any) -> tuple:
        guess = np.asarray(predict(problem, found.weights, data.test))
        support = int(np.sum(found.alpha > 0))
        return k, found.status.name, found.primal, found.gap / found.primal, support, {"": guess}

    return train, describe


def _crammer_singer(penalty: str, data: Data, run: Run) -> tuple[Callable, Callable]:
    problem, n = data.problem(run.dtype), len(data.labels)

    def train() -> Any:
        return fit(
            problem, data.inputs, data.labels, PENALTIES[penalty], run.c * n,
            tolerance=run.tolerance,
        )  # fmt: skip

    def describe(found: Any) -> tuple:
        guess = np.asarray(predict(problem, found.weights, data.test))
        support = found.statistics.support_planes
        return (
            data.number_of_classes, found.status.name, found.primal, found.gap / found.primal,
            support, {"": guess},
        )  # fmt: skip

    return train, describe
