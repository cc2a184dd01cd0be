"""One sample of the alignment experiment: data, the structural SVM, the generative model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.corpora.homologues import LETTERS, PADDINGS, generate_homologues
from experiments.lib import fields
from experiments.lib.common import take_rows
from experiments.lib.options import flag
from experiments.lib.record import Stopwatch
from experiments.machines.homologues import (
    HomologueInput,
    HomologueOutput,
    candidate_scores,
)
from experiments.machines.log_odds import BACKGROUNDS, alignment_weights, homologue_counts, log_odds
from experiments.tasks.homologues import as_examples
from jaxstruct import Settings, fit
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.solution import Solution

PAPER_GAP_COST = 0.2


def reading_named(text: str) -> tuple[str, float]:
    """(padding, C') of a word such as end:0.1."""
    padding, _, c_over_n = text.partition(":")
    try:
        value = float(c_over_n)
    except ValueError:
        value = 0.0
    if padding not in PADDINGS or not 0 < value < math.inf:
        raise ValueError(
            f"got {text!r}, expected padding:c_over_n such as end:0.1, padding one of "
            f"{', '.join(PADDINGS)}"
        )
    return padding, value


class Options(fields.Capacity, fields.SolverSeed, fields.Common):
    """The flags of this command."""

    sizes: Sequence[str] = flag(
        ("1", "2", "4", "10", "20", "40", "80"),
        "Numbers n of training examples.",
        each=int,
        least=1,
        some=True,
    )
    samples: int = flag(10, "Training and test sets of each size.", least=2)
    test_examples: int = flag(100, "Test examples a sample.", least=1)
    padding: str = flag(
        "both",
        "Where the random letters go that fill a homologue up: see experiments.corpora.homologues.",
        PADDINGS,
    )
    c_over_n: float = flag(0.1, "C' = C / n of SVM2.", above=0)
    epsilon: float = flag(0.1, "Precision of the cutting plane algorithm.", above=0)
    background: str = flag(
        "sequences",
        "P(a) and P(b) of the log-odds: of all letters, or the margins of the paired letters.",
        BACKGROUNDS,
    )
    gap_costs: Sequence[str] = flag(
        ("0.2", "0.6", "0.8", "1.0", "1.2", "1.4", "1.8"),
        f"Gap costs delta of the generative model; {PAPER_GAP_COST} is always one of them.",
        each=float,
    )
    epsilons: Sequence[str] = flag(
        ("1", "0.3", "0.1", "0.03", "0.01", "0.003", "0.001"),
        "Precisions of figure 2, right; empty: none.",
        each=float,
        above=0,
    )
    epsilon_size: int = flag(20, "Number n of training examples in the part on epsilon.", least=1)
    readings: Sequence[str] = flag(
        (),
        "Further readings of the text to compare, a list of padding:c_over_n; each takes "
        "about as long as the table.",
        each=reading_named,
    )
    oracle_batch: int = flag(
        1,
        "Examples in one oracle call. 1 adds planes one at a time as algorithm 1 does; more "
        "is faster for many examples and adds more planes.",
        least=1,
    )
    resume: bool = flag(
        False, "Go on where a run with the same flags and output stopped, training by training."
    )


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
