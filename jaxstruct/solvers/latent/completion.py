"""The best outputs that agree with what is known, and random ones to begin with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets, rows_of
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Incomplete, Model, Problem, Truth
from jaxstruct.core.padding import bucketed
from jaxstruct.core.transposition import linear_leaves, with_linear_leaves
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.task import padded_rows
from jaxstruct.solvers.validation.checks import checked_buckets, checked_examples

BATCH = 32
"""Examples completed side by side, at most: 300 Spanish sentences take .08 s, .64 with 256."""


class Completed(NamedTuple):
    """Outputs that agree with what is known, of n examples.

    Fields:
      outputs: `Buckets` of `Truth`s, the known part beside each output.
      gain: [n] by how much F of each is above that of the output before it, >= 0.
    """

    outputs: Buckets
    gain: np.ndarray


@jax.jit
def _complete_batch(model: Model, w: PyTree, x: PyTree, y: Truth) -> tuple[PyTree, Array]:
    """(outputs [B], gains [B]); the output before stays where none is better."""

    def one(x: PyTree, y: Truth) -> tuple[PyTree, Array]:
        theta = model.potentials(w, x)
        found = model.complete(theta, y.numbers)
        gain = model.score(theta, found) - model.score(theta, y.output)
        kept = jax.tree.map(lambda new, old: jnp.where(gain > 0, new, old), found, y.output)
        return kept, jnp.maximum(gain, 0)

    return jax.vmap(one)(x, y)


@jax.jit
def _draw_batch(model: Model, w: PyTree, x: PyTree, y: Truth, keys: Array) -> tuple[PyTree, Array]:
    """Outputs that are best under potentials drawn from a normal distribution, and zeros."""

    def one(x: PyTree, y: Truth, key: Array) -> PyTree:
        theta = model.potentials(w, x)
        leaves = linear_leaves(theta)
        own = zip(jax.random.split(key, len(leaves)), leaves, strict=True)
        drawn = [jax.random.normal(key, leaf.shape, leaf.dtype) for key, leaf in own]
        return model.complete(with_linear_leaves(theta, drawn), y.numbers)

    return jax.vmap(one)(x, y, keys), jnp.zeros(len(keys), jnp.float32)


_complete_program, _draw_program = program(_complete_batch), program(_draw_batch)


def _each(run: Callable, inputs: PyTree, outputs: Truth, index: np.ndarray) -> tuple:
    """The answers of a program that takes batches of one bucket; index: its examples."""
    n = rows_of(inputs)
    size = min(BATCH, 1 << max(n - 1, 0).bit_length())
    x, y, at = padded_rows((inputs, outputs, index), -(-n // size) * size)
    pieces = []
    for first in range(0, len(at), size):
        part = jax.tree.map(lambda leaf, at=first: leaf[at : at + size], (x, y, at))
        pieces.append(run(*part))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:n], *pieces)


def _gathered(run: Callable, inputs: Buckets, outputs: Buckets) -> Completed:
    parts, gain = [], np.zeros(sum(map(len, outputs.index)))
    for x, y, index in zip(inputs.parts, outputs.parts, outputs.index, strict=True):
        found, gain[index] = _each(run, x, y, index)
        parts.append(Truth(jax.tree.map(lambda leaf: leaf.astype(np.int32), found), y.numbers))
    return Completed(Buckets(tuple(parts), outputs.index), gain)


def _reads(problem: Problem) -> Model:
    none: Any = None
    return problem.model._replace(decode=none, loss=none)


def complete(problem: Problem, w: PyTree, inputs: Buckets, outputs: Buckets) -> Completed:
    """argmax of F(x_i, h; w) over the outputs h that agree with what is known of each example.

    Args:
      outputs: `Truth`s whose outputs agree; one of them stays where no other one has a larger F, so
        that ties and an oracle that is not exact never lower F.
    """

    def run(x: PyTree, y: Truth, at: np.ndarray) -> tuple:
        del at
        return _complete_program(_reads(problem), w, x, y)

    return _gathered(run, inputs, outputs)


def drawn(problem: Problem, inputs: Buckets, outputs: Buckets, seed: int) -> Buckets:
    """Outputs that agree, drawn at random: each the best under normal potentials of its own."""

    def run(x: PyTree, y: Truth, at: np.ndarray) -> tuple:
        keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(seed)))(at)
        return _draw_program(_reads(problem), problem.initial_weights, x, y, keys)

    return _gathered(run, inputs, outputs).outputs


def some_that_agree(
    problem: Problem,
    inputs: PyTree,
    outputs: Incomplete,
    weights: np.ndarray | None,
    *,
    seed: int = 0,
    dual: bool = True,
) -> tuple[Buckets, Buckets]:
    """(inputs, `Truth`s whose outputs agree with what is known, as `drawn`), in buckets, checked.

    Args:
      weights: of the examples, or None. dual: of `checked_buckets`.

    Raises:
      ValueError: an argument does not fit, or an example has no output that agrees.
    """
    checked_examples(inputs, outputs.output, weights)
    truth = Truth(outputs.output, outputs.known)
    x, y = bucketed(problem.padding, inputs, truth, completed=dual)
    return checked_buckets(problem, x, drawn(problem, x, y, seed), weights)
