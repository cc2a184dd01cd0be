"""The optimum of a training: what `fit` ends with, and the quadratic program over all outputs."""

from __future__ import annotations

import numpy as np

import jaxstruct as js
from tests.truth.quadratic_program import solve_primal


def check_optimum(data, formulation, C, enumerated, tolerance=1e-6, rtol=2e-6):
    """`fit` converges to the optimum.

    Args:
      data: (problem, inputs, outputs). enumerated: (Psi [n, k, D], Delta [n, k], truths [n]).
    """
    optimum = solve_primal(formulation, *enumerated, C).objective
    settings = js.Settings(variant="subspace")  # a full one's program takes longer than all else
    found = js.fit(*data, formulation, C, tolerance=tolerance, settings=settings)
    assert found.status is js.Status.CONVERGED
    np.testing.assert_allclose([found.primal, found.dual], optimum, rtol=rtol)
