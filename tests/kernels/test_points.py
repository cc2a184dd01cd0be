"""Inner products and distances of dense, sparse and mixed points against NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.types import SparseFeatures
from jaxstruct.kernels.points import densify, inner_product, squared_distance
from tests.lib.refusals import refused

D = 9
product_of, distance_of = jax.jit(inner_product), jax.jit(squared_distance)


def random_sparse(rng, capacity, dtype=np.float32, d=D):
    count = int(rng.integers(0, min(capacity, d) + 1))
    indices = np.full(capacity, d, np.int32)
    values = np.zeros(capacity, dtype)
    indices[:count] = np.sort(rng.choice(d, count, replace=False))
    values[:count] = rng.normal(size=count)
    dense = np.zeros(d, dtype)
    dense[indices[:count]] = values[:count]
    return SparseFeatures(jnp.asarray(indices), jnp.asarray(values)), dense


@pytest.mark.parametrize(
    ("dtype", "jit"), [(np.float32, False), (np.float32, True), (np.float64, True)]
)
def test_all_kinds_of_points_agree_with_numpy(jit, dtype):
    with jax.enable_x64(dtype == np.float64):
        rng = np.random.default_rng(0)
        rtol = 1e-5 if dtype == np.float32 else 1e-13
        product = product_of if jit else inner_product
        distance = distance_of if jit else squared_distance
        for _ in range(8):
            sparse_x, x = random_sparse(rng, 5, dtype)
            sparse_z, z = random_sparse(rng, 7, dtype)
            for a in (sparse_x, jnp.asarray(x)):
                for b in (sparse_z, jnp.asarray(z)):
                    got = product(a, b)
                    assert got.shape == () and got.dtype == dtype
                    np.testing.assert_allclose(got, x @ z, rtol=rtol, atol=rtol)
                    np.testing.assert_allclose(
                        distance(a, b), np.sum((x - z) ** 2), rtol=rtol, atol=rtol
                    )


def test_distance_of_a_point_to_itself_is_zero_exactly():
    x = SparseFeatures(jnp.array([1, 4, 9]), jnp.array([1e4, -3.3e3, 0.0]))
    assert squared_distance(x, x) == 0
    near = x._replace(values=x.values.at[0].add(0.0625))
    assert squared_distance(x, near) == 0.0625**2  # lost in ||x||^2 + ||x'||^2 - 2<x, x'>


def test_densify_drops_padding_and_takes_batches():
    rng = np.random.default_rng(1)
    rows = [random_sparse(rng, 6) for _ in range(3)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[sparse for sparse, _ in rows])
    np.testing.assert_array_equal(densify(batch, D), np.stack([dense for _, dense in rows]))


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
