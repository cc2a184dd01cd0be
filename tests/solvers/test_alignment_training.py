"""Supervised alignment: the optimum against a QP with every alignment."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from jaxstruct import fit
from jaxstruct.alignments.structure import pairwise_alignment
from tests.alignments.structure_cases import aligned_pairs, flat_weights
from tests.lib.thorough import thorough_after
from tests.solvers.cases import FULL, assert_near, assert_optimal
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
        assert_optimal(solution, truth, 5e-8)
        assert_near(flat_weights(solution.weights), truth, 5e-8)
        assert np.linalg.norm(truth.w) > 0.1


@pytest.mark.thorough
@pytest.mark.parametrize("formulation", ["svm1_slack", "svm2_slack"])
def test_searched_oracle_still_certifies(x64, formulation):
    """dual <= optimum <= primal; what the search leaves open is in the gap."""
    solution = trained("global", formulation, 3.0, tolerance=1e-6)
    truth = solve_primal(formulation, *enumerated("global"), 3.0).objective
    assert solution.dual <= truth * (1 + 1e-9) and truth <= solution.primal * (1 + 1e-9)
    assert solution.dual >= 0.97 * truth and solution.gap <= 0.5 * truth
