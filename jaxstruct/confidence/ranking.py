"""`k_best`: the k best outputs of each input, their scores and margins."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.confidence.batches import EFFORT, bare, in_batches, in_order, outputs_in_order
from jaxstruct.core.checks import checked_size
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.static import Static
from jaxstruct.core.types import PyTree
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


def _ranked_batch(problem: Problem, weights: PyTree, inputs: PyTree, k: Static) -> tuple:
    def of_one(x: PyTree) -> tuple:
        return tuple(problem.inference.k_best(problem.model.potentials(weights, x), k.value))

    return jax.vmap(of_one)(inputs)


_ranked = program(_ranked_batch)


def k_best(
    problem: Problem,
    weights: PyTree | Any,
    inputs: PyTree,
    *,
    k: int = 5,
    batch: int = 256,
) -> KBest:
    """The k outputs of the largest F(x, y; w) of each input, with their margins.

    Exact for every structure that ends here: classes and candidate lists by sorting, chains, trees
    and alignments by the dynamic program with k entries a state, graphs by elimination (inputs
    with plans) or enumeration, sets of labels by enumeration, searches of homologues by candidates
    (each with its best alignment), structures of one's own by `Oracles.all_outputs`, or, for k <=
    2, by their best wrong output.

    Args:
      problem: the structure.
      weights: w as problem.initial_weights, or the solution that holds it.
      inputs: as `predict` takes them: arrays [n, ...] or `Ragged` stores.
      k: how many, at least 1.
      batch: inputs decoded together, at most. Alignments hold some 24 k (M + N) (M + 1) bytes each,
        trees of more than 8 some 6 k (S T (T + 1) + 2 R), T tokens, S symbols, R rules, at most
        2^28 together where one does not take more.

    Returns:
      A KBest. Equal scores come in the order of the structure's own rule, the lowest index first;
      of graphs with an inexact `inference` the first may be better than what `predict` finds.

    Raises:
      ValueError: an argument does not fit; no exact oracle gives the k best, and what to do.
    """
    buckets = checked_inputs(problem, inputs)
    check_batch(batch)
    k = checked_size("k", k)
    weights = weights_of(problem, weights)
    check_weights(problem, weights)
    checked_inference(problem, "k_best")
    small = bare(problem)
    parts = [
        in_batches(lambda x: _ranked(small, weights, x, Static(k), effort=EFFORT), part, batch)
        for part in buckets.parts
    ]
    scores = in_order(buckets, [scores for _, scores in parts])
    mask = scores > -np.inf
    with np.errstate(invalid="ignore"):
        margins = np.where(mask, scores[:, :1] - scores, np.inf).astype(scores.dtype)
    outputs = tuple(
        outputs_in_order(
            problem, inputs, buckets,
            [jax.tree.map(lambda leaf, j=j: leaf[:, j], found) for found, _ in parts],
        )
        for j in range(k)
    )  # fmt: skip
    return KBest(outputs, scores, margins, mask)
