"""Kernel matrices: the fast ways agree with calling the kernel on every pair."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import Ragged
from jaxstruct.chains import KernelTokens, chain_inputs
from jaxstruct.core.types import SparseFeatures
from jaxstruct.kernels import (
    direct_sum,
    gaussian,
    gram_matrix,
    linear,
    pairwise_gram,
    polynomial,
    precomputed,
    product,
    tensor_product,
    weighted_sum,
)
from jaxstruct.kernels.input import check_positive_semidefinite
from jaxstruct.multiclass import kernel_inputs
from jaxstruct.strings import kernel_inputs as candidate_inputs
from tests.lib.refusals import refused

D = 11
KERNELS = [linear(), polynomial(3, 0.7), gaussian(1.3)]
SUM = weighted_sum([*KERNELS, product([linear(), gaussian(2.0)])], [0.3, 0.1, 2.0, 1.5])


def dense_set(rng, n, dtype):
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.4)
    return X.astype(dtype)


def sparse_set(X, capacity=None):
    counts = (X != 0).sum(1)
    capacity = int(counts.max()) + 2 if capacity is None else capacity
    indices = np.full((len(X), capacity), D, np.int32)
    values = np.zeros((len(X), capacity), X.dtype)
    for i, row in enumerate(X):
        real = np.flatnonzero(row)
        indices[i, : len(real)], values[i, : len(real)] = real, row[real]
    return SparseFeatures(jnp.asarray(indices), jnp.asarray(values))


@jax.jit
def every_way(kernel, X, Z, *sparse):
    """The matrix by all of them in one program."""
    return [
        pairwise_gram(kernel, X, Z),
        gram_matrix(kernel, X, Z),
        gram_matrix(kernel, X, Z, block=3),
        pairwise_gram(kernel, X, Z, block=3),
        pairwise_gram(kernel, *sparse, block=2),
        gram_matrix(kernel, *sparse),
        gram_matrix(kernel, *sparse, num_features=D),
        gram_matrix(kernel, *sparse, block=3, num_features=D + 4),
        gram_matrix(kernel, sparse[0], Z),
        gram_matrix(kernel, X, sparse[1]),
    ]


def by_loop(kernel, X, Z):
    call = jax.jit(kernel)  # one compilation, and still one pair at a time
    return np.array([[call(x, z) for z in Z] for x in X])


def test_fast_and_generic_ways_agree(x64):
    """Of all kernels at once; `test_z_defaults_to_x` has them in float32."""
    rng = np.random.default_rng(0)
    X, Z = (dense_set(rng, count, np.float64) for count in (7, 5))
    want = by_loop(SUM, X, Z)
    for got in every_way(SUM, X, Z, sparse_set(X), sparse_set(Z)):
        assert got.shape == (7, 5) and got.dtype == np.float64
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 * np.abs(want).max())


@jax.jit
def with_itself(kernel, X):
    """Z left out, and given; by the rule and by pairs."""
    return [(gram(kernel, X), gram(kernel, X, X)) for gram in (gram_matrix, pairwise_gram)]


@pytest.mark.smoke
def test_z_defaults_to_x():
    X = dense_set(np.random.default_rng(1), 6, np.float32)
    for kernel in KERNELS:
        for left_out, given in with_itself(kernel, X):
            np.testing.assert_array_equal(left_out, given)
    sparse = sparse_set(X)
    np.testing.assert_allclose(
        gram_matrix(linear(), sparse, num_features=D), X @ X.T, rtol=1e-5, atol=1e-6
    )


def test_gaussian_far_from_the_origin_keeps_its_digits():
    X = 1000 + np.random.default_rng(2).normal(size=(20, 4)).astype(np.float32)
    ways = jax.jit(lambda X: (gram_matrix(gaussian(1.0), X), pairwise_gram(gaussian(1.0), X)))
    np.testing.assert_allclose(*ways(X), rtol=2e-4, atol=1e-5)


@jax.jit
def of_pairs(first, second, x, z):
    """Of the first kernel alone, of both by the rules and by pairs, of sparse sets."""
    joint, added = tensor_product(first, second), direct_sum(first, second)
    dense, (sparse_x, sparse_z) = (x[1:], z[1:]), (x[:1] + x[2:], z[:1] + z[2:])
    return (
        gram_matrix(first, x[1], z[1]),
        gram_matrix(joint, *dense),
        pairwise_gram(joint, *dense),
        gram_matrix(added, *dense),
        gram_matrix(added, sparse_x, sparse_z, num_features=D),
    )


def test_pairs_of_sets():
    rng = np.random.default_rng(3)
    X, Z = dense_set(rng, 6, np.float32), dense_set(rng, 4, np.float32)
    classes_x, classes_z = rng.integers(0, 3, 6), rng.integers(0, 3, 4)
    factor = rng.normal(size=(3, 3))
    similarity = (factor @ factor.T).astype(np.float32)
    second = similarity[np.ix_(classes_x, classes_z)]
    x, z = (sparse_set(X), X, classes_x), (sparse_set(Z), Z, classes_z)
    first, joint, by_pair, added, sparse = map(
        np.asarray, of_pairs(gaussian(1.0), precomputed(similarity), x, z)
    )
    np.testing.assert_allclose(joint, first * second, rtol=1e-5)
    np.testing.assert_allclose(by_pair, first * second, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(added, first + second, rtol=1e-5)
    np.testing.assert_allclose(sparse, first + second, rtol=1e-5, atol=1e-6)


def test_a_function_of_ones_own_needs_no_factory():
    X = dense_set(np.random.default_rng(4), 5, np.float32)
    got = gram_matrix(lambda x, z: jnp.sum(jnp.minimum(x, z)), X, block=2)
    np.testing.assert_allclose(got, np.minimum(X[:, None], X[None]).sum(-1), rtol=1e-5, atol=1e-6)


def test_sets_that_are_refused():
    X = dense_set(np.random.default_rng(8), 3, np.float32)
    refused("Z: got 2 features, expected 11", lambda: gram_matrix(linear(), X, X[:, :2]))
    refused("X: got shape", lambda: gram_matrix(linear(), X[0], X))
    refused("block must be at least 1, got 0", lambda: gram_matrix(linear(), X, block=0))
    with refused("num_features must be at least"):
        gram_matrix(linear(), sparse_set(X), num_features=3)
    refused("num_features must be at least", lambda: gram_matrix(linear(), X[:, :3], sparse_set(X)))
    with refused(r"Z: got indices -1..1, expected 0..1"):
        gram_matrix(precomputed(np.eye(2)), np.array([0, 1]), np.array([1, -1]))
    with refused("X: .*expected a pair|x: .*expected a pair"):
        gram_matrix(direct_sum(linear(), linear()), X, X)


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


def test_other_errors():
    for matrix, message in (
        (np.zeros((2, 3)), "square"), (np.zeros((0, 0)), "square"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), r"not symmetric, entries \[0, 1\]"),
        (np.array([["a"]]), r"K must be \[n, n\] numbers"),
        (np.array([[1j]]), r"K must be \[n, n\] numbers"),
    ):  # fmt: skip
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
