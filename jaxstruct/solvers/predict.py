"""`predict`: the argmax of the trained function, in batches."""

from __future__ import annotations

import jax
import numpy as np

from jaxstruct.core.buckets import Buckets
from jaxstruct.core.contract import Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.task import padded


@jax.jit
def _decode_batch(problem: Problem, weights: PyTree, inputs: PyTree) -> PyTree:
    return jax.vmap(lambda x: problem.model.decode(problem.model.potentials(weights, x)))(inputs)


def predict(
    problem: Problem, weights: PyTree, inputs: PyTree | Buckets, *, batch: int = 1024
) -> PyTree | Buckets:
    """argmax_y F(x, y; w) of each input (thesis 3.1), as numpy arrays with a leading axis [n].

    Inputs are padded to whole batches, so that any n runs in one compiled program. Buckets of
    inputs give Buckets of outputs, one compiled program a padded size.

    Raises:
      ValueError: there are no inputs.
    """
    if isinstance(inputs, Buckets):
        parts = tuple(predict(problem, weights, part, batch=batch) for part in inputs.parts)
        return Buckets(parts, inputs.index)
    n = np.shape(jax.tree.leaves(inputs)[0])[0]
    if n == 0:
        raise ValueError("inputs is empty: there is nothing to predict")
    batch = min(batch, 1 << max(n - 1, 0).bit_length())
    inputs = padded(inputs, -(-n // batch) * batch)
    parts = [
        _decode_batch(problem, weights, jax.tree.map(lambda leaf: leaf[at : at + batch], inputs))  # noqa: B023
        for at in range(0, n, batch)
    ]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:n], *parts)
