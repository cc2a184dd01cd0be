"""Rows of SciPy's sparse matrices as `SparseFeatures`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import jaxstruct as js
from jaxstruct.multiclass.structure import multiclass


def dense(rows, d):
    """What padded rows stand for, written down entry by entry."""
    table = np.zeros((len(rows.indices), d + 1), rows.values.dtype)
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
    assert isinstance(rows, js.SparseFeatures) and rows.indices.dtype == np.int32
    assert rows.values.dtype == (dtype if np.dtype(dtype).kind == "f" else np.float32)
    np.testing.assert_array_equal(dense(rows, 7), table.astype(dtype))
    real = rows.indices < 7
    assert rows.indices.shape[1] == real.sum(axis=1).max()
    rising = (np.diff(rows.indices, axis=1) > 0) | ~real[:, 1:]
    assert rising.all() and (real[:, :-1] >= real[:, 1:]).all()
    wider = js.from_scipy(matrix, width=20)
    assert wider.indices.shape == (9, 20)
    np.testing.assert_array_equal(dense(wider, 7), table.astype(dtype))


def test_repeats_are_summed_zeros_dropped_and_the_matrix_left_alone():
    matrix = scipy.sparse.csr_matrix(
        (np.array([1.0, 2.0, 5.0, 0.0]), np.array([3, 3, 1, 0]), np.array([0, 3, 4, 4])), (3, 4)
    )
    rows = js.from_scipy(matrix)
    assert rows.indices.tolist() == [[1, 3], [4, 4], [4, 4]]
    assert rows.values.tolist() == [[5, 3], [0, 0], [0, 0]]
    assert matrix.nnz == 4 and matrix.indices.tolist() == [3, 3, 1, 0]
    assert js.from_scipy(scipy.sparse.csr_matrix((2, 4))).indices.tolist() == [[4], [4]]


@pytest.mark.parametrize(
    "matrix, options, match",
    [
        (np.eye(3), {}, "matrix must be a SciPy sparse matrix, got ndarray"),
        ([[1, 2]], {}, "matrix must be a SciPy sparse matrix, got list"),
        (scipy.sparse.csr_matrix(np.eye(3) * 1j), {}, "must be .n, d. real numbers .*complex128"),
        (
            scipy.sparse.csr_matrix(np.ones((2, 3))),
            {"width": 2},
            "width is 2, but row 0 has 3 entries",
        ),
    ],
)
def test_what_is_refused(matrix, options, match):
    with pytest.raises(ValueError, match=match):
        js.from_scipy(matrix, **options)


def test_training_on_them_is_training_on_the_dense_rows():
    random = np.random.default_rng(3)
    table = random.normal(size=(12, 5)) * (random.random((12, 5)) < 0.5)
    y = random.integers(0, 3, 12).astype(np.int32)
    problem, rows = multiclass(5, 3), js.from_scipy(scipy.sparse.csr_matrix(table))
    solution = js.fit(problem, rows, y, "svm1", 5.0)
    wanted = js.fit(problem, table.astype(np.float32), y, "svm1", 5.0)
    assert solution.primal == pytest.approx(wanted.primal, rel=2e-3)
    with pytest.raises(ValueError, match="jaxstruct.from_scipy"):
        js.fit(problem, scipy.sparse.csr_matrix(table), y)
