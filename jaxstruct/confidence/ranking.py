"""`k_best`: the k best outputs of each input, their scores and margins."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.confidence.batches import (
    Call,
    bare,
    check_bytes,
    in_batches,
    in_order,
    nbytes,
    outputs_in_order,
    shapes,
)
from jaxstruct.core.checks import checked_size
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.types import PyTree, Static
from jaxstruct.solvers.predict import weights_of
from jaxstruct.solvers.validation.checks import check_batch, check_weights, checked_inputs


class KBest(NamedTuple):
    """The k best outputs of n inputs.

    Fields:
      outputs: k of what `predict` returns, the best first; the first is what it returns.
      scores: [n, k] F of each, falling up to rounding; -inf where an input has fewer outputs.
      margins: [n, k] F of the best less F of each, 0 of the first; +inf where there is none.
      mask: [n, k] whether there is an output; where not, it is -1 throughout (ragged: no rows).
    """

    outputs: tuple[PyTree, ...]
    scores: np.ndarray
    margins: np.ndarray
    mask: np.ndarray


@jax.jit
def _ranked_batch(problem: Problem, weights: PyTree, inputs: PyTree, k: Static) -> tuple:
    def of_one(x: PyTree) -> tuple:
        return tuple(problem.inference.k_best(problem.model.potentials(weights, x), k.value))

    return jax.vmap(of_one)(inputs)


_ranked = program(_ranked_batch)


def ranked_call(problem: Problem, weights: PyTree, k: int) -> Call:
    """`k_best` of a batch of inputs."""
    return Call("k_best", _ranked, (bare(problem), weights), (Static(k),))


def clipped(problem: Problem, weights: PyTree, inputs: PyTree, k: int) -> int:
    """k, or the number of outputs that an input of this bucket may have, where that is less.

    Raises:
      ValueError: so many outputs of an input alone take more memory than there is. Nothing of the
        size of k is traced for that.
    """
    if problem.inference.most_outputs is not None:
        k = min(k, max(1, problem.inference.most_outputs(inputs)))
    one = Call("k_best", _ranked, (bare(problem), weights), (Static(1),))
    given = (*one.before, shapes(inputs, 1), *one.after)
    check_bytes("k_best", k * nbytes(jax.eval_shape(_ranked.function, *given)))
    return k


def _filled(found: tuple[PyTree, np.ndarray], k: int) -> tuple[PyTree, np.ndarray]:
    """(outputs [n, k, ..], scores [n, k]) of fewer: -1 and -inf where there is none."""

    def of_leaf(leaf: np.ndarray, value: float) -> np.ndarray:
        missing = [(0, 0), (0, k - leaf.shape[1])] + [(0, 0)] * (leaf.ndim - 2)
        return np.pad(leaf, missing, constant_values=value) if missing[1][1] else leaf

    return jax.tree.map(lambda leaf: of_leaf(leaf, -1), found[0]), of_leaf(found[1], -np.inf)


def k_best(
    problem: Problem, weights: PyTree | Any, inputs: PyTree, *, k: int = 5, batch: int = 256
) -> KBest:
    """The k outputs of the largest F(x, y; w) of each input, with their margins.

    Exact for every structure that ends here: classes and candidate lists by sorting, chains, trees
    and alignments by the dynamic program with k entries a state, graphs by elimination (inputs
    with plans) or enumeration, sets of labels by enumeration, structures of one's own by
    `Oracles.all_outputs`, or, for k <= 2, by their best wrong output.

    Args:
      problem: the structure.
      weights: w as problem.initial_weights, or the solution that holds it.
      inputs: as `predict` takes them: arrays [n, ...] or `Ragged` stores.
      k: how many, at least 1.
      batch: inputs decoded together, at most; fewer where they take more than `CALL_BYTES`.
        `memory` says what they take.

    Returns:
      A KBest. Equal scores come in the order of the structure's own rule, the lowest index first;
      of graphs with an inexact `inference` the first may be better than what `predict` finds.

    Raises:
      ValueError: an argument does not fit, or constraints leave an input no output; no exact oracle
        gives the k best, and what to do; k outputs of one input take more memory than there is.
    """
    buckets = checked_inputs(problem, inputs)
    check_batch(batch)
    k = checked_size("k", k)
    weights = weights_of(problem, weights)
    check_weights(problem, weights)
    checked_inference(problem, "k_best")
    own = [clipped(problem, weights, part, k) for part in buckets.parts]
    width = min(k, 1 + max(own))  # the last one is none, where there are fewer
    parts = [
        _filled(in_batches(ranked_call(problem, weights, few), part, batch), width)
        for few, part in zip(own, buckets.parts, strict=True)
    ]
    scores = _filled(((), in_order(buckets, [scores for _, scores in parts])), k)[1]
    mask = scores > -np.inf
    with np.errstate(invalid="ignore"):
        margins = np.where(mask, scores[:, :1] - scores, np.inf).astype(scores.dtype)
    some = min(width, 1 + int(np.max(np.sum(mask, axis=1), initial=0)))
    outputs = [
        outputs_in_order(
            problem, inputs, buckets,
            [jax.tree.map(lambda leaf, j=j: leaf[:, j], found) for found, _ in parts],
        )
        for j in range(some)
    ]  # fmt: skip
    outputs += [outputs[-1]] * (k - some)  # no input has more: all are the same -1
    return KBest(tuple(outputs), scores, margins, mask)
