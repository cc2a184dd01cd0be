"""What counts as a kernel matrix."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.kernels import check_positive_semidefinite


def test_accepts_kernel_matrices_and_rounding():
    factor = np.random.default_rng(0).normal(size=(6, 3))
    check_positive_semidefinite(factor @ factor.T)
    check_positive_semidefinite((factor @ factor.T).astype(np.float32), "K", 1e-6)
    check_positive_semidefinite(np.zeros((2, 2)))
    check_positive_semidefinite(np.diag([1.0, -1e-7]), "K", 1e-6)


def test_indefinite_names_the_smallest_eigenvalue_and_the_shift_repairs_it():
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="affinity.*smallest eigenvalue -1 .*add at least 1 to"):
        check_positive_semidefinite(matrix, "affinity")
    check_positive_semidefinite(matrix + np.eye(2), "affinity")


def test_tolerance_is_relative():
    with pytest.raises(ValueError, match="semi-definite"):
        check_positive_semidefinite(np.diag([1.0, -1e-3]), "K", 1e-4)
    check_positive_semidefinite(np.diag([1e4, -1e-3]), "K", 1e-6)
    with pytest.raises(ValueError, match="semi-definite"):
        check_positive_semidefinite(np.diag([-1e-9, -1e-9]), "K", 1e-6)


def test_a_factor_decides_as_the_eigenvalues_do():
    """Smallest eigenvalues around the tolerance, from 1e-8 to 1e-4 of the largest."""
    random, accepted = np.random.default_rng(0), 0
    for _ in range(200):
        vectors = np.linalg.qr(random.normal(size=(8, 8)))[0]
        values = np.abs(random.normal(size=8))
        values[0] = -(10 ** random.uniform(-8, -4)) * values.max()
        matrix = (vectors * values) @ vectors.T
        matrix = (matrix + matrix.T) / 2
        found = np.linalg.eigvalsh(matrix)
        if found[0] >= -1e-6 * np.abs(found).max():
            check_positive_semidefinite(matrix)
            accepted += 1
        else:
            with pytest.raises(ValueError, match="semi-definite"):
                check_positive_semidefinite(matrix)
    assert 60 < accepted < 140


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((2, 3)), "square"),
        (np.zeros((0, 0)), "square"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), r"not symmetric, entries \[0, 1\]"),
        (np.array([["a"]]), "real numbers"),
        (np.array([[1j]]), "real numbers"),
    ],
)
def test_other_errors(matrix, message):
    with pytest.raises(ValueError, match=message):
        check_positive_semidefinite(matrix, "K")
