"""The rows of table 4.5: each method maps test inputs to outputs that training has seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.machines.cokriging import fit_cokriging
from experiments.machines.kernel_dependency_estimation import (
    choose_kernel_dependency,
    fit_kernel_dependency,
    predict_kernel_dependency,
)
from experiments.machines.most_frequent_output import most_frequent_output
from experiments.machines.nearest_neighbours import choose_neighbours, nearest_outputs
from experiments.tasks.string_pairs import Kernels, inputs_on
from jaxstruct import Problem, Settings, Solution, Status, fit, predict
from jaxstruct.core.sizes import size_class
from jaxstruct.strings import KernelCandidates, kernel_candidates

MACHINES = {"SVM2": "svm2", "SVM2 Δs": "svm2_slack", "SVM2 Δm": "svm2_margin"}
PROCESSES = {"KDE by evidence": False, "cokriging": True}
"""Gaussian processes -> whether each component of the outputs has noise of its own."""
METHODS = ("baseline", "k-NN", "KDE", *PROCESSES, *MACHINES)
NEIGHBOURS = (1, 2, 3, 5, 7, 10, 15, 20, 25)
WIDTHS = (0.1, 0.3, 1.0, 3.0)
RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
INNER_FOLDS = 5


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
    """The Gaussian of the distance in the kernel's feature space (Weston et al. 2003, 5.1)."""
    values = jnp.asarray(gram)
    own = jnp.diagonal(values)
    distances = jnp.maximum(
        own[:, None] - 2 * values + own[None], 0
    )  # rounding makes some negative
    return np.asarray(jnp.exp(-distances / (2 * jnp.asarray(sigma, values.dtype) ** 2)), float)


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
        inputs_on(kernels, train, train, observed),
        kernels.numbers[train],
        formulation,
        machine,
    )
    found = predict(problem, solution, inputs_on(kernels, test, train, observed))
    return np.asarray(found), {
        "status": solution.status.name, "primal": solution.primal, "dual": solution.dual,
        "compilations": solution.statistics.compilations,
        "candidates": len(distinct), "C": machine.C,
    }  # fmt: skip


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
