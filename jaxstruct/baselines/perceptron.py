"""The structured perceptron on any Problem, plain and averaged (thesis 3.3; Collins 2002).

    y^ = argmax_y F(x_i, y; w);    if y^ != y_i:    w <- w + Psi(x_i, y_i) - Psi(x_i, y^)

example by example, from w = 0.

Theorem 1: if some |w| = 1 has F(x_i, y_i; w) - F(x_i, y; w) >= gamma for all i and all y != y_i,
then there are at most R^2 / gamma^2 updates, in whatever order the examples come. The thesis prints
R = max |Psi(x_i, y)|; the proof needs R = max |Psi(x_i, y_i) - Psi(x_i, y)|, as in Collins (2002),
and one example of two classes breaks the bound as printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.baselines.examples import typed_on_device, without_gram
from jaxstruct.core.buckets import Buckets, rows_of
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.device import on_device, zeros_on_device
from jaxstruct.core.status import Status
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.validation.checks import checked_buckets

MESSAGES = {
    Status.CONVERGED: "an epoch made no mistake: the training set is separated",
    Status.PASS_LIMIT: (
        "max_epochs was reached with mistakes left: raise it, or the training set cannot be "
        "separated; the averaged weights are then the ones to use"
    ),
    Status.NOT_FINITE: "the weights are not finite: check the scale of the inputs",
    Status.STOPPED: "the callback asked to stop",
}


class EpochProgress(NamedTuple):
    """What a callback of `perceptron` sees after each epoch: its number, its mistakes, weights."""

    epochs: int
    mistakes: int
    weights: PyTree


class Perceptron(NamedTuple):
    """The result of `perceptron`.

    Fields:
      weights: w after the last visit. averaged: the mean of w over all visits, w after each.
      status, message: how the run ended.
      mistakes: [epochs] updates of each epoch. seconds: wall seconds, compiling included.
    """

    weights: PyTree
    averaged: PyTree
    status: Status
    message: str
    mistakes: np.ndarray
    seconds: float


class Walk(NamedTuple):
    """Where an online run stands.

    Fields:
      weights: w. late: sum over the updates of (visits before it) times its change of w, so that
        the mean of w is w - late / visits.
      visits: int32 scalar, examples visited so far.
    """

    weights: PyTree
    late: PyTree
    visits: Array


def _visit(
    problem: Problem, inputs: PyTree, outputs: PyTree, walk: Walk, row: Array
) -> tuple[Walk, Array]:
    """Decode one example and update where it is wrong; a row of -1 is skipped."""
    x, y = jax.tree.map(lambda leaf: leaf[jnp.maximum(row, 0)], (inputs, outputs))
    theta = problem.model.potentials(walk.weights, x)
    decoded = problem.model.decode(theta)
    differs = jax.tree.map(lambda a, b: jnp.any(a != b), decoded, y)
    wrong = jnp.any(jnp.stack(jax.tree.leaves(differs))) & (row >= 0)

    def updated(walk: Walk) -> Walk:
        batch = jax.tree.map(lambda leaf: leaf[None], x)
        pair = jax.tree.map(lambda a, b: jnp.stack([a, b])[None], y, decoded)
        signs = jnp.asarray([[1, -1]], jnp.result_type(*jax.tree.leaves(walk.weights)))
        add = problem.space.add_planes  # may read few weights, where transposition reads all
        return walk._replace(
            weights=add(walk.weights, batch, pair, signs),
            late=add(walk.late, batch, pair, signs * walk.visits),
        )

    walk = jax.lax.cond(wrong, updated, lambda walk: walk, walk)
    return walk._replace(visits=walk.visits + (row >= 0)), wrong


@partial(jax.jit, donate_argnames="walk")
def _visit_rows(
    problem: Problem, inputs: PyTree, outputs: PyTree, walk: Walk, rows: Array
) -> tuple[Walk, Array]:
    return jax.lax.scan(partial(_visit, problem, inputs, outputs), walk, rows)


def epoch_order(
    index: tuple[np.ndarray, ...], chunk: int, seed: int, epoch: int
) -> list[tuple[int, np.ndarray]]:
    """The order in which an epoch visits the examples.

    Each bucket is shuffled and cut into chunks, and the chunks of all buckets are shuffled. With
    one bucket, or chunk = 1, every order of the examples is equally likely.

    Args:
      index: the examples of each bucket, as in `Buckets`; only how many they are is read.
      chunk: rows in a chunk. seed, epoch: 0, 1, ..; they alone determine the draw.

    Returns:
      Chunks (bucket, rows [chunk] int32 of the bucket), the last rows of a bucket padded with -1.
    """
    random, chunks = np.random.default_rng([seed, epoch]), []
    for bucket, of_bucket in enumerate(index):
        rows = random.permutation(len(of_bucket)).astype(np.int32)
        rows = np.pad(rows, (0, -len(rows) % chunk), constant_values=-1)
        chunks += [(bucket, part) for part in rows.reshape(-1, chunk)]
    return [chunks[place] for place in random.permutation(len(chunks))]


@jax.jit
def _averaged(walk: Walk) -> PyTree:
    return jax.tree.map(lambda w, late: w - late / walk.visits, walk.weights, walk.late)


def _status(mistakes: int, weights: PyTree, epochs: int, limit: int) -> Status | None:
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(weights))):
        return Status.NOT_FINITE
    if mistakes == 0:
        return Status.CONVERGED
    return Status.PASS_LIMIT if epochs >= limit else None


def _walked(
    problem: Problem,
    inputs: Buckets,
    outputs: Buckets,
    max_epochs: int,
    seed: int,
    chunk: int,
    callback: Callable[[EpochProgress], bool | None] | None,
) -> tuple[Walk, Status, np.ndarray]:
    """(the walk at its end, the status, mistakes [epochs]) of a run as `perceptron` has it."""
    least_values = (("max_epochs", max_epochs, 1), ("chunk", chunk, 1), ("seed", seed, 0))
    for name, value, least in least_values:
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    pairs = zip(inputs.parts, outputs.parts, strict=True)
    examples = [typed_on_device((without_gram(x), output_of(y)), dtype) for x, y in pairs]
    now, late = (
        jax.tree.map(lambda w: zeros_on_device(w.shape, w.dtype), problem.initial_weights)
        for _ in range(2)
    )
    walk = Walk(now, late, on_device(0, np.int32))
    chunk = min(chunk, max(map(rows_of, outputs.parts)))
    mistakes, status = [], None
    while status is None:
        found = []
        for bucket, rows in epoch_order(outputs.index, chunk, seed, len(mistakes)):
            walk, wrong = _visit_rows(problem, *examples[bucket], walk, rows)
            found.append(wrong)
        mistakes.append(sum(int(np.asarray(wrong).sum()) for wrong in found))
        status = _status(mistakes[-1], walk.weights, len(mistakes), max_epochs)
        if callback is not None:
            weights = jax.tree.map(jnp.copy, walk.weights)  # the run goes on in place
            if callback(EpochProgress(len(mistakes), mistakes[-1], weights)) and status is None:
                status = Status.STOPPED
    return walk, status, np.asarray(mistakes)


def perceptron(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    *,
    max_epochs: int = 20,
    seed: int = 0,
    chunk: int = 32,
    callback: Callable[[EpochProgress], bool | None] | None = None,
) -> Perceptron:
    """Train a structured perceptron, and its average, until an epoch makes no mistake.

    Every epoch visits all examples once, in an order drawn from the seed.

    Args:
      problem: the structure; `potentials`, `decode` and `add_planes` are used, losses are not.
        Ties go where its decoder sends them: at w = 0 everything ties.
      inputs, outputs: pytrees of n examples, of arrays [n, ...] or `Ragged` stores.
      max_epochs: bound on the epochs.
      seed: of the order, >= 0.
      chunk: examples of one bucket that are visited in one call of the compiled program; at most
        the size of the largest bucket is used.
      callback: called after each epoch with an `EpochProgress`; a true answer stops the run.

    Returns:
      A Perceptron. `predict` of jaxstruct decodes with either of its weights.

    Raises:
      ValueError: an argument does not fit.

    Source: thesis 3.3; Collins, "Discriminative training methods for hidden Markov models", EMNLP
    2002.
    """
    began = time.perf_counter()
    inputs, outputs = checked_buckets(problem, inputs, outputs, None, dual=False)
    given = problem, inputs, outputs, max_epochs, seed, chunk, callback
    walk, status, mistakes = _walked(*given)
    averaged = _averaged(walk)
    return Perceptron(
        weights=walk.weights,
        averaged=averaged,
        status=status,
        message=MESSAGES[status],
        mistakes=mistakes,
        seconds=time.perf_counter() - began,
    )
