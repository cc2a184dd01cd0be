"""Algorithm 1: the perceptron in the dual, for joint kernels (thesis 3.3).

    F(x, y) = sum_i sum_y^ alpha_{i y^} <Psi(x_i, y_i) - Psi(x_i, y^), Psi(x, y)>            (3.6)

alpha_{i y^} counts how often x_i was decoded wrongly as y^; only the pairs that occurred are kept.
During the run the sums that (3.6) needs stand in the weights of the problem, which under a kernel
are coefficients on anchors: no feature of the kernel is formed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.baselines.perceptron import MESSAGES, EpochProgress, Visited, run_online
from jaxstruct.core.buckets import Buckets, rows_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.padding import bucketed, ragged_leaves
from jaxstruct.core.status import Status
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.validation.checks import checked_buckets

_BATCH = 256


class DualPerceptron(NamedTuple):
    """The result of `dual_perceptron`: M pairs (example, wrong output), sorted by bucket.

    Fields:
      example: [M] positions in the training set.
      output: the wrong outputs y^, padded; of a ragged training set one pytree of [M_b, ...] a
        length bucket, of any other one the one pytree.
      alpha: [M] how often the pair was an update.
      averaged: [M] the mean of alpha over all visits, for the averaged perceptron.
      status, message: how the run ended.
      mistakes: [epochs] updates of each epoch. seconds: wall seconds, compiling included.
    """

    example: np.ndarray
    output: PyTree
    alpha: np.ndarray
    averaged: np.ndarray
    status: Status
    message: str
    mistakes: np.ndarray
    seconds: float


class _Updates(NamedTuple):
    """Updates of one chunk: rows of the bucket, wrong outputs, visits before each of them."""

    bucket: int
    rows: np.ndarray
    outputs: PyTree
    before: np.ndarray


def _updates(found: Visited) -> _Updates:
    real = found.rows >= 0
    before = found.visit + np.cumsum(real) - real
    outputs = jax.tree.map(lambda leaf: np.asarray(leaf)[found.wrong], found.outputs)
    return _Updates(found.bucket, found.rows[found.wrong], outputs, before[found.wrong])


class _Pairs(NamedTuple):
    """The distinct pairs of one bucket; `late` is the sum of the visits before each update."""

    rows: np.ndarray
    outputs: PyTree
    alpha: np.ndarray
    late: np.ndarray


def _distinct(updates: list[_Updates], outputs: PyTree) -> _Pairs:
    """Pairs and their counts, in the order of their rows."""
    empty = jax.tree.map(lambda leaf: np.asarray(leaf)[:0], outputs)
    wrong = jax.tree.map(
        lambda *leaves: np.concatenate(leaves), empty, *(one.outputs for one in updates)
    )
    rows = np.concatenate([np.zeros(0, int), *(one.rows for one in updates)])
    before = np.concatenate([np.zeros(0, int), *(one.before for one in updates)])
    flat = [leaf.reshape(len(rows), leaf[:1].size) for leaf in jax.tree.leaves(wrong)]
    table = np.concatenate([rows[:, None], *flat], axis=1)
    _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    return _Pairs(
        rows[first],
        jax.tree.map(lambda leaf: leaf[first], wrong),
        np.bincount(which, minlength=len(first)),
        np.bincount(which, before, minlength=len(first)),
    )


def dual_perceptron(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    *,
    max_epochs: int = 20,
    seed: int = 0,
    chunk: int = 32,
    callback: Callable[[EpochProgress], bool | None] | None = None,
) -> DualPerceptron:
    """Train a structured perceptron on a joint kernel, and keep its multipliers (algorithm 1).

    The same run as `perceptron` with the same arguments; for what they mean see there.

    Args:
      problem: the structure, such as a kernel machine whose anchors are the training inputs.
      inputs, outputs: pytrees of n examples, of arrays [n, ...] or `Ragged` stores.
      max_epochs, seed, chunk, callback: as in `perceptron`.

    Returns:
      A DualPerceptron; `weights_of` turns it into weights that `predict` of jaxstruct decodes with.

    Raises:
      ValueError: an argument does not fit.
    """
    began, plain = time.perf_counter(), _is_plain(inputs)
    inputs, outputs = checked_buckets(problem, inputs, outputs, None)
    updates: list[list[_Updates]] = [[] for _ in outputs.parts]

    def see(found: Visited) -> None:
        if found.wrong.any():
            updates[found.bucket].append(_updates(found))

    walk, status, mistakes = run_online(
        problem,
        inputs,
        outputs,
        max_epochs=max_epochs,
        seed=seed,
        chunk=chunk,
        see=see,
        callback=callback,
    )
    pairs = [_distinct(own, y) for own, y in zip(updates, outputs.parts, strict=True)]
    alpha, late = (
        np.concatenate([getattr(own, name) for own in pairs]) for name in ("alpha", "late")
    )
    wrong = tuple(own.outputs for own in pairs)
    return DualPerceptron(
        example=np.concatenate(
            [index[own.rows] for index, own in zip(outputs.index, pairs, strict=True)]
        ),
        output=wrong[0] if plain else wrong,
        alpha=alpha,
        averaged=alpha - late / float(walk.visits),
        status=status,
        message=MESSAGES[status],
        mistakes=mistakes,
        seconds=time.perf_counter() - began,
    )


def _is_plain(inputs: PyTree) -> bool:
    """Whether the examples come as arrays of one size, not in buckets."""
    return not isinstance(inputs, Buckets) and not ragged_leaves(inputs)


@jax.jit
def _add_pairs(
    problem: Problem, weights: PyTree, x: PyTree, y_true: PyTree, y: PyTree, c: jax.Array
) -> PyTree:
    """w + sum_b c_b (Psi(x_b, y_true_b) - Psi(x_b, y_b))."""
    pair = jax.tree.map(lambda a, b: jnp.stack([a, b], axis=1), y_true, y)
    return problem.space.add_planes(weights, x, pair, jnp.stack([c, -c], axis=1))


def _batch_of(tree: PyTree, rows: np.ndarray) -> PyTree:
    """Some rows, the first of them repeated up to a whole batch."""
    rows = np.concatenate([rows, np.repeat(rows[:1], _BATCH - len(rows))])
    return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], tree)


def weights_of(
    problem: Problem,
    dual: DualPerceptron,
    inputs: PyTree,
    outputs: PyTree,
    *,
    averaged: bool = False,
) -> PyTree:
    """sum_i sum_y^ alpha_{i y^} (Psi(x_i, y_i) - Psi(x_i, y^)): the w of (3.6).

    Args:
      problem, inputs, outputs: those of the training.
      dual: the result of `dual_perceptron`.
      averaged: whether to take the averaged multipliers.

    Returns:
      Weights of the problem, which under a kernel are coefficients on its anchors. Up to rounding
      those of `perceptron`.
    """
    wrong = (dual.output,) if _is_plain(inputs) else dual.output
    if not isinstance(inputs, Buckets):
        inputs, outputs = bucketed(problem.padding, inputs, outputs)
    n = sum(map(len, outputs.index))
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    multipliers = np.asarray(dual.averaged if averaged else dual.alpha)
    weights, ends = problem.initial_weights, np.cumsum([0, *map(rows_of, wrong)])
    for bucket, y_wrong in enumerate(wrong):
        own = slice(ends[bucket], ends[bucket + 1])
        index = outputs.index[bucket]
        place = np.full(n, -1)
        place[index] = np.arange(len(index))
        rows = place[dual.example[own]]
        for at in range(0, len(rows), _BATCH):
            some = np.arange(at, min(at + _BATCH, len(rows)))
            c = np.zeros(_BATCH, dtype)
            c[: len(some)] = multipliers[own][some]
            x, y = (_batch_of(tree.parts[bucket], rows[some]) for tree in (inputs, outputs))
            weights = _add_pairs(problem, weights, x, y, _batch_of(y_wrong, some), c)
    return weights
