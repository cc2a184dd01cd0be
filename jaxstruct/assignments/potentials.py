"""Two sets of items to match, potentials of a matching, and its score under them.

    F(y) = sum over matched (i, j) of pairs[i, j] + sum over unmatched i of rows[i]
           + sum over unmatched j of columns[j]

Items of the first set are rows 0..r-1, those of the second columns 0..c-1. A matching y is a list
of columns, one a row, no column twice; NONE where a row is matched to nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxstruct.core.spec import one_example
from jaxstruct.core.types import AnyArray, Array, PyTree, SparseFeatures

NONE = -1
"""The column of a row that is matched to nothing, and of positions beyond the rows."""


class MatchingTheta(NamedTuple):
    """Potentials of one example.

    Fields:
      pairs: [R, C]. allowed: [R, C] bool, which pairs may be matched; none of padding.
      rows: [R], columns: [C] of unmatched items; None where they count nothing.
      sizes: [2] int32, r and c.
    """

    pairs: Array
    allowed: Array
    rows: Any
    columns: Any
    sizes: Array


def oracle_arguments(theta: MatchingTheta) -> tuple[Array, Array]:
    """(pairs, -inf where they are forbidden, and sizes), as the oracles take them."""
    return jnp.where(theta.allowed, theta.pairs, -jnp.inf), theta.sizes


class Matching(NamedTuple):
    """The column of each row [R] (or [k, R] of several matchings) and the score F (or [k])."""

    columns: Array
    score: Array


def score_matching(
    pairs: Array, y: Array, sizes: Array, rows: Any = None, columns: Any = None
) -> Array:
    """F(y) of one matching, differentiable in the potentials.

    Args:
      pairs: [R, C]. y: [R] int32, NONE of unmatched rows and of padding.
      sizes: [2] int32, r and c. rows, columns: [R] and [C] of unmatched items, or None for 0.
    """
    R, C = pairs.shape
    matched = y >= 0
    own = jnp.take_along_axis(pairs, jnp.maximum(y, 0)[:, None], axis=1)[:, 0]
    total = jnp.sum(jnp.where(matched, own, 0))
    if rows is not None:
        total += jnp.sum(jnp.where(~matched & (jnp.arange(R) < sizes[0]), rows, 0))
    if columns is not None:
        every = jnp.sum(jnp.where(jnp.arange(C) < sizes[1], columns, 0))
        total += every - jnp.sum(jnp.where(matched, columns[y], 0))
    return total


class _Given(NamedTuple):
    """What an oracle is given."""

    pairs: Array
    sizes: Array
    rows: Any
    columns: Any


def checked_potentials(
    pairs: Array, sizes: Array, rows: Any, columns: Any
) -> tuple[Array, Array, Any, Any]:
    """Potentials and sizes of one example as arrays.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    given, axes = _Given(pairs, sizes, rows, columns), {"rows": "R", "columns": "C"}
    return one_example("potentials", given, {}, ["sizes"], pairs="R C", sizes="2", **axes)


class MatchingInput(NamedTuple):
    """Two sets to match; `prepare` and encodings make n of them, with `Ragged` leaves.

    Fields:
      features: [P, d] of pairs, or SparseFeatures of [P, m] leaves; zeros on padding.
      pairs: [P, 2] int32 the row and the column of each pair, -1 on padding; the others are
        forbidden. None where all r c pairs come row by row.
      rows, columns: [R, e] and [C, f] of the items, or SparseFeatures; what is read of them where
        items have no features is how many there may be.
      sizes: [2] int32, r and c.
    """

    features: PyTree
    pairs: AnyArray | None
    rows: PyTree
    columns: PyTree
    sizes: AnyArray


def store_of(features: PyTree) -> Any:
    """The first of the stores (or arrays) that features consist of."""
    return features.indices if isinstance(features, SparseFeatures) else features
