"""The conditional log-likelihood of a training set, block by block, with its gradient in w.

    sum_i -log P(y_i | x_i; w) = sum_i [log Z(x_i; w) - F(x_i, y_i; w)],
    log Z(x; w) = log sum_y exp F(x, y; w)

Its gradient is sum_i A_i' (expected parts - true parts), with A_i the map from w to the potentials
of x_i: one `Problem.add` a block, so that with sparse features no dense feature vector is formed.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.baselines.examples import labels_of, typed_on_device, without_gram
from jaxstruct.core.buckets import Buckets, rows_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.device import on_device
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.task import batches_of


class Block(NamedTuple):
    """Some examples of one bucket, leaves [rows, ...].

    Fields:
      inputs, outputs: as a Problem takes them.
      real: [rows] False on padding, which repeats an example.
      weights: [rows] v_i of the examples; None where all are 1.
    """

    inputs: PyTree
    outputs: PyTree
    real: Array
    weights: Array | None = None


def in_blocks(
    inputs: Buckets,
    outputs: Buckets,
    positions: int,
    dtype: jnp.dtype,
    weights: np.ndarray | None = None,
) -> tuple[Block, ...]:
    """The training set in blocks of about so many labels, padding included.

    The blocks of a bucket have one size, a multiple of 8 rows, so that training sets of about equal
    size (folds) share their programs.

    Args:
      inputs, outputs: Buckets with the same examples in the same places.
      positions: labels in a block, at least 1; a block has 8 rows at least.
      dtype: of the floating-point numbers.
      weights: [n] v_i of the examples, or None.
    """
    blocks = []
    for x, y, index in zip(inputs.parts, outputs.parts, outputs.index, strict=True):
        n = rows_of(y)
        count, rows = batches_of(n, max(1, positions // labels_of(y)), 8)
        for first in range(0, count * rows, rows):
            place = np.arange(first, first + rows)
            own = np.where(place < n, place, 0)
            some = jax.tree.map(lambda leaf, own=own: np.asarray(leaf)[own], (without_gram(x), y))
            x_rows, y_rows = typed_on_device(some, dtype)
            v = None if weights is None else on_device(weights[index[own]], dtype)
            blocks.append(Block(x_rows, y_rows, on_device(place < n), v))
    return tuple(blocks)


def _block_sum(problem: Problem, theta: PyTree, block: Block) -> Array:
    values = jax.vmap(problem.inference.log_loss)(theta, block.outputs)
    values = values if block.weights is None else block.weights * values
    return jnp.sum(jnp.where(block.real, values, 0))


def values_and_slopes(problem: Problem, theta: PyTree, outputs: PyTree) -> tuple[Array, PyTree]:
    """([B] -log P of the examples of a batch, their gradients in theta).

    The gradients are expected less true parts, shaped as theta, its integers (lengths) in place.
    """

    def total(theta: PyTree) -> tuple[Array, Array]:
        values = jax.vmap(problem.inference.log_loss)(theta, outputs)
        return jnp.sum(values), values

    u, values = jax.grad(total, allow_int=True, has_aux=True)(theta)
    return values, _fill(u, theta)


def _fill(u: PyTree, theta: PyTree) -> PyTree:
    """A gradient in theta with the integers of theta (lengths) in place."""
    return jax.tree.map(
        lambda g, leaf: leaf if g.dtype == jax.dtypes.float0 else g.astype(leaf.dtype), u, theta
    )


@partial(jax.jit, donate_argnames="gradient")
def add_block(
    problem: Problem, weights: PyTree, block: Block, gradient: PyTree
) -> tuple[Array, PyTree]:
    """(sum over one block, gradient): the gradient so far plus that of the block.

    One program a size of block; `gradient` is updated in place.
    """
    theta = jax.vmap(problem.model.potentials, (None, 0))(weights, block.inputs)
    value_of = jax.value_and_grad(partial(_block_sum, problem), allow_int=True)
    value, u = value_of(theta, block)
    return value, problem.space.add(gradient, block.inputs, _fill(u, theta))


@jax.jit
def _zeros(weights: PyTree) -> PyTree:
    """One program, where the weights are: at every call a move from the host would take longer."""
    return jax.tree.map(jnp.zeros_like, weights)


def value_and_gradient(
    problem: Problem, weights: PyTree, blocks: tuple[Block, ...]
) -> tuple[float, PyTree]:
    """sum_i v_i (-log P(y_i | x_i; w)) and its gradient in w.

    Args:
      problem: a structure with `inference.log_loss`.
      weights: w.
      blocks: from `in_blocks`.

    Returns:
      (the sum, its gradient shaped as w). Values of blocks are added in float64.
    """
    gradient, values = _zeros(weights), []
    for block in blocks:
        value, gradient = add_block(problem, weights, block, gradient)
        values.append(value)
    return float(np.sum([np.float64(value) for value in values])), gradient
