"""Kernels on one pair against closed forms and explicit features."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import kernels
from jaxstruct.core.types import SparseFeatures
from jaxstruct.kernels import gaussian, linear, polynomial, precomputed
from jaxstruct.kernels.points import inner_product, squared_distance
from tests.lib.refusals import refused


def monomials(x, degree):
    """All ordered products of `degree` coordinates: <m(x), m(z)> = <x, z>^degree."""
    return np.array(
        [
            np.prod(np.asarray(x)[list(way)])
            for way in itertools.product(range(len(x)), repeat=degree)
        ]
    )


@pytest.mark.smoke
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_closed_forms(jit, dtype):
    with jax.enable_x64(dtype == np.float64):
        rng = np.random.default_rng(0)
        x, z = rng.normal(size=(2, 5)).astype(dtype)
        rtol = 1e-5 if dtype == np.float32 else 1e-13
        cases = [
            (linear(), x @ z),
            (polynomial(3, 0.5), (x @ z + 0.5) ** 3),
            (polynomial(2), (x @ z + 1) ** 2),
            (gaussian(1.7), np.exp(-np.sum((x - z) ** 2) / (2 * 1.7**2))),
        ]
        for kernel, want in cases:
            got = (jax.jit(kernel) if jit else kernel)(x, z)
            assert got.shape == () and got.dtype == dtype
            np.testing.assert_allclose(got, want, rtol=rtol)


def test_polynomial_is_the_product_of_monomials():
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(2, 3))
    for degree in (1, 2, 3):
        want = monomials(x, degree) @ monomials(z, degree)
        np.testing.assert_allclose(polynomial(degree, 0.0)(x, z), want, rtol=1e-5)
        lifted = [np.append(v, np.sqrt(0.3)) for v in (x, z)]  # c is one more coordinate
        want = monomials(lifted[0], degree) @ monomials(lifted[1], degree)
        np.testing.assert_allclose(polynomial(degree, 0.3)(x, z), want, rtol=1e-5)


def test_parameters_are_leaves_and_do_not_recompile():
    traces = []

    @jax.jit
    def value(kernel, x, z):
        traces.append(kernel)
        return kernel(x, z)

    x, z = np.array([1.0, 2.0], np.float32), np.array([0.0, 1.0], np.float32)
    for sigma in (0.5, 1.0, np.float64(2.0), jnp.float32(3.0)):
        np.testing.assert_allclose(
            value(gaussian(sigma), x, z), np.exp(-1 / float(sigma) ** 2), rtol=1e-6
        )
    assert len(traces) == 1
    for c in (0.0, 1.0, 2.5):
        np.testing.assert_allclose(value(polynomial(2, c), x, z), (2 + c) ** 2, rtol=1e-6)
    assert len(traces) == 2
    value(polynomial(3, 1.0), x, z)
    assert len(traces) == 3  # the degree is static
    for matrix in (np.eye(2), 2 * np.eye(2)):
        assert value(precomputed(matrix), 1, 1) == matrix[1, 1]
    assert len(traces) == 4


def test_sigma_can_be_traced():
    x, z = jnp.array([1.0, 2.0]), jnp.array([0.0, 1.0])
    sigmas = jnp.array([0.5, 1.0, 2.0])
    values = jax.vmap(lambda sigma: gaussian(sigma)(x, z))(sigmas)
    np.testing.assert_allclose(values, np.exp(-1 / np.asarray(sigmas) ** 2), rtol=1e-6)
    slope = jax.grad(lambda sigma: gaussian(sigma)(x, z))(1.0)
    np.testing.assert_allclose(slope, 2 * np.exp(-1.0), rtol=1e-6)


@pytest.mark.parametrize("jit", [False, True])
def test_precomputed_looks_up_and_marks_out_of_range(jit):
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    kernel = precomputed(matrix)
    call = jax.jit(kernel) if jit else kernel
    for i, j in itertools.product(range(2), repeat=2):
        assert call(i, j) == matrix[i, j]
    for i, j in [(2, 0), (0, 2), (-1, 0), (0, -2)]:
        assert jnp.isnan(call(i, j))
    assert call(np.uint8(1), np.int64(0)) == 0.5


def test_bad_parameters_are_refused():
    for sigma in (0, -1.0, np.nan, np.inf):
        refused("sigma must be finite and > 0", gaussian, sigma)
    refused("sigma must be finite and > 0, one number, got 'x'", gaussian, "x")
    for degree in (0, -1, 1.5, True, "2"):
        refused("degree must be at least 1", polynomial, degree)
    refused("c must be .* got -0.5", polynomial, 2, -0.5)
    refused("matrix: not positive semi-definite", precomputed, np.array([[0.0, 1.0], [1.0, 0.0]]))
    refused("tolerance must be finite", precomputed, np.eye(2), "x")
    refused("coefficients must be one number for", kernels.weighted_sum, [linear()], 3)
    refused("kernels must be a non-empty sequence of kernels, got None", kernels.product, None)
    refused("kernel must be a function", kernels.gram_matrix, np.ones((2, 2)), linear())
    refused("X must be a set of poin", kernels.gram_matrix, linear(), [[1.0], [1.0, 2.0]])
    refused("integer index", lambda: precomputed(np.eye(2))(0.0, 1))
    refused("integer index", lambda: precomputed(np.eye(2))(np.array([0, 1]), 1))


def test_distance_of_a_point_to_itself_is_zero_exactly():
    x = SparseFeatures(jnp.array([1, 4, 9]), jnp.array([1e4, -3.3e3, 0.0]))
    assert squared_distance(x, x) == 0
    near = x._replace(values=x.values.at[0].add(0.0625))
    assert squared_distance(x, near) == 0.0625**2  # lost in ||x||^2 + ||x'||^2 - 2<x, x'>


def test_integers_become_floats():
    got = inner_product(np.array([1, 2]), np.array([3, 4]))
    assert got == 11 and jnp.issubdtype(got.dtype, jnp.floating)


def test_gradients_pass_through():
    z = jnp.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(jax.grad(inner_product)(jnp.zeros(3), z), z)
    np.testing.assert_allclose(jax.grad(squared_distance)(jnp.zeros(3), z), -2 * z)


def test_shapes_are_checked():
    refused(r"x: got shape \(2, 3\).*gram_matrix", inner_product, jnp.zeros((2, 3)), jnp.zeros(3))
    refused("x': got 4 features, expected 3", squared_distance, jnp.zeros(3), jnp.zeros(4))
    with refused("indices .* and values"):
        inner_product(SparseFeatures(jnp.zeros(2, int), jnp.zeros(3)), jnp.zeros(3))
