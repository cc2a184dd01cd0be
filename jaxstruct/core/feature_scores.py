"""Weights times features: of rows, and of the one input of a visit in loops without scatters.

`sum_of_rows` and `add_to_rows` are the two linear maps of a visit to a single example, without a
scatter and without a call of a library for products of matrices.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxstruct.core.loops import put
from jaxstruct.core.types import Array, PyTree, SparseFeatures

TOGETHER = 4
"""Rows of dense features that one turn of a loop reads: 64 rows of 10 numbers take .16 us so, .32
one by one."""


def feature_scores(weights: Array, features: PyTree) -> Array:
    """[..] <w, Phi> of rows [.., d], or of `SparseFeatures` whose leaves are [.., m]; w is [d]."""
    if isinstance(features, SparseFeatures):
        entries = weights.at[features.indices].get(mode="fill", fill_value=0)
        return jnp.sum(features.values * entries, axis=-1)
    return features @ weights


def sum_of_rows(table: Array, x: PyTree) -> Array:
    """[p] sum_j x_j table_j of one input, dense [d] or sparse; table is [d, p]."""
    start = jnp.zeros(table.shape[1], table.dtype)
    if isinstance(x, SparseFeatures):

        def of_feature(j: Array, found: Array) -> Array:
            return found + x.values[j] * table[x.indices[j]]

        return jax.lax.fori_loop(0, _real(table, x), of_feature, start)

    def of_block(first: Any, rows: int, found: Array) -> Array:
        part = jax.lax.dynamic_slice_in_dim(table, first, rows)
        own = jax.lax.dynamic_slice_in_dim(x, first, rows)
        terms = [own[j] * part[j] for j in range(rows)]
        while len(terms) > 1:  # in pairs, which do not wait for one another
            terms = [sum(terms[at : at + 2]) for at in range(0, len(terms), 2)]
        return found + terms[0]

    whole, rest = divmod(table.shape[0], TOGETHER)
    found = start
    if whole:
        found = jax.lax.fori_loop(
            0, whole, lambda block, found: of_block(TOGETHER * block, TOGETHER, found), start
        )
    return of_block(TOGETHER * whole, rest, found) if rest else found


def add_to_rows(table: Array, x: PyTree, u: Array) -> Array:
    """The table with x_j u added to row j, in place; it is not even read where u [p] is 0."""
    moves = jnp.any(u != 0).astype(jnp.int32)
    if isinstance(x, SparseFeatures):

        def of_feature(j: Array, table: Array) -> Array:
            return put(table, x.indices[j], table[x.indices[j]] + x.values[j] * u)

        return jax.lax.fori_loop(0, moves * _real(table, x), of_feature, table)
    return jax.lax.fori_loop(0, moves, lambda _, table: table + x[:, None] * u[None], table)


def _real(table: Array, x: SparseFeatures) -> Array:
    """How many of the features are no padding, which comes last."""
    return jnp.sum((x.indices < table.shape[0]).astype(jnp.int32))
