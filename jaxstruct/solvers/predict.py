"""`predict`: the argmax of the trained function, in batches."""

from __future__ import annotations

import jax
import numpy as np

from jaxstruct.core.buckets import rows_of
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Model, Problem
from jaxstruct.core.padding import ragged_leaves, restored
from jaxstruct.core.sizes import batch_rows
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.n_slack.task import padded_rows
from jaxstruct.solvers.solution import Solution
from jaxstruct.solvers.validation.checks import check_batch, check_weights, checked_inputs


@jax.jit
def decode_batch(model: Model, weights: PyTree, inputs: PyTree) -> PyTree:
    """argmax_y F of a batch of inputs; traced once for all who ask."""
    return jax.vmap(lambda x: model.decode(model.potentials(weights, x)))(inputs)


decode_program = program(decode_batch)


def weights_of(problem: Problem, given: PyTree | Solution) -> PyTree:
    """The weights of a solution of any solver; weights pass through."""
    if jax.tree.structure(given) == jax.tree.structure(problem.initial_weights):
        return given
    return getattr(given, "weights", given) if isinstance(given, tuple) else given


def predict(
    problem: Problem, weights: PyTree | Solution, inputs: PyTree, *, batch: int = 1024
) -> PyTree:
    """argmax_y F(x, y; w) of each input (thesis 3.1), as numpy arrays with a leading axis [n].

    Inputs are padded to whole batches, and ragged ones to size classes, so that any n runs in a
    few compiled programs.

    Args:
      problem: the structure.
      weights: w as problem.initial_weights, or the solution that holds it (of `fit` or a baseline).
      inputs: a pytree of n examples, of arrays [n, ...] or `Ragged` stores.
      batch: inputs decoded together, at most.

    Returns:
      Outputs [n, ...] in the order of the inputs. Where inputs are ragged and outputs have
      positions, such as labels of tokens, these are a `Ragged`: output i is [i], all rows .rows.

    Raises:
      ValueError: an argument does not fit, or constraints leave an input no output; the message
        names it. Of a sentence that has no tree the output is -1 throughout.
    """
    buckets = checked_inputs(problem, inputs)
    check_batch(batch)
    weights = weights_of(problem, weights)
    check_weights(problem, weights)
    parts = tuple(_predicted(problem, weights, part, batch) for part in buckets.parts)
    if ragged_leaves(inputs):
        return restored(problem.padding, buckets, parts)
    return parts[0]


def _predicted(problem: Problem, weights: PyTree, inputs: PyTree, batch: int) -> PyTree:
    """The outputs of one bucket."""
    n = rows_of(inputs)
    batch = batch_rows(n, batch)
    inputs = padded_rows(inputs, -(-n // batch) * batch)
    model = problem.model._replace(score=None, loss=None)
    pieces = [
        jax.tree.map(lambda leaf, at=at: leaf[at : at + batch], inputs) for at in range(0, n, batch)
    ]
    parts = [decode_program(model, weights, piece) for piece in pieces]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:n], *parts)
