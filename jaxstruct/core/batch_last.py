"""One kernel, two faces: batch last inside, one example outside.

XLA on a CPU vectorises over the trailing axis, so every oracle is written once as a kernel whose
arrays carry the batch on their last axis. `of_one_example` makes of it a function of one example
whose `vmap` rule hands the whole batch to the kernel; nested `vmap`s are merged into one axis.

The derivative of a best score is that of the score of the best output, held fixed: its counts, a
subgradient of the maximum. An oracle says how its outputs are scored, and nothing of the kernel is
ever differentiated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from jaxstruct.core.device import runs_on_cpu
from jaxstruct.core.types import Array


def _merge(leaf: Array, batched: bool, size: int, inner: int) -> Array:
    """A leaf [.., B] under one more vmap of `size`: [.., size B], or [.., 1] where all share it."""
    if not batched:
        return leaf if leaf.shape[-1] == 1 else jnp.tile(leaf, (1,) * (leaf.ndim - 1) + (size,))
    moved = jnp.moveaxis(leaf, 0, -2)  # the new axis came first
    moved = jnp.broadcast_to(moved, (*moved.shape[:-1], inner))
    return moved.reshape(*moved.shape[:-2], size * inner)


def _split(leaf: Array, size: int, inner: int) -> Array:
    return jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], size, inner), -2, 0)


def _width(arguments: Any) -> int:
    """Columns of a batch: 1 where all is shared, or of one example."""
    widths = {leaf.shape[-1] for leaf in jax.tree.leaves(arguments)}
    return 0 if 0 in widths else max(widths)


def _of_no_example(kernel: Callable, arguments: Any) -> Any:
    """Results [.., 0] of the shapes that the kernel has of one example: it meets no empty batch."""
    one = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((*leaf.shape[:-1], 1), leaf.dtype), arguments
    )
    return jax.tree.map(
        lambda leaf: jnp.zeros((*leaf.shape[:-1], 0), leaf.dtype), jax.eval_shape(kernel, *one)
    )


def _floating_leaves(tree: Any) -> list[Array]:
    return [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]


def _tangents(results: Any, dots: list[Array]) -> Any:
    """Tangents of the results: `dots` for the floating ones, 0 where these are -inf."""
    given = iter(dots)

    def of_leaf(leaf: Array) -> Any:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return np.zeros(leaf.shape, jax.dtypes.float0)
        return jnp.where(leaf > -jnp.inf, next(given), 0)

    return jax.tree.map(of_leaf, results)


def _without_columns(leaf: Any) -> Any:
    """A leaf [.., 1] as [..]. Tangents of integers hold no numbers; they lose the axis as well."""
    if leaf.dtype == jax.dtypes.float0:
        return np.zeros(leaf.shape[:-1], leaf.dtype)
    return leaf[..., 0]


def _differentiable(function: Callable, name: str, scores: Callable | None) -> Callable:
    """The function, with the derivative of `scores`. Where no derivative is taken, nothing changes.

    Args:
      function: of a tuple of arguments with trailing axes of 1.
      name: for the message. scores: as in `of_one_example`.
    """
    differentiable = jax.custom_jvp(function)

    @differentiable.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
        results = differentiable(*primals)
        if scores is None and _floating_leaves(results):
            raise TypeError(
                f"what {name} computes has no derivative in JAX: differentiate log_partition, or "
                "the score of an output (score_labels, score_tree, score_operations), or pass "
                "jax.lax.stop_gradient of the arguments"
            )
        if scores is None:
            return results, _tangents(results, [])
        held = jax.lax.stop_gradient(results)
        (arguments,), (moves,) = jax.tree.map(_without_columns, (primals, tangents))
        _, dots = jax.jvp(functools.partial(scores, held), arguments, moves)
        return results, _tangents(results, jax.tree.leaves(dots))

    return differentiable


def of_one_example(kernel: Callable, scores: Callable | None = None) -> Callable:
    """The function of one example that a batch-last kernel computes.

    Args:
      kernel: (arguments) -> results, pytrees of arrays with a trailing batch axis. An argument that
        all examples share comes with a trailing axis of 1, the others with B (for one example, B is
        1); results must have B. It must work column by column.
      scores: (results, *arguments) -> the floating-point results once more, of one example and in
        their order, from its integer results; linear in what is differentiated, as the score of a
        given output is. Its derivative is that of the oracle. None: a derivative of floating-point
        results raises TypeError.

    Returns:
      The same function without the trailing axis. Under `vmap`, however nested, it calls the kernel
      once for all examples. Trailing positional arguments that are no arrays are not allowed: bind
      static choices with `functools.partial` and keep the result, since every call of
      `of_one_example` makes a new function to compile.
    """

    @custom_vmap
    def columns(arguments: Any) -> Any:
        inner = _width(arguments)
        if inner == 0:
            return _of_no_example(kernel, arguments)
        return jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (*leaf.shape[:-1], inner)), kernel(*arguments)
        )

    @columns.def_vmap
    def rule(size: int, batched: Any, arguments: Any) -> tuple[Any, Any]:
        (flags,) = batched
        inner = _width(arguments)
        merged = jax.tree.map(lambda leaf, flag: _merge(leaf, flag, size, inner), arguments, flags)
        results = columns(merged)
        split = jax.tree.map(lambda leaf: _split(leaf, size, inner), results)
        return split, jax.tree.map(lambda _: True, results)

    def of_columns(arguments: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[..., 0], columns(arguments))

    name = getattr(kernel, "func", kernel).__module__
    differentiable = _differentiable(of_columns, name, scores)

    @functools.wraps(kernel)
    def one(*arguments: Any) -> Any:
        return differentiable(jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., None], arguments))

    return one


def batch_size(*arguments: Any) -> int:
    """B: the largest trailing axis (an argument that all examples share has 1)."""
    return max(leaf.shape[-1] for leaf in jax.tree.leaves(arguments))


def in_column_blocks(kernel: Callable, width: int, *, of_memory: bool = False) -> Callable:
    """The batch-last kernel that works through a wide batch block by block.

    A table of a wide batch leaves the caches of a core; blocks of a few columns stay there. An
    accelerator runs blocks one after the other, so there a batch is one call: 256 best projective
    trees of 40 words took an H100 .79 s in blocks and .06 s whole.

    Args:
      kernel: as in `of_one_example`.
      width: columns a block at most; a batch of no more is one call, the last block is filled up
        with its last column.
      of_memory: whether a wider batch may not fit in memory; then there are blocks everywhere.

    Returns:
      A kernel of the same arguments and results.
    """

    @functools.wraps(getattr(kernel, "func", kernel))
    def blocked(*arguments: Any) -> Any:
        batch = max(leaf.shape[-1] for leaf in jax.tree.leaves(arguments))
        if batch <= width or not (of_memory or runs_on_cpu()):
            return kernel(*arguments)
        blocks = -(-batch // width)
        own = min(width, 16 * -(-batch // (16 * blocks)))  # even blocks of whole vectors
        filled = jax.tree.map(lambda leaf: _fill_up(leaf, blocks * own), arguments)

        def of_block(start: Array) -> Any:
            return kernel(*jax.tree.map(lambda leaf: _columns(leaf, start, own), filled))

        results = jax.lax.map(of_block, own * jnp.arange(blocks, dtype=jnp.int32))
        return jax.tree.map(lambda leaf: _join(leaf, batch), results)

    return blocked


def _fill_up(leaf: Array, columns: int) -> Array:
    if leaf.shape[-1] == 1:
        return leaf
    missing = [(0, 0)] * (leaf.ndim - 1) + [(0, columns - leaf.shape[-1])]
    return jnp.pad(leaf, missing, mode="edge")


def _columns(leaf: Array, start: Array, width: int) -> Array:
    if leaf.shape[-1] == 1:
        return leaf
    return jax.lax.dynamic_slice_in_dim(leaf, start, width, axis=leaf.ndim - 1)


def _join(leaf: Array, batch: int) -> Array:
    """[blocks, .., width] as [.., batch]."""
    moved = jnp.moveaxis(leaf, 0, -2)
    return moved.reshape(*moved.shape[:-2], -1)[..., :batch]
