"""Features of nodes and edges, a row each: dense or sparse.

Three linear maps are all that a graph needs of them:

    row_scores   [R, P] <u_p, Phi_r>
    add_rows     u + sum_b sum_r Phi_br (x) c_br
    row_action   [R, P] sum_r' <Phi_r, Phi_r'> c_r'
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, PyTree, SparseFeatures


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
