"""Training examples on the device, as the baselines read them."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.chains.potentials import ChainInput
from jaxstruct.core.contract import Problem
from jaxstruct.core.device import on_device
from jaxstruct.core.types import Array, PyTree


def typed_on_device(tree: PyTree, dtype: jnp.dtype) -> PyTree:
    """Device arrays: floating-point leaves in the dtype of the run, integers in int32."""

    def put(leaf: np.ndarray) -> Array:
        kind = jnp.result_type(leaf)
        if jnp.issubdtype(kind, jnp.floating):
            return on_device(leaf, dtype)
        return on_device(leaf, jnp.int32 if jnp.issubdtype(kind, jnp.integer) else None)

    return jax.tree.map(put, tree)


def without_gram(inputs: PyTree) -> PyTree:
    """Inputs of a chain without their token Gram matrices: only dual solvers read these."""
    return inputs._replace(gram=None) if isinstance(inputs, ChainInput) else inputs


def labels_of(outputs: PyTree) -> int:
    """Labels of one example of a bucket, padding included."""
    return max(1, sum(math.prod(np.shape(leaf)[1:]) for leaf in jax.tree.leaves(outputs)))


def _shapes(tree: PyTree) -> tuple[object, list[tuple[int, ...]]]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [np.shape(leaf) for leaf in leaves]


def first_weights(problem: Problem, start: PyTree | None) -> PyTree:
    """The weights to start from, zeros where `start` is None, in the dtype of the problem.

    Raises:
      ValueError: start is of other shapes than the weights of the problem.
    """
    zeros = problem.initial_weights
    if start is None:
        return zeros
    if _shapes(start) != _shapes(zeros):
        raise ValueError(
            f"start must be weights of the shapes {jax.tree.map(np.shape, zeros)}, got "
            f"{jax.tree.map(np.shape, start)}: give weights of the same problem"
        )
    return jax.tree.map(lambda zero, leaf: on_device(leaf, zero.dtype), zeros, start)
