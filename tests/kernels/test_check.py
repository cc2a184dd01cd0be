"""What counts as a kernel matrix."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct import Ragged
from jaxstruct.chains import KernelTokens, chain_inputs
from jaxstruct.kernels import gram_matrix, polynomial
from jaxstruct.kernels.input import check_positive_semidefinite
from jaxstruct.multiclass import kernel_inputs
from jaxstruct.strings import kernel_inputs as candidate_inputs
from tests.lib.refusals import refused


def test_accepts_kernel_matrices_and_rounding():
    factor = np.random.default_rng(0).normal(size=(6, 3))
    check_positive_semidefinite(factor @ factor.T)
    check_positive_semidefinite((factor @ factor.T).astype(np.float32), "K", 1e-6)
    check_positive_semidefinite(np.zeros((2, 2)))
    check_positive_semidefinite(np.diag([1.0, -1e-7]), "K", 1e-6)


def test_rounding_of_the_dtype_is_allowed_for():
    """n spacings of float32 below zero pass as float32, and not as float64, which is finer."""
    below = np.diag([1.0, *np.zeros(198), -200 * np.finfo(np.float32).eps])
    check_positive_semidefinite((0.9 * below + np.diag(np.eye(200)[0] / 10)).astype(np.float32))
    refused("semi-definite.*tolerance 1e-06", check_positive_semidefinite, below)
    refused(
        "semi-definite.*tolerance 2.38419e-05", check_positive_semidefinite,
        (below - 0.1 * np.diag(np.eye(200)[0])).astype(np.float32),
    )  # fmt: skip


def test_indefinite_names_the_smallest_eigenvalue_and_the_shift_repairs_it():
    matrix = np.array([[1.0, 2.0], [2.0, 1.0]])
    with refused("affinity.*smallest eigenvalue -1 .*add at least 1 to"):
        check_positive_semidefinite(matrix, "affinity")
    check_positive_semidefinite(matrix + np.eye(2), "affinity")


def test_tolerance_is_relative():
    refused("semi-definite", check_positive_semidefinite, np.diag([1.0, -1e-3]), "K", 1e-4)
    check_positive_semidefinite(np.diag([1e4, -1e-3]), "K", 1e-6)
    refused("semi-definite", check_positive_semidefinite, np.diag([-1e-9, -1e-9]), "K", 1e-6)


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
            refused("semi-definite", check_positive_semidefinite, matrix)
    assert 60 < accepted < 140


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((2, 3)), "square"),
        (np.zeros((0, 0)), "square"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), r"not symmetric, entries \[0, 1\]"),
        (np.array([["a"]]), r"K must be \[n, n\] numbers"),
        (np.array([[1j]]), r"K must be \[n, n\] numbers"),
    ],
)
def test_other_errors(matrix, message):
    refused(message, check_positive_semidefinite, matrix, "K")


def test_rounding_of_float32_needs_no_eigenvalues(monkeypatch):
    """Points far from 0: the smallest eigenvalue is -2e-6 of the diagonal, by rounding alone."""
    points = (np.random.default_rng(0).normal(size=(300, 10)) + 1000).astype(np.float32)
    gram = np.asarray(gram_matrix(polynomial(2), points, points), np.float64)
    assert np.linalg.eigvalsh(gram)[0] < -2e-6 * gram[0, 0]
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda matrix: pytest.fail("eigenvalues"))
    check_positive_semidefinite(gram)


def ragged_tokens(gram):
    n, offsets = len(gram), np.array([0, 1, len(gram)])
    return chain_inputs(KernelTokens(Ragged(gram, offsets), Ragged(np.arange(n), offsets, n)))


def padded_tokens(gram):
    """Two sequences, of all tokens and of the first one once more."""
    n = len(gram)
    rows, anchors = np.zeros((2, n, n)), np.full((2, n), n)
    rows[0], rows[1, 0], anchors[0], anchors[1, 0] = gram, gram[0], np.arange(n), 0
    return chain_inputs(KernelTokens(rows, anchors), np.array([n, 1]), np.zeros((2, n, n)))


TAKERS = {
    "classes": kernel_inputs,
    "candidates": lambda gram: candidate_inputs(gram, [[0]] * len(gram)),
    "tokens": ragged_tokens,
    "padded tokens": padded_tokens,
}


@pytest.mark.parametrize("taker", TAKERS)
def test_whoever_takes_the_kernel_values_of_training_refuses_those_of_no_kernel(taker):
    take, gram = TAKERS[taker], np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    take(gram @ gram.T)
    refused("not symmetric", take, gram @ gram.T + np.triu(np.full((4, 4), 0.1, np.float32)))
    refused("not positive semi-definite", take, gram @ gram.T - 20 * np.eye(4, dtype=np.float32))
