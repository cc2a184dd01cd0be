"""Batches: the mean of a loss over one, by one `vmap`, and ragged examples as the arrays of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxstruct.core.checks import text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.padding import padded
from jaxstruct.core.types import Array, PyTree
from jaxstruct.losses.validation import checked_problem


def mean_loss(
    loss: Callable[..., Array],
    problem: Problem,
    w: PyTree,
    x: PyTree,
    y: PyTree,
    *,
    key: Array | None = None,
    example_weights: Array | None = None,
    **options: Any,
) -> Array:
    """sum_i v_i l(potentials(w, x_i), y_i) / sum_i v_i over the examples of a batch.

    Gradients flow into the weights w of the last, linear layer and into the floating-point parts of
    x, such as features that a network made; integers of x (lengths) pass through.

    Args:
      loss: (problem, theta, y, **options) -> scalar, such as `structured_hinge` or `log_loss`.
      problem: the structure.
      w: its weights, shaped as `problem.initial_weights`.
      x: [B, ...] inputs, padded. y: [B, ...] true outputs, padded.
      key: of jax.random, for `perturbed`: split over the examples and handed on as key=.
      example_weights: [B] v_i >= 0, 0 for rows that fill up a batch; None for ones.
      options: of the loss, such as formulation="svm1_slack".

    Returns:
      A scalar; 0 where all weights are 0.

    Raises:
      ValueError: problem is none, loss is no function, the batch is empty, example_weights are not
        [B], or as the loss.
    """
    checked_problem(problem)
    if not callable(loss):
        raise ValueError(
            f"loss must be a function (problem, theta, y) -> scalar, got {text_of(loss)}: such as "
            "jaxstruct.losses.log_loss"
        )
    sizes = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves((x, y))}
    if len(sizes) != 1 or not sizes <= {(n,) for (n,) in sizes if n}:
        raise ValueError(
            "x and y must be a batch whose leaves are all [B, ...], B >= 1, got first axes "
            f"{sorted(sizes)}"
        )
    ((count,),) = sizes
    keys = None if key is None else jax.random.split(key, count)

    def of_one(x: PyTree, y: PyTree, key: Array | None) -> Array:
        given = {} if key is None else {"key": key}
        return loss(problem, problem.model.potentials(w, x), y, **given, **options)

    x, y = jax.tree.map(jnp.asarray, (x, y))  # NumPy arrays that a jitted loss closes over
    values = jax.vmap(of_one)(x, y, keys)
    if example_weights is None:
        return jnp.mean(values)
    weights = jnp.asarray(example_weights, values.dtype)
    if weights.shape != (count,):
        raise ValueError(f"example_weights must be [B] = [{count}], got shape {weights.shape}")
    total = jnp.sum(weights)
    return jnp.sum(weights * values) / jnp.where(total > 0, total, 1)


def padded_batch(problem: Problem, x: PyTree, y: PyTree) -> tuple[PyTree, PyTree]:
    """(x, y) with every `Ragged` leaf as an array [B, T, ...], padded to the longest example.

    `fit` sorts examples into buckets by itself; a training loop of one's own may take mini-batches
    (`jaxstruct.take`) of one such batch, so that all have one shape and one program.

    Args:
      problem: the structure. x, y: its inputs and true outputs, stores or arrays; arrays pass.

    Raises:
      ValueError: problem is none, or x and y are not of the same examples.
    """
    return padded(checked_problem(problem).padding, x, y)
