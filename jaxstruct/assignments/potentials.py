"""Potentials of a matching of two sets, and the score of a matching under them.

    F(y) = sum over matched (i, j) of pairs[i, j] + sum over unmatched i of rows[i]
           + sum over unmatched j of columns[j]

Items of the first set are rows 0..r-1, those of the second columns 0..c-1. A matching y is a list
of columns, one a row, no column twice; NONE where a row is matched to nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxstruct.core.types import Array

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
        taken = jnp.any(y[:, None] == jnp.arange(C)[None], axis=0)
        total += jnp.sum(jnp.where(~taken & (jnp.arange(C) < sizes[1]), columns, 0))
    return total


def checked_potentials(
    pairs: Array, sizes: Array, rows: Any, columns: Any
) -> tuple[Array, Array, Any, Any]:
    """Potentials and sizes of one example as arrays.

    Raises:
      ValueError: shapes do not fit together, or a dtype is not what it should be.
    """
    pairs, sizes = jnp.asarray(pairs), jnp.asarray(sizes)
    if pairs.ndim != 2 or 0 in pairs.shape or not jnp.issubdtype(pairs.dtype, jnp.floating):
        raise ValueError(
            "pairs must be [R, C] floating-point numbers of one example, R and C >= 1, got "
            f"{pairs.dtype} of shape {pairs.shape}; use jax.vmap for a batch"
        )
    if sizes.shape != (2,) or not jnp.issubdtype(sizes.dtype, jnp.integer):
        raise ValueError(
            f"sizes must be [2] integers, the rows and the columns, got {sizes.dtype} of shape "
            f"{sizes.shape}"
        )
    given = []
    for name, values, size in (("rows", rows, 0), ("columns", columns, 1)):
        values = None if values is None else jnp.asarray(values)
        if values is not None and (values.shape, values.dtype) != (
            pairs.shape[size : size + 1], pairs.dtype
        ):  # fmt: skip
            raise ValueError(
                f"{name} must be [{pairs.shape[size]}] {pairs.dtype} as pairs have, or None, got "
                f"{values.dtype} of shape {values.shape}"
            )
        given.append(values)
    return pairs, sizes.astype(jnp.int32), *given
