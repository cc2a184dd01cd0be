"""Features of single tokens in a loop: their scores, and planes added to them.

Without scatters, as `chains.differences` is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.chains.token_features import KernelTokens, token_scores
from jaxstruct.core.loops import put
from jaxstruct.core.types import Array, PyTree, SparseFeatures


class Moved(NamedTuple):
    """The planes of one example with a c other than 0: the first `count` of slots [K]; c: [K]."""

    slots: Array
    count: Array
    c: Array

    def along(self, step: Callable, start: PyTree) -> PyTree:
        """step(slot, state) for each of them."""
        return jax.lax.fori_loop(0, self.count, lambda m, state: step(self.slots[m], state), start)


def scores_of(v: PyTree, features: PyTree) -> Array:
    """[S] <u_s, Phi(x)> of one token."""
    if isinstance(features, SparseFeatures):
        rows = v["emissions"].at[features.indices].get(mode="clip")
        return jnp.sum(features.values[:, None] * rows, axis=0)
    return token_scores(v["emissions"].T, features)


def sums_of(moved: Moved, labels: Array, S: int) -> Array:
    """[S] the sum of the c of each label."""

    def add(k: Array, found: Array) -> Array:
        return put(found, labels[k], found[labels[k]] + moved.c[k])

    return moved.along(add, jnp.zeros(S, moved.c.dtype))


def add_token(u: Array, features: PyTree, moved: Moved, labels: Array) -> Array:
    """u with the c of every plane at the features of one token, in the layout of `unpack`."""
    if isinstance(features, SparseFeatures):
        c, (indices, amounts) = sums_of(moved, labels, u.shape[1]), features

        def add(m: Array, u: Array) -> Array:
            row = jax.lax.dynamic_slice_in_dim(u, indices[m], 1)[0]
            return put(u, indices[m], row + jnp.where(indices[m] < u.shape[0], amounts[m], 0) * c)

        return jax.lax.fori_loop(0, indices.shape[0], add, u)
    if isinstance(features, KernelTokens):
        c = sums_of(moved, labels, u.shape[0])
        column = jax.lax.dynamic_slice_in_dim(u, features.anchors, 1, 1)
        column = column + jnp.where(features.anchors < u.shape[1], c, 0)[:, None]
        return jax.lax.dynamic_update_slice_in_dim(u, column, features.anchors, 1)

    def row(k: Array, u: Array) -> Array:
        old = jax.lax.dynamic_slice_in_dim(u, labels[k], 1)[0]
        return put(u, labels[k], old + moved.c[k] * features)

    return moved.along(row, u)
