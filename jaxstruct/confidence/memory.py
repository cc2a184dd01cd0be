"""What memory a call of `k_best`, `marginals` or `sample` takes, said before it begins."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.confidence.batches import inverse, nbytes
from jaxstruct.confidence.probabilities import marginals_call, sample_call
from jaxstruct.confidence.ranking import clipped, ranked_call
from jaxstruct.core.buckets import rows_of
from jaxstruct.core.checks import check_choice, checked_size
from jaxstruct.core.contract import Problem
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.sizes import text_of_bytes
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.validation.checks import check_batch, checked_inputs

COPIES = 2
"""Of results: those of the batches, and all of them."""


class CallMemory(NamedTuple):
    """Bytes of the arrays of a call of `confidence`.

    What Python and JAX take comes on top, and what compiling takes.

    Fields:
      inputs: padded.
      batch: of the largest batch at once, at most `CALL_BYTES` where one input takes no more.
      results: of all inputs, `COPIES` times.
      rows: inputs of that batch.
    """

    inputs: int
    batch: int
    results: int
    rows: int

    @property
    def total(self) -> int:
        """The sum of the bytes."""
        return self.inputs + self.batch + self.results

    def __str__(self) -> str:
        """One line with units."""
        sizes = zip(self._fields[:3], self[:3], strict=True)
        each = ", ".join(f"{name} {text_of_bytes(size)}" for name, size in sizes)
        return f"{text_of_bytes(self.total)} in batches of {self.rows}: {each}"


def memory(
    problem: Problem,
    inputs: PyTree,
    *,
    of: str = "k_best",
    k: int = 5,
    number: int = 1,
    batch: int = 256,
) -> CallMemory:
    """The bytes that `k_best`, `marginals` or `sample` of these inputs will take.

    The compiler says it of their programs, which are compiled and not run. `log_losses` takes no
    more than `marginals`.

    Args:
      problem, inputs: as in `k_best`.
      of: "k_best", "marginals" or "sample".
      k: of `k_best`. number: of `sample`. batch: of each.

    Returns:
      A `CallMemory`; print it.

    Raises:
      ValueError: an argument does not fit; one input takes more memory than there is.
    """
    check_choice("of", of, ("k_best", "marginals", "sample"))
    buckets = checked_inputs(problem, inputs)
    check_batch(batch)
    checked_inference(problem, of)
    weights, b = problem.initial_weights, inverse(problem.initial_weights, 1.0)
    k, keys = checked_size("k", k), (checked_size("number", number), 2)
    found = []
    for part in buckets.parts:
        n, given = rows_of(part), part
        if of == "k_best":
            call = ranked_call(problem, weights, clipped(problem, weights, part, k))
        elif of == "marginals":
            call = marginals_call(problem, weights, b)
        else:
            call = sample_call(problem, weights, b)
            given = part, jax.ShapeDtypeStruct((n, *keys), np.uint32)
        rows, held = call.rows_within(given, batch)
        _, results = call.bytes(given, 1)
        found.append(CallMemory(nbytes(part), held, COPIES * n * results, rows))
    largest = max(found, key=lambda one: one.batch)
    return largest._replace(
        inputs=sum(one.inputs for one in found), results=sum(one.results for one in found)
    )
