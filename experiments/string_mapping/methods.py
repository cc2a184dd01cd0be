"""The rows of table 4.5: each method maps test inputs to outputs that training has seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct import Problem, Settings, Solution, Status, fit, predict
from jaxstruct.baselines import (
    choose_kernel_dependency,
    choose_neighbours,
    fit_cokriging,
    fit_kernel_dependency,
    most_frequent_output,
    nearest_outputs,
    predict_kernel_dependency,
)
from jaxstruct.core.sizes import size_class
from jaxstruct.kernels import encode_strings, gram_matrix, normalised, radial_values, subsequences
from jaxstruct.strings import KernelCandidates, kernel_candidates

ALPHABET = "abcd"
TARGETS = ("abad", "abbd", "aabc")
"""The output of each class before noise."""
SHORTEST, LONGEST = 10, 15
ONE, TWO = 0.3, 0.15
"""Probabilities of one change and of two."""
NOISES = ("deletions", "insertions")


class Pairs(NamedTuple):
    """n inputs, their outputs and the classes that made them."""

    inputs: list[str]
    outputs: list[str]
    classes: np.ndarray


def transitions(kind: int) -> np.ndarray:
    """[4, 4] the Markov model of a class: uniform; .7 to itself; c and d alone, .7 to itself."""
    if kind == 0:
        return np.full((4, 4), 0.25)
    if kind == 1:
        return np.full((4, 4), 0.1) + 0.6 * np.eye(4)
    of_two = np.full((2, 2), 0.3) + 0.4 * np.eye(2)
    return np.kron(np.diag([0.0, 1.0]), of_two)


def draw_input(rng: np.random.Generator, kind: int) -> str:
    """A string of 10 to 15 letters; every letter of its class may be the first."""
    table = transitions(kind)
    letters = [rng.choice(np.flatnonzero(table.sum(axis=1)))]
    for _ in range(rng.integers(SHORTEST, LONGEST + 1) - 1):
        letters.append(rng.choice(4, p=table[letters[-1]]))
    return "".join(ALPHABET[letter] for letter in letters)


def draw_output(rng: np.random.Generator, kind: int, noise: str = "deletions") -> str:
    """The class's output after noise: one change with .3, two with .15, in each of two turns.

    Args:
      noise: what the first turn's two changes are: "deletions", as the thesis prints it, or
        "insertions", as Weston et al. have it. The second turn deletes.
    """
    letters = list(TARGETS[kind])
    count = int(rng.choice(3, p=[1 - ONE - TWO, ONE, TWO]))
    if count == 2 and noise == "deletions":
        _delete(rng, letters, 2)
    else:
        for _ in range(count):
            letters.insert(rng.integers(len(letters) + 1), ALPHABET[rng.integers(4)])
    _delete(rng, letters, int(rng.choice(3, p=[1 - ONE - TWO, ONE, TWO])))
    return "".join(letters)


def _delete(rng: np.random.Generator, letters: list[str], count: int) -> None:
    for _ in range(min(count, len(letters))):
        letters.pop(rng.integers(len(letters)))


def draw_pairs(n: int, seed: int, noise: str = "deletions") -> Pairs:
    """n pairs, every class equally likely."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(3, size=n)
    inputs = [draw_input(rng, kind) for kind in classes]
    return Pairs(inputs, [draw_output(rng, kind, noise) for kind in classes], classes)


MACHINES = {"SVM2": "svm2", "SVM2 Δs": "svm2_slack", "SVM2 Δm": "svm2_margin"}
PROCESSES = {"KDE by evidence": False, "cokriging": True}
"""Gaussian processes -> whether each component of the outputs has noise of its own."""
METHODS = ("baseline", "k-NN", "KDE", *PROCESSES, *MACHINES)
NEIGHBOURS = (1, 2, 3, 5, 7, 10, 15, 20, 25)
WIDTHS = (0.1, 0.3, 1.0, 3.0)
RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
INNER_FOLDS = 5
SHORT = ("own", "none")


class Kernels(NamedTuple):
    """One data set as the methods see it.

    Fields:
      inputs: [n, n] K of the inputs.
      numbers: [n] which of the M distinct outputs each example has.
      outputs: [room, room] L of the distinct outputs, 0 beyond M; room is the size class of M, so
        that data sets share their programs.
      loss: [room, room] 1 - L, 0 on the diagonal.
    """

    inputs: np.ndarray
    numbers: np.ndarray
    outputs: np.ndarray
    loss: np.ndarray


class Machine(NamedTuple):
    """What the methods choose or are given.

    Fields:
      C: of the SVMs; the solver divides it by n.
      sigma: of a Gaussian on the inputs' kernel for the SVMs, 0 for none.
      tolerance: relative gap. seed: of inner folds. solver_seed, dtype: of the solver.
    """

    C: float
    sigma: float
    tolerance: float
    seed: int
    solver_seed: int
    dtype: str


def kernels_of(pairs: Pairs, decay: float, lengths: tuple[int, int], short: str) -> Kernels:
    """The normalised gapped-subsequence kernels of inputs and of distinct outputs.

    Args:
      decay, lengths: of `subsequences`, (shortest, longest).
      short: what an output with no subsequence is: "own", a direction of its own, L(y, y) = 1 and
        0 with all others; "none", L(y, y) = 0.
    """
    distinct = list(dict.fromkeys(pairs.outputs))
    places = {y: number for number, y in enumerate(distinct)}
    room = size_class(len(distinct))
    padded = distinct + [""] * (room - len(distinct))
    with jax.enable_x64(True):  # in float32 rounding alone can make eigenvalues of L negative
        kernel = normalised(subsequences(lengths[1], decay, shortest=lengths[0]))
        gram, inputs = (
            np.array(gram_matrix(kernel, encode_strings(strings, ALPHABET)))
            for strings in (padded, pairs.inputs)
        )
    if short == "own":
        size = len(distinct)
        gram[:size, :size] += np.diag(np.diag(gram)[:size] == 0)
    loss = np.clip(1 - gram, 0, 1)
    np.fill_diagonal(loss, 0)
    numbers = np.array([places[y] for y in pairs.outputs], np.int32)
    return Kernels(inputs, numbers, gram, loss)


def predicted(
    name: str, kernels: Kernels, train: np.ndarray, test: np.ndarray, machine: Machine
) -> tuple[np.ndarray, dict[str, Any]]:
    """(the number of each test example's predicted output, what was chosen or certified)."""
    numbers = kernels.numbers[train]
    if name == "baseline":
        return np.full(len(test), numbers[most_frequent_output(numbers.tolist())]), {}
    if name in MACHINES:
        return _by_machine(MACHINES[name], kernels, train, test, machine)
    if name in PROCESSES:
        found, chosen = _by_process(PROCESSES[name], kernels, train, test)
        return numbers[found], chosen
    by = _by_neighbours if name == "k-NN" else _by_dependency
    found, chosen = by(kernels, train, test, machine.seed)
    return numbers[found], chosen


def _training(kernels: Kernels, train: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(K, L, Delta) of the training examples, [t, t] each."""
    numbers = kernels.numbers[train]
    pairs = np.ix_(numbers, numbers)
    return kernels.inputs[np.ix_(train, train)], kernels.outputs[pairs], kernels.loss[pairs]


def _gaussian(gram: np.ndarray, sigma: float) -> np.ndarray:
    """The Gaussian of the distance in the kernel's feature space."""
    values = jnp.asarray(gram)
    own = jnp.diagonal(values)
    return np.asarray(radial_values(values, own[:, None], own[None, :], sigma), float)


def _by_neighbours(
    kernels: Kernels, train: np.ndarray, test: np.ndarray, seed: int
) -> tuple[np.ndarray, dict[str, Any]]:
    gram, outputs, loss = _training(kernels, train)
    sizes = [k for k in NEIGHBOURS if k <= len(train) // 2]
    k = choose_neighbours(gram, outputs, loss, sizes, folds=INNER_FOLDS, seed=seed).setting
    across = kernels.inputs[np.ix_(test, train)]
    return nearest_outputs(across, np.diag(gram), outputs, k), {"neighbours": k}


def _by_dependency(
    kernels: Kernels, train: np.ndarray, test: np.ndarray, seed: int
) -> tuple[np.ndarray, dict[str, Any]]:
    _, outputs, loss = _training(kernels, train)
    wide = [_gaussian(kernels.inputs, sigma) for sigma in WIDTHS]
    inside = np.ix_(train, train)
    width, ridge = choose_kernel_dependency(
        [gram[inside] for gram in wide], outputs, loss, RIDGES, folds=INNER_FOLDS, seed=seed
    ).setting
    fitted = fit_kernel_dependency(wide[width][inside], outputs, ridge)
    across = wide[width][np.ix_(test, train)]
    return predict_kernel_dependency(fitted, across), {"sigma": WIDTHS[width], "ridge": ridge}


def _by_process(
    own_noise: bool, kernels: Kernels, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, dict[str, Any]]:
    """The Gaussian's width is that of the largest evidence."""
    _, outputs, _ = _training(kernels, train)
    wide = [_gaussian(kernels.inputs, sigma) for sigma in WIDTHS]
    inside = np.ix_(train, train)
    fitted = [fit_cokriging(gram[inside], outputs, own_noise=own_noise) for gram in wide]
    best = max(range(len(WIDTHS)), key=lambda width: fitted[width].evidence)
    across = wide[best][np.ix_(test, train)]
    return predict_kernel_dependency(fitted[best].machine, across), {
        "sigma": WIDTHS[best], "ratios": fitted[best].ratios.tolist(),
        "evidence": fitted[best].evidence,
    }  # fmt: skip


def _by_machine(
    formulation: str, kernels: Kernels, train: np.ndarray, test: np.ndarray, machine: Machine
) -> tuple[np.ndarray, dict[str, Any]]:
    """Gen(x) = the outputs observed in training, J = K L; the lists are padded to one length."""
    if machine.sigma:
        kernels = kernels._replace(inputs=_gaussian(kernels.inputs, machine.sigma))
    problem = kernel_candidates(len(train), kernels.outputs, loss=kernels.loss, dtype=machine.dtype)
    distinct = list(dict.fromkeys(kernels.numbers[train].tolist()))
    observed = np.full(size_class(len(distinct)), -1, np.int32)
    observed[: len(distinct)] = distinct
    solution = _trained(
        problem,
        _inputs(kernels, train, train, observed),
        kernels.numbers[train],
        formulation,
        machine,
    )
    found = predict(problem, solution, _inputs(kernels, test, train, observed))
    return np.asarray(found), {
        "status": solution.status.name, "primal": solution.primal, "dual": solution.dual,
        "compilations": solution.statistics.compilations,
        "candidates": len(distinct), "C": machine.C,
    }  # fmt: skip


def _inputs(
    kernels: Kernels, some: np.ndarray, train: np.ndarray, observed: np.ndarray
) -> KernelCandidates:
    """Inputs on the training inputs as anchors."""
    row = kernels.inputs[np.ix_(some, train)]
    anchors = np.arange(len(some)) if some is train else np.full(len(some), len(train))
    return KernelCandidates(row, anchors.astype(np.int32), np.tile(observed, (len(some), 1)))


def _trained(
    problem: Problem,
    inputs: KernelCandidates,
    outputs: np.ndarray,
    formulation: str,
    machine: Machine,
) -> Solution:
    solution = fit(
        problem, inputs, outputs, formulation, machine.C, tolerance=machine.tolerance,
        settings=Settings(seed=machine.solver_seed),
    )  # fmt: skip
    if solution.status is not Status.CONVERGED:
        raise ValueError(f"{formulation} did not converge: {solution.message}")
    return solution
