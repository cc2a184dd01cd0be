"""The optimum of a training: what `fit` ends with, and the quadratic program over all outputs."""

from __future__ import annotations

import numpy as np

import jaxstruct as js
from tests.truth.quadratic_program import solve_primal


def check_optimum(
    data, formulation, C, enumerated, tolerance=1e-6, rtol=2e-6, *, gap_of_search=None
):
    """`fit` converges to the optimum.

    Args:
      data: (problem, inputs, outputs). enumerated: (Psi [n, k, D], Delta [n, k], truths [n]).
      gap_of_search: relative, how far above the optimum the primal stays where nothing lists what
        the search of slack re-scaling may have missed; None where that is not tried.
    """
    problem, *examples = data
    optimum = solve_primal(formulation, *enumerated, C).objective
    settings = js.Settings(variant="subspace")  # a full one's program takes longer than all else
    options = dict(tolerance=tolerance, settings=settings)
    found = js.fit(*data, formulation, C, **options)
    assert found.status is js.Status.CONVERGED
    np.testing.assert_allclose([found.primal, found.dual], optimum, rtol=rtol)
    if gap_of_search is not None:
        searched = problem._replace(oracles=problem.oracles._replace(best_above=None))
        found = js.fit(searched, *examples, formulation, C, **options)
        assert found.status is js.Status.INEXACT_ORACLE
        assert found.dual <= optimum * (1 + 1e-9) and found.primal >= optimum * (1 + gap_of_search)
