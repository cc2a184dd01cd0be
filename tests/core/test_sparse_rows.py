"""Rows of SciPy's sparse matrices as `SparseFeatures`."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxstruct as js
from jaxstruct.core.padding import bucketed
from tests.lib.refusals import refused


def dense(rows, d):
    """What rows stand for, written down entry by entry."""
    dtype = next(iter(rows.values)).dtype
    table = np.zeros((len(rows.indices), d + 1), dtype)
    for row, (indices, values) in enumerate(zip(rows.indices, rows.values, strict=True)):
        for index, value in zip(indices, values, strict=True):
            table[row, index] += value
    assert not table[:, d].any()
    return table[:, :d]


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "coo_array", "lil_matrix"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, bool])
def test_rows_stand_for_the_matrix(kind, dtype):
    random = np.random.default_rng(0)
    table = random.integers(-3, 4, (9, 7)) * (random.random((9, 7)) < 0.4)
    matrix = getattr(scipy.sparse, kind)(table.astype(dtype))
    rows = js.from_scipy(matrix)
    assert isinstance(rows, js.SparseFeatures) and rows.indices.rows.dtype == np.int32
    assert isinstance(rows.indices, js.Ragged) and isinstance(rows.values, js.Ragged)
    assert rows.values.rows.dtype == (dtype if np.dtype(dtype).kind == "f" else np.float32)
    np.testing.assert_array_equal(dense(rows, 7), table.astype(dtype))
    np.testing.assert_array_equal(rows.indices.lengths, (table != 0).sum(axis=1))
    assert rows.indices.fill == 7 and rows.values.fill == 0
    assert all((np.diff(row) > 0).all() for row in rows.indices)


def test_repeats_are_summed_zeros_dropped_and_the_matrix_left_alone():
    matrix = scipy.sparse.csr_matrix(
        (np.array([1.0, 2.0, 5.0, 0.0]), np.array([3, 3, 1, 0]), np.array([0, 3, 4, 4])), (3, 4)
    )
    rows = js.from_scipy(matrix)
    assert [row.tolist() for row in rows.indices] == [[1, 3], [], []]
    assert [row.tolist() for row in rows.values] == [[5, 3], [], []]
    assert matrix.nnz == 4 and matrix.indices.tolist() == [3, 3, 1, 0]


def test_rows_that_are_tokens_of_sequences():
    table = np.array([[0, 2, 0], [1, 0, 3], [0, 0, 0], [0, 0, 4.0]])
    tokens = js.from_scipy(scipy.sparse.csr_matrix(table), offsets=np.array([0, 1, 1, 4]))
    assert [one.tolist() for one in tokens.indices] == [[[1, 3]], [], [[0, 2], [3, 3], [2, 3]]]
    assert [one.tolist() for one in tokens.values] == [[[2, 0]], [], [[1, 3], [0, 0], [4, 0]]]
    x = js.chains.chain_inputs(tokens)
    assert x.length.tolist() == [1, 0, 3]
    rows = table.astype(np.float32)
    full = js.chains.chain_inputs(js.ragged([rows[:1], rows[:0], rows[1:]]))
    problem, random = js.chains.chain(3, 2), np.random.default_rng(0)
    w = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), problem.initial_weights)
    of_rows = jax.jit(jax.vmap(problem.model.potentials, (None, 0)))
    y = js.ragged([[0], [], [1, 0, 1]])
    parts = (bucketed(problem.padding, each, y)[0].parts for each in (x, full))
    for pair in zip(*parts, strict=True):
        found, wanted = (of_rows(w, each) for each in pair)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), found, wanted)


@pytest.mark.parametrize(
    "matrix, options, match",
    [
        (np.eye(3), {}, "matrix must be a SciPy sparse matrix, got ndarray"),
        ([[1, 2]], {}, "matrix must be a SciPy sparse matrix, got list"),
        (scipy.sparse.csr_matrix(np.eye(3) * 1j), {}, "must be .n, d. real numbers .*complex128"),
        (scipy.sparse.csr_matrix(np.eye(3)), {"offsets": [0, 2]}, "offsets must go from 0 to 3"),
    ],
)
def test_what_is_refused(matrix, options, match):
    refused(match, js.from_scipy, matrix, **options)
