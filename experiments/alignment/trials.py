"""One sample of the alignment experiment: data, the structural SVM, the generative model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.lib.common import take_rows
from experiments.lib.record import Stopwatch
from jaxstruct import Settings, fit
from jaxstruct.alignments.homologues import (
    HomologueInput,
    HomologueOutput,
    candidate_scores,
    homologue_outputs,
)
from jaxstruct.alignments.log_odds import alignment_weights, homologue_counts, log_odds
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.data.homologues import LETTERS, Homologues, generate_homologues
from jaxstruct.solvers.solution import Solution


class Sample(NamedTuple):
    """n training examples, then the test examples; x is padded with rows to a common number."""

    x: HomologueInput
    y: HomologueOutput
    n: int
    examples: int


class Machine(NamedTuple):
    """How the structural SVM is trained.

    Fields:
      problem: the structure. c_over_n: C / n. epsilon: the precision of algorithm 1.
    """

    problem: Problem
    c_over_n: float
    epsilon: float
    settings: Settings


def draw(seed: Sequence[int], n: int, tests: int, rows: int, padding: str) -> Sample:
    """A sample of n training and `tests` test examples; the rest of the rows repeats the first."""
    data = generate_homologues(np.random.default_rng(seed), n + tests, padding=padding)
    x, y = as_examples(data)
    index = np.where(np.arange(rows) < n + tests, np.arange(rows), 0)
    x, y = take_rows((x, y), index)
    return Sample(x, y, n, n + tests)


def as_examples(data: Homologues) -> tuple[HomologueInput, HomologueOutput]:
    """Generated examples as inputs and outputs of `homologue_search`."""
    n, Q, N = data.candidates.shape
    M = data.natives.shape[1]
    lengths = np.full(n, M, np.int32), np.full((n, Q), N, np.int32)
    outputs = homologue_outputs(data.homologue, data.operations, data.begin, M + N)
    return HomologueInput(data.natives, data.candidates, *lengths), outputs


@jax.jit
def _choose(problem: Problem, w: PyTree, x: HomologueInput) -> Array:
    """[rows] the candidate that is taken for the homologue."""
    theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
    return jnp.argmax(jax.vmap(candidate_scores)(theta), axis=1)


def errors(problem: Problem, weights: Sequence[PyTree], sample: Sample) -> np.ndarray:
    """[K, 2] per cent of the training and of the test examples in which a decoy is taken."""
    chosen = np.stack([np.asarray(_choose(problem, w, sample.x)) for w in weights])
    wrong = 100.0 * (chosen != sample.y.candidate)
    train, test = wrong[:, : sample.n], wrong[:, sample.n : sample.examples]
    return np.stack([train.mean(axis=1), test.mean(axis=1)], axis=1)


def trained(machine: Machine, sample: Sample) -> Solution:
    """SVM2 on the training examples, stopped by the paper's rule."""
    x, y = take_rows((sample.x, sample.y), np.arange(sample.n))
    return fit(
        machine.problem, x, y, "svm2", machine.c_over_n * sample.n, tolerance=None,
        epsilon=machine.epsilon, settings=machine.settings,
    )  # fmt: skip


def plane_bound(solution: Solution, n: int, epsilon: float) -> float:
    """Theorem 18 for SVM2 and Delta = 1: (C R^2 + n) / epsilon^2, with R of the planes met."""
    squared = max(float(np.max(norms)) for norms in jax.tree.leaves(solution.state.sets.norms))
    return (solution.C * squared + n) / epsilon**2


def svm_trial(machine: Machine, sample: Sample) -> dict[str, Any]:
    """Errors, planes and certificate of one training."""
    watch = Stopwatch()
    solution = trained(machine, sample)
    spent = watch.numbers(solution.weights)
    train, test = errors(machine.problem, [solution.weights], sample)[0]
    kept = solution.statistics
    return {
        "n": sample.n, "epsilon": machine.epsilon, "train_error": train, "test_error": test,
        "planes": kept.planes_added, "support_planes": kept.support_planes,
        "plane_bound": plane_bound(solution, sample.n, machine.epsilon),
        "passes": kept.passes, "oracle_calls": kept.oracle_calls, "status": solution.status,
        "primal": solution.primal, "dual": solution.dual, "gap": solution.gap,
        "gap_cost": float(np.ravel(jax.tree.leaves(solution.weights["gap"]))[0]),
        **spent, "compilations": kept.compilations,
    }  # fmt: skip


def generative_trial(
    machine: Machine, sample: Sample, background: str, gap_costs: Sequence[float]
) -> dict[str, Any]:
    """Errors of the log-odds matrix at every gap cost."""
    x, y = take_rows((sample.x, sample.y), np.arange(sample.n))
    matrix = log_odds(homologue_counts(LETTERS, x, y), background=background)
    dtype = str(jnp.result_type(*jax.tree.leaves(machine.problem.initial_weights)))
    weights = [alignment_weights(matrix, cost, dtype) for cost in gap_costs]
    found = errors(machine.problem, weights, sample)
    return {
        "n": sample.n, "background": background, "gap_costs": list(gap_costs),
        "train_errors": found[:, 0], "test_errors": found[:, 1],
    }  # fmt: skip
