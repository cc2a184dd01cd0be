"""The fixed side of a run: examples padded to whole batches, and the numbers of the formulation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.solvers.formulations import Formulation, penalty
from jaxstruct.solvers.passes import Task
from jaxstruct.structures.problem import Problem
from jaxstruct.types import PyTree


def padded(tree: PyTree, total: int) -> PyTree:
    """The first row repeated up to `total` rows; padding carries weight 0."""

    def pad(leaf: np.ndarray) -> jax.Array:
        leaf = np.asarray(leaf)
        short = total - leaf.shape[0]
        return jnp.asarray(np.concatenate([leaf, np.repeat(leaf[:1], short, axis=0)]))

    return jax.tree.map(pad, tree)


def make_task(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    formulation: Formulation,
    C: float,
    example_weights: np.ndarray | None,
    batch: int,
) -> Task:
    """The fixed side of a run, its examples padded to a multiple of `batch` with weight 0."""
    n = jax.tree.leaves(outputs)[0].shape[0]
    total = -(-n // batch) * batch
    weights = np.zeros(total)
    weights[:n] = 1.0 if example_weights is None else example_weights
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))

    def typed(leaf: np.ndarray) -> np.ndarray:
        leaf = np.asarray(leaf)
        return leaf.astype(dtype) if np.issubdtype(leaf.dtype, np.floating) else leaf

    outputs = jax.tree.map(lambda leaf: np.asarray(leaf).astype(np.int32), outputs)
    terms = penalty(formulation, C, weights, n, dtype)
    return Task(padded(jax.tree.map(typed, inputs), total), padded(outputs, total), terms)
