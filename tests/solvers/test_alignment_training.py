"""Supervised alignment: the optimum against a QP with every alignment, and what is learned."""

from __future__ import annotations

from functools import lru_cache

import jax
import numpy as np
import pytest

from jaxstruct import Settings, Status, fit, predict
from jaxstruct.alignments.losses import partners
from jaxstruct.alignments.structure import (
    pairwise_alignment,
)
from tests.alignments.structure_cases import (
    aligned_pairs,
    flat_weights,
    padded_inputs,
    padded_outputs,
)
from tests.lib.thorough import thorough_after
from tests.solvers.cases import FULL
from tests.truth.quadratic_program import solve_primal

n = 6
CASES = {
    "global": ("global", "affine", True, "positions"),
    "local": ("local", "linear", False, "normalised_pairs"),
}


def data_of(case):
    """Local alignments are many: of two letters with two 64, of three with three 393."""
    local = case == "local"
    return aligned_pairs(n, *((2, 2) if local else (3, 3)), local, seed=3, learnable=True)


@lru_cache
def enumerated(case):
    """(Psi [n, k, D], Delta [n, k], truths [n]); where there are fewer the last is repeated."""
    _, gaps, symmetric, loss = CASES[case]
    data = data_of(case)
    most = max(len(data.outputs(i)) for i in range(n))
    psi, delta = [], []
    for i in range(n):
        rows = data.psi(i, gaps, symmetric), data.losses(i, loss)
        psi.append(np.pad(rows[0], ((0, most - len(rows[0])), (0, 0)), mode="edge"))
        delta.append(np.pad(rows[1], (0, most - len(rows[1])), mode="edge"))
    return np.array(psi), np.array(delta), np.array(data.truths)


def trained(case, formulation, C, dtype="float64", **options):
    mode, gaps, symmetric, loss = CASES[case]
    data = data_of(case)
    problem = pairwise_alignment(
        3, mode=mode, gaps=gaps, symmetric=symmetric, loss=loss, dtype=dtype
    )
    return fit(problem, data.x, data.y, formulation, C, settings=FULL, max_passes=500, **options)


@pytest.mark.parametrize("case", thorough_after(1, CASES))
def test_margin_rescaling_is_exact(x64, case):
    for C in (1.0, 30.0):
        solution = trained(case, "svm1_margin", C, tolerance=1e-8)
        truth = solve_primal("svm1_margin", *enumerated(case), C)
        assert solution.status == Status.CONVERGED
        assert solution.primal == pytest.approx(truth.objective, rel=5e-8)
        assert solution.dual == pytest.approx(truth.objective, rel=5e-8)
        # P is 1-strongly convex in w, so |w - w*|^2 <= 2 (P(w) - P*)
        distance = np.linalg.norm(flat_weights(solution.weights) - truth.w)
        assert distance <= np.sqrt(2e-7 * truth.objective)
        assert np.linalg.norm(truth.w) > 0.1


@pytest.mark.thorough
@pytest.mark.parametrize("formulation", ["svm1_slack", "svm2_slack"])
def test_searched_oracle_still_certifies(x64, formulation):
    """dual <= optimum <= primal; what the search leaves open is in the gap."""
    solution = trained("global", formulation, 3.0, tolerance=1e-6)
    truth = solve_primal(formulation, *enumerated("global"), 3.0).objective
    assert solution.dual <= truth * (1 + 1e-9) and truth <= solution.primal * (1 + 1e-9)
    assert solution.dual >= 0.97 * truth and solution.gap <= 0.5 * truth


LENGTH, TRAIN, TEST = 16, 40, 150
SWAPPED = np.array([2, 3, 0, 1])  # A with G and C with T, as transitions of DNA


def evolved(random):
    """A sequence, what became of it, and how: transitions often, other changes never, long gaps."""
    first, second, operations = random.integers(0, 4, LENGTH), [], []
    place = 0
    while place < LENGTH:
        event = random.random()
        if event < 0.08:
            gap = int(min(random.integers(2, 5), LENGTH - place))
            operations += [1] * gap
            place += gap
        elif event < 0.16 and len(second) < LENGTH + 2:
            gap = int(random.integers(2, 5))
            second += random.integers(0, 4, gap).tolist()
            operations += [2] * gap
        else:
            letter = first[place]
            second.append(int(SWAPPED[letter] if random.random() < 0.45 else letter))
            operations.append(0)
            place += 1
    return first, np.array(second), gathered(np.array(operations))


def gathered(operations):
    """Between two pairs first all gaps of one sequence, then all of the other: fewer runs."""
    stretch = np.cumsum(operations == 0)
    return operations[np.lexsort([np.where(operations == 0, -1, operations), stretch])]


def generated(count, seed, size=(LENGTH, 2 * LENGTH + 8)):
    random = np.random.default_rng(seed)
    kept = []
    while len(kept) < count:
        first, second, operations = evolved(random)
        if 4 <= len(second) <= size[1]:
            kept.append((first, second, operations))
    firsts, seconds, operations = zip(*kept, strict=True)
    return padded_inputs(firsts, seconds, size), padded_outputs(operations, None, sum(size))


def found_share(problem, weights, x, y):
    """Q: true pairs found, of all."""
    true, made = (jax.vmap(partners)(one)[0] for one in (y, predict(problem, weights, x)))
    return float(np.sum((true >= 0) & (true == made)) / np.sum(true >= 0))


@pytest.mark.thorough
def test_learned_costs_align_better_than_uniform_ones():
    """On other pairs; the costs show how those were made: transitions score, gaps are long."""
    x, y = generated(TRAIN, 1)
    problem = pairwise_alignment(4)
    solution = fit(
        problem, x, y, "svm1_margin", 1.0 * TRAIN, tolerance=0.02, max_passes=300,
        settings=Settings(variant="subspace", capacity=32),
    )  # fmt: skip
    assert solution.status == Status.CONVERGED
    assert solution.weights["substitution"].dtype == "float32"
    held_out = generated(TEST, 2)
    uniform = {
        "substitution": 2 * np.eye(4, dtype=np.float32) - 1,
        "gap_open": np.float32(1), "gap_extend": np.float32(1),
    }  # fmt: skip
    ours, theirs = (found_share(problem, w, *held_out) for w in (solution.weights, uniform))
    assert ours > theirs + 0.1 and ours > 0.7
    W = np.asarray(solution.weights["substitution"])
    np.testing.assert_allclose(W, W.T, atol=1e-5)
    other = 1 - np.eye(4) - np.eye(4)[SWAPPED]
    assert W[other == 0].min() > W[other == 1].max()
    assert solution.weights["gap_open"] > solution.weights["gap_extend"]
