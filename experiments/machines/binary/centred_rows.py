"""Training inputs less a centre: in float64 on the host for proofs, in the run's dtype for steps.

The bias is free, so a machine on x_i - c is the machine on x_i with the bias b + <w, c>. Far from
the origin <w, x_i> + b is a small difference of large numbers, <w, x_i - c> is not. The centre is
the median of some examples in use, which one that lies far off does not move; of sparse rows only
in features that most of them have, so that the rest stays sparse; of a kernel matrix the mean of
half of the feature vectors, which centres it on both sides. Each difference of two given numbers is
rounded once, relative to itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.machines.binary.examples import (
    Examples,
    KernelRows,
    SparseRows,
    number_of,
)
from jaxstruct.core.types import SparseFeatures

EPS = float(np.finfo(np.float64).eps)
MEDIAN = 512
"""Examples whose median is the centre. Any centre is exact, since the bias is free; a mean would
follow one far example and cost the others their digits."""
NUMBERS = 1 << 22
"""Numbers of inputs that are held in float64 at a time."""


class CentredRows(NamedTuple):
    """Inputs and what is taken from them; NumPy arrays.

    Fields:
      rows: as given, but for sparse ones, whose values are centred already, in float64.
      centre: [d] c; of a kernel matrix [n] <c, phi(x_i)>.
      square: |c|^2 of a kernel matrix, else 0.
      norms: [n] |x_i - c|.
      fuzz: [n], of kernel values: fuzz_i fuzz_j is what rounding changes that of i and j by, at
        most, both in the dtype in which it came (u sqrt(K_ii K_jj)) and here; else 0.
      terms: numbers that an inner product adds up, at most.
    """

    rows: Examples
    centre: np.ndarray
    square: float
    norms: np.ndarray
    fuzz: np.ndarray
    terms: int


def centred(rows: Examples, used: np.ndarray) -> CentredRows:
    """Inputs less a centre of those in use.

    Args:
      rows: NumPy arrays of any dtype. used: [n] bool.
    """
    if isinstance(rows, SparseRows):
        rows, centre = _centred_sparse(rows, used)
        norms = np.sqrt(np.sum(np.square(rows.x.values), axis=1))
        return CentredRows(rows, centre, 0.0, norms, 0 * norms, rows.x.values.shape[1])
    n, width = rows[0].shape
    data = CentredRows(rows, np.zeros(width), 0.0, np.zeros(n), np.zeros(n), width)
    if isinstance(rows, KernelRows):
        own = np.diagonal(rows.gram).astype(np.float64)
        centre = _mean_values(data, used)
        apart = np.where(used, own - 2 * centre, np.inf)
        near = used & (apart <= np.median(apart[used]))
        centre = _mean_values(data, near)
        square = float(centre[near].mean())
        lengths = np.sqrt(np.maximum(own, 0)) + np.sqrt(max(square, 0))
        given = np.finfo(rows.gram.dtype).eps / 2 * np.maximum(own, 0)
        fuzz = np.sqrt(8 * EPS * lengths**2 + given)
        norms = np.sqrt(np.maximum(own - 2 * centre + square, 0) + fuzz**2)
        return data._replace(centre=centre, square=square, fuzz=fuzz, norms=norms)
    data = data._replace(centre=_median(rows.x, used))
    norms = [np.sqrt(np.sum(np.square(_differences(data, at)), axis=1)) for at in _blocks(data)]
    return data._replace(norms=np.concatenate(norms))


def _median(x: np.ndarray, used: np.ndarray) -> np.ndarray:
    index = np.flatnonzero(used)
    return np.median(x[index[:: -(-len(index) // MEDIAN)]].astype(np.float64), axis=0)


def _mean_values(data: CentredRows, some: np.ndarray) -> np.ndarray:
    """[n] <c, phi(x_i)> for the mean c of some feature vectors."""
    gram = np.asarray(data.rows[0])
    return np.concatenate([gram[at][:, some].mean(1, np.float64) for at in _blocks(data)])


def _centred_sparse(rows: SparseRows, used: np.ndarray) -> tuple[SparseRows, np.ndarray]:
    """Features that more than half of the examples have get a column in every row."""
    d, indices = len(rows.zero), np.asarray(rows.x.indices)
    values = np.asarray(rows.x.values, np.float64)
    n = len(indices)
    counts = np.bincount(indices[used].ravel(), minlength=d + 1)[:d]
    most = np.flatnonzero(2 * counts > used.sum())
    place = np.full(d + 1, -1)
    place[most] = np.arange(len(most))
    own = place[indices]
    row, entry = np.nonzero(own >= 0)
    common = np.zeros((n, len(most)))
    np.add.at(common, (row, own[row, entry]), values[row, entry])
    centre = np.zeros(d)
    centre[most] = _median(common, used)
    rest = np.where(own >= 0, d, indices)
    order = np.argsort(rest == d, axis=1, kind="stable")
    order = order[:, : max(1, int(np.max(np.sum(rest != d, axis=1), initial=0)))]
    left = np.take_along_axis(rest, order, 1)
    kept = np.where(left == d, 0.0, np.take_along_axis(values, order, 1))
    features = SparseFeatures(
        np.concatenate([np.broadcast_to(most, common.shape), left], 1).astype(np.int32),
        np.concatenate([common - centre[most], kept], 1),
    )
    return SparseRows(features, rows.zero), centre


def on_device(data: CentredRows, dtype: str) -> Examples:
    """The centred inputs as arrays of jax."""
    if isinstance(data.rows, SparseRows):
        return held(data.rows, dtype)
    rows = [_differences(data, at).astype(dtype) for at in _blocks(data)]
    return type(data.rows)(jnp.asarray(np.concatenate(rows)))


def held(rows: Examples, dtype: str) -> Examples:
    """Inputs as arrays of jax, as they are."""
    if isinstance(rows, SparseRows):
        indices, values = jnp.asarray(rows.x.indices, jnp.int32), jnp.asarray(rows.x.values, dtype)
        return SparseRows(SparseFeatures(indices, values), jnp.zeros(len(rows.zero), dtype))
    return type(rows)(jnp.asarray(rows[0], dtype))


def _blocks(data: CentredRows) -> Iterator[slice]:
    step = max(1, NUMBERS // max(1, data.terms))
    return (slice(at, at + step) for at in range(0, number_of(data.rows), step))


def _parts(data: CentredRows, members: np.ndarray) -> Iterator[tuple[slice, slice, Any]]:
    """Machines, places of `members` and the inputs there; padding comes as the last input."""
    n = number_of(data.rows)
    if members.shape[1] == n:
        yield from ((slice(None), at, at) for at in _blocks(data))
        return
    for m, own in enumerate(members):
        yield slice(m, m + 1), slice(None), np.minimum(own, n - 1)


def _differences(data: CentredRows, at: Any) -> np.ndarray:
    """[b, d] x_i - c in float64; rows [b, n] of the centred kernel matrix."""
    own = data.rows[0][at].astype(np.float64)
    if isinstance(data.rows, KernelRows):
        return own - data.centre[at][:, None] - (data.centre - data.square)
    return own - data.centre


def expanded(data: CentredRows, members: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """[M, d] w = sum_i beta_i (x_i - c); coefficients [M, n] of a kernel matrix.

    Args:
      members: [M, s] inputs of each machine. beta: [M, s] float64, 0 at padding.
    """
    rows = data.rows
    d = len(rows.zero) if isinstance(rows, SparseRows) else rows[0].shape[1]
    weights = np.zeros((len(beta), d))
    if isinstance(rows, KernelRows):
        machines = np.arange(len(beta))[:, None]
        np.add.at(weights, (machines, np.minimum(members, d - 1)), beta)
        return weights
    for own, place, index in _parts(data, members):
        part = beta[own, place]
        if isinstance(rows, SparseRows):
            for w, coefficients in zip(weights[own], part, strict=True):
                some = coefficients != 0
                x = SparseFeatures(*(each[index][some] for each in rows.x))
                numbers = x.values * coefficients[some][:, None]
                w += np.bincount(x.indices.ravel(), numbers.ravel(), d + 1)[:d]
        else:
            weights[own] += part @ _differences(data, index)
    return weights


def scores(data: CentredRows, members: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[M, s] <w, x_i - c> of weights [M, d] or coefficients [M, n]; anything at padding."""
    found, rows = np.zeros(members.shape), data.rows
    if isinstance(rows, SparseRows):
        weights = np.concatenate([weights, np.zeros((len(weights), 1))], axis=1)
    for own, place, index in _parts(data, members):
        if isinstance(rows, SparseRows):
            x = SparseFeatures(*(each[index] for each in rows.x))
            for row, w in zip(found[own], weights[own], strict=True):
                row[place] = np.einsum("bm,bm->b", x.values, w[x.indices])
        else:
            found[own, place] = weights[own] @ _differences(data, index).T
    if isinstance(rows, KernelRows):
        index = np.minimum(members, number_of(rows) - 1)
        found += weights.sum(1, keepdims=True) * (data.centre - data.square)[index]
    return found
