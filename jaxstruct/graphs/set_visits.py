"""Features of nodes, edges and sets by rows, and visits to single sets of labels.

Three linear maps are all that a graph needs of them:

    row_scores   [R, P] <u_p, Phi_r>
    add_rows     u + sum_b sum_r Phi_br (x) c_br
    row_action   [R, P] sum_r' <Phi_r, Phi_r'> c_r'

Visits are loops that a CPU does in place. A set y in {0, 1}^L has F = c + sum_l (u_l + s_l) y_l +
sum_{k < l} q^{kl} y_k y_l, where c, s and q are of the tables of pairs. Inner products of sets
count the labels in which two sets agree: of all pairs of labels, a (a - 1) / 2 agree where a labels
do.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import rows_at
from jaxstruct.core.contract import Differences
from jaxstruct.core.feature_scores import add_to_rows, sum_of_rows
from jaxstruct.core.loops import for_each, when
from jaxstruct.core.types import Array, PyTree, SparseFeatures, Static


def _find(y: Array) -> Array:
    """Planes [B, K, L] as [B, L, K] bytes: a loop over labels reads whole rows."""
    return jnp.swapaxes(y, 1, 2).astype(jnp.int8)


def _unpack(w: PyTree, inputs: PyTree) -> PyTree:
    """Tables of pairs [P, 2, 2] as [4, P], the columns 00, 01, 10, 11 of all of them."""
    del inputs
    return {name: leaf.reshape(-1, 4).T if name == "pairs" else leaf for name, leaf in w.items()}


def _pack(v: PyTree, inputs: PyTree) -> PyTree:
    del inputs
    return {name: leaf.T.reshape(-1, 2, 2) if name == "pairs" else leaf for name, leaf in v.items()}


def _scores(labels: Array, pairs: Array | None, y: Array) -> Array:
    """[K] F up to a constant of sets y [L, K]; labels: [L] u. pairs: [4, P], or None."""
    L, K = y.shape
    y, zero = y.astype(labels.dtype), jnp.zeros(K, labels.dtype)
    if pairs is None:
        return jax.lax.fori_loop(0, L, lambda one, total: total + labels[one] * y[one], zero)
    low, second, first = pairs[0], pairs[1] - pairs[0], pairs[2] - pairs[0]
    both = pairs[3] - low - second - first

    def of_label(one: Array, state: tuple) -> tuple:
        def of_pair(other: Array, state: tuple) -> tuple:
            p, own, total, met = state
            return p + 1, own + first[p], total + second[p] * y[other], met + both[p] * y[other]

        p, total = state
        p, own, total, met = jax.lax.fori_loop(one + 1, L, of_pair, (p, labels[one], total, zero))
        return p, total + y[one] * (own + met)

    return jax.lax.fori_loop(0, L, of_label, (jnp.int32(0), zero))[1]


def _values(v: PyTree, inputs: PyTree, planes: Array, index: Array) -> Array:
    def of_one(at: Array) -> Array:
        return _scores(sum_of_rows(v["labels"], rows_at(inputs, at)), v.get("pairs"), planes[at])

    return jax.lax.map(of_one, index)


def _counts(y: Array, c: Array) -> tuple[Array, Array]:
    """([L] sum_k c_k y_k, [L, L] sum_k c_k y_k y_k') of sets y [L, K]."""
    L = y.shape[0]

    def add(k: Array, state: tuple) -> tuple:
        own = c[k] * y[:, k].astype(c.dtype)
        return state[0] + own, state[1] + own[:, None] * y[None, :, k].astype(c.dtype)

    return for_each(c != 0, add, (jnp.zeros(L, c.dtype), jnp.zeros((L, L), c.dtype)))


def _add(v: PyTree, inputs: PyTree, planes: Array, index: Array, coefficients: Array) -> PyTree:
    L = planes.shape[1]
    first, second = (jnp.asarray(ends, jnp.int32) for ends in np.triu_indices(L, 1))

    def of_one(number: Array, v: PyTree) -> PyTree:
        at, c = index[number], coefficients[number]
        alone, met = _counts(planes[at], c)
        new = {"labels": add_to_rows(v["labels"], rows_at(inputs, at), alone)}
        if "pairs" in v:

            def add(pairs: Array) -> Array:
                a, b, both = alone[first], alone[second], met.ravel()[first * L + second]
                return pairs + jnp.stack([both - a - b, b - both, a - both, both])

            new["pairs"] = when(jnp.any(c != 0), add, v["pairs"])
        return new

    return jax.lax.fori_loop(0, index.shape[0], of_one, v)


def squared_norm_of(x: PyTree) -> Array:
    """|Phi(x)|^2."""
    values = x.values if isinstance(x, SparseFeatures) else x
    values = values.astype(jnp.result_type(values.dtype, jnp.float32))  # bytes would wrap
    # behind a barrier the sum stays a loop, and calls no library for a product of vectors
    return jnp.sum(jax.lax.optimization_barrier(values * values))


def _agreeing_pairs(y: Array, z: Array) -> Array:
    """[..] of how many pairs of labels both agree."""
    count = jnp.sum((y == z).astype(jnp.int32), axis=-1)
    return count * (count - 1) // 2


def plane_gram(with_pairs: Static, x: PyTree, y_true: Array, outputs: Array, y: Array) -> Array:
    """[K] <delta Psi(y_k), delta Psi(y)>, where "labels" count one and each pair of them one."""
    y_true, y = y_true[None], y[None]
    shared = jnp.sum((outputs != y_true) & (y != y_true), axis=-1)
    products = squared_norm_of(x) * shared
    if not with_pairs.value:
        return products
    L = y.shape[-1]
    agree = _agreeing_pairs(outputs, y) - _agreeing_pairs(outputs, y_true)
    return products + (L * (L - 1) // 2 - _agreeing_pairs(y_true, y) + agree)


SET_DIFFERENCES = Differences(_find, _unpack, _values, _add, _pack, None)


def row_scores(u: Array, rows: PyTree) -> Array:
    """[R, P] <u_p, Phi_r> of the rows of one example; u is [d, P]."""
    if isinstance(rows, SparseFeatures):
        read = u.at[rows.indices].get(mode="clip")  # padding has the value 0
        return jnp.einsum("rm,rmp->rp", rows.values, read)
    return rows @ u


def add_rows(u: Array, rows: PyTree, c: Array) -> Array:
    """u + sum_b sum_r Phi_br (x) c_br of a batch; c is [B, R, P], 0 on padding."""
    if isinstance(rows, SparseFeatures):
        return u.at[rows.indices].add(rows.values[..., None] * c[:, :, None, :], mode="drop")
    flat = rows.reshape(-1, rows.shape[-1])
    # XLA would turn this product around and transpose the features, which takes twice as long
    change = jax.lax.optimization_barrier(c.reshape(-1, c.shape[-1]).T @ flat)
    return u + change.T


def row_action(rows: PyTree, c: Array) -> Array:
    """[R, P] the scores of one example's rows after c [R, P] was added at them to zero weights."""
    if isinstance(rows, SparseFeatures):
        same = rows.indices[:, None, :, None] == rows.indices[None, :, None, :]
        gram = jnp.einsum("rm,sn,rsmn->rs", rows.values, rows.values, same.astype(c.dtype))
        return gram @ c
    return rows @ (rows.T @ c)
