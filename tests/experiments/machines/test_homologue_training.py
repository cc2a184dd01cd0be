"""Training to find homologues: the optimum against an independent QP with all alignments."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from experiments.machines.homologues import homologue_search
from jaxstruct import Settings, Status, fit, predict
from tests.experiments.machines.homologue_cases import (
    A,
    all_alignments,
    flat,
    psi_of,
    random_examples,
    sequences,
)
from tests.truth.quadratic_program import solve_primal

n = 8
FULL, SUBSPACE = Settings(variant="full", warm_passes=0), Settings(variant="subspace")


@lru_cache
def every_plane(gaps, symmetric):
    """[n, k, D] Psi of the homologue as given, then of all alignments of all decoys, distinct."""
    x, y = random_examples(n, seed=3)
    kind, rows = dict(gaps=gaps, symmetric=symmetric), []
    for i in range(n):
        native, candidates = sequences(x, i)
        own = psi_of(x, i, type(y)(y.candidate[i], y.operations[i], y.begin[i]), **kind)
        decoys = [
            all_alignments(native, each, **kind)[0]
            for q, each in enumerate(candidates) if len(each) and q != y.candidate[i]
        ]  # fmt: skip
        rows.append(np.concatenate([own[None], np.unique(np.concatenate(decoys), axis=0)]))
    most = max(map(len, rows))
    return np.array([np.concatenate([r, np.repeat(r[-1:], most - len(r), axis=0)]) for r in rows])


@pytest.mark.parametrize(
    "formulation, gaps, symmetric, settings",
    [("svm1", "linear", False, SUBSPACE), ("svm2_margin", "affine", True, FULL)],
)
def test_optimum(x64, formulation, gaps, symmetric, settings):
    psi = every_plane(gaps, symmetric)
    losses = np.ones(psi.shape[:2])
    losses[:, 0] = 0
    truth = solve_primal(formulation, psi, losses, np.zeros(n, int), 4.0)
    problem = homologue_search(A, gaps=gaps, symmetric=symmetric, dtype="float64")
    x, y = random_examples(n, seed=3)
    solution = fit(problem, x, y, formulation, 4.0, tolerance=1e-7, max_passes=3000,
                   settings=settings)  # fmt: skip
    assert solution.status == Status.CONVERGED
    assert solution.primal == pytest.approx(truth.objective, rel=1e-6)
    assert solution.dual == pytest.approx(truth.objective, rel=1e-6)
    distance = np.linalg.norm(flat(solution.weights) - truth.w)
    assert distance <= np.sqrt(4e-6 * truth.objective)


@pytest.mark.thorough
def test_float32_and_what_is_learned():
    """A hidden rule: the homologue pairs letter 0 with 0, decoys have no letter 0."""
    x, y = random_examples(40, seed=5)
    candidates = np.where(x.candidates == 0, 1, x.candidates)
    native, begin, operations = x.native.copy(), y.begin.copy(), y.operations.copy()
    rows = np.arange(40)
    candidates[rows, y.candidate, 0], native[:, 0] = 0, 0
    begin[:], operations[:], operations[:, 0] = 0, -1, 0
    x, y = x._replace(native=native, candidates=candidates), y._replace(
        begin=begin, operations=operations)  # fmt: skip
    problem = homologue_search(A)
    settings = Settings(variant="subspace", capacity=16)
    solution = fit(problem, x, y, "svm2", 400.0, tolerance=1e-2, settings=settings)
    assert solution.status == Status.CONVERGED
    assert solution.weights["substitution"].dtype == "float32"
    assert (predict(problem, solution.weights, x).candidate == y.candidate).all()
