"""Gram matrices of joint kernels J((x, y), (x', y')) on pairs of inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, PyTree
from jaxstruct.kernels import gram_matrix


def joint_rows(
    kernel: Callable,
    pairs: tuple[PyTree, PyTree],
    inputs: PyTree,
    outputs: PyTree,
    block: int = 256,
) -> Array:
    """[m, k, M] J((x, y), pair) of m inputs with each of k outputs against M given pairs.

    Args:
      kernel: a function of two pairs, J((x, y), (x', y')) -> scalar; `kernels.tensor_product` and
        `kernels.direct_sum` make such functions.
      pairs: (inputs, outputs), pytrees with a leading axis [M], e.g. the training inputs and the
        outputs at `solution.support`.
      inputs: pytree with a leading axis [m]. outputs: pytree with a leading axis [k].
      block: pairs worked on together, see `kernels.gram_matrix`.
    """
    m, k = (jax.tree.leaves(tree)[0].shape[0] for tree in (inputs, outputs))
    every = (
        jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf), k, axis=0), inputs),
        jax.tree.map(lambda leaf: jnp.concatenate([jnp.asarray(leaf)] * m), outputs),
    )
    return gram_matrix(kernel, every, jax.tree.map(jnp.asarray, pairs), block).reshape(m, k, -1)


def joint_gram(kernel: Callable, inputs: PyTree, outputs: PyTree, block: int = 256) -> Array:
    """[n, k, n, k] J((x_i, y), (x_j, y')) of n inputs with each of k outputs; see `joint_rows`."""
    n, k = (jax.tree.leaves(tree)[0].shape[0] for tree in (inputs, outputs))
    every = (
        jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf), k, axis=0), inputs),
        jax.tree.map(lambda leaf: jnp.concatenate([jnp.asarray(leaf)] * n), outputs),
    )
    return joint_rows(kernel, every, inputs, outputs, block).reshape(n, k, n, k)
