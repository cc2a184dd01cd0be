"""How confidence is computed: in whole batches, a bucket at a time, in the caller's order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.buckets import Buckets, rows_of
from jaxstruct.core.checks import checked_number, text_of
from jaxstruct.core.compiling import Program
from jaxstruct.core.contract import Model, Oracles, Padding, Problem, Space
from jaxstruct.core.device import memory_limit, shape_on_device
from jaxstruct.core.padding import PADDING, ragged_leaves, restored
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.sizes import batch_rows
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.n_slack.task import pad_examples

CALL_BYTES = 2**28
"""Bytes that the arrays of a call take at the most, where those of one input do not take more."""

LIKELIHOODS = ("RandomField", "DualRandomField")
"""Solutions that were trained to give probabilities."""


def bare(problem: Problem) -> Problem:
    """What confidence reads of a problem, so that problems with other checks share programs."""
    none: Any = None
    model = Model(problem.model.potentials, none, none, none)
    return problem._replace(
        initial_weights=none, model=model, oracles=Oracles(), space=Space(), check=none,
        padding=Padding(), inference=problem.inference._replace(most_outputs=None),
    )  # fmt: skip


class Call(NamedTuple):
    """A program of confidence with its arguments, but for the inputs.

    Fields:
      name: of the public function. program: of the arguments before, inputs, those after.
    """

    name: str
    program: Program
    before: tuple
    after: tuple = ()

    def bytes(self, inputs: PyTree, rows: int) -> int:
        """Of the arrays at once of a call of so many rows of inputs.

        It is compiled and not run; a compiler that does not say what it holds gives the results.
        """
        given = (*self.before, shapes(inputs, rows), *self.after)
        held = self.program.peak_bytes(*given)
        return held or nbytes(jax.eval_shape(self.program.function, *given))


def shapes(tree: PyTree, rows: int) -> PyTree:
    """Those of so many rows of arrays [n, ...]."""
    return jax.tree.map(lambda leaf: shape_on_device((rows, *leaf.shape[1:]), leaf.dtype), tree)


def nbytes(tree: PyTree) -> int:
    """Bytes of arrays, or of their shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def rows_within(name: str, bytes_of: Callable[[int], int], rows: int) -> int:
    """The most rows up to so many whose call takes at most `CALL_BYTES`, or one.

    Args:
      name: of the public function. bytes_of: rows -> bytes at once.

    Raises:
      ValueError: one row takes more memory than there is.
    """
    held = bytes_of(rows)
    while rows > 1 and held > CALL_BYTES:
        rows = min(rows // 2, 1 << (max(1, rows * CALL_BYTES // held).bit_length() - 1))
        held = bytes_of(rows)
    check_bytes(name, held)
    return rows


def check_bytes(name: str, held: int) -> None:
    """ValueError where one input takes more memory than there is."""
    limit = memory_limit()
    if limit is not None and held > limit:
        raise ValueError(
            f"{name}: one of the longest inputs takes {held / 1e6:,.0f} MB, and there are "
            f"{limit / 1e6:,.0f} MB of memory: ask for fewer outputs (k or number), or leave the "
            "longest inputs out"
        )


def in_batches(call: Call, inputs: PyTree, batch: int) -> PyTree:
    """The results of a call of all n inputs, as numpy arrays [n, ...].

    Args:
      inputs: padded, [n, ...]. batch: at most, fewer where they take more than `CALL_BYTES`; the
        last one is filled up.
    """
    n = rows_of(inputs)
    batch = rows_within(call.name, partial(call.bytes, inputs), batch_rows(n, batch))
    inputs = pad_examples(inputs, -(-n // batch) * batch)
    pieces = (
        jax.tree.map(lambda leaf, at=at: leaf[at : at + batch], inputs) for at in range(0, n, batch)
    )
    parts = [call.program(*call.before, piece, *call.after) for piece in pieces]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:n], *parts)


def in_order(buckets: Buckets, leaves: list[np.ndarray]) -> np.ndarray:
    """Leaves [n_b, ...] of one shape as one array in the caller's order."""
    return np.concatenate(leaves)[np.argsort(np.concatenate(buckets.index))]


def outputs_in_order(
    problem: Problem, inputs: PyTree, buckets: Buckets, parts: list[PyTree]
) -> PyTree:
    """Outputs found in buckets as `predict` returns them."""
    if ragged_leaves(inputs):
        return restored(problem.padding, buckets, tuple(parts))
    return parts[0]


def sized_in_order(
    ragged: bool, buckets: Buckets, leaves: list[np.ndarray], sizes: list[np.ndarray]
) -> PyTree:
    """Leaves [n_b, ...] whose leading axes have real sizes [n_b, axes], in the caller's order.

    Args:
      ragged: whether the inputs were. Of plain ones a leaf stays one array.

    Returns:
      An array [n, ...]; of ragged inputs a `Ragged` where one axis has positions, and a tuple of n
      arrays where two have.
    """
    axes = sizes[0].shape[1]
    if not axes or not ragged:
        return in_order(buckets, leaves)
    rows: list = [None] * sum(map(len, buckets.index))
    for leaf, own, index in zip(leaves, sizes, buckets.index, strict=True):
        for row, example in enumerate(index):
            rows[example] = leaf[row][tuple(slice(0, size) for size in own[row])]
    if axes > 1:
        return tuple(rows)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    return Ragged(np.concatenate(rows), offsets, PADDING)


def checked_temperature(temperature: Any, given: Any) -> float:
    """T of an argument.

    Args:
      temperature: a number, what has one as .value, or None. given: weights, or their solution.

    Raises:
      ValueError: it is no positive number; it is None and nothing says that the weights give
        probabilities.
    """
    if temperature is None:
        kind = getattr(given, "solver", type(given).__name__)  # a model says what found its weights
        known = isinstance(given, tuple) and hasattr(given, "weights") and kind is not None
        if known and kind not in LIKELIHOODS:
            raise ValueError(
                f"temperature is None, but weights are a {kind}, whose training makes margins and "
                "no probabilities: fit one on held-out examples with confidence.fit_temperature, "
                "or say temperature=1.0 to take F as it is"
            )
        return 1.0
    value = getattr(temperature, "value", temperature)
    try:
        return checked_number("temperature", value, strict=True)
    except ValueError:
        raise ValueError(
            f"temperature must be a positive number or what fit_temperature returns, got "
            f"{text_of(temperature)}"
        ) from None


def inverse(weights: PyTree, temperature: float) -> Array:
    """1 / T in the dtype of the weights."""
    dtype = jax.numpy.result_type(*jax.tree.leaves(weights))
    return jax.numpy.asarray(1 / temperature, dtype)


def log_loss_at(problem: Problem, weights: PyTree, x: PyTree, y: PyTree, b: Array) -> Array:
    """-log p(y | x) of one example, padded, under b F."""
    return problem.inference.log_loss(scaled(problem.model.potentials(weights, x), b), y)
