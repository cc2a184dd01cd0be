"""Validation: what `fit` and `predict` refuse, and why."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core import contract
from jaxstruct.core.archive import forget_pages
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.checks import (
    FINEST,
    NoOutput,
    checked_example_weights,
    checked_size,
    kind_and_text_of,
    text_of,
)
from jaxstruct.core.contract import Incomplete, Problem, Truth, output_of
from jaxstruct.core.padding import NO_OTHERS, Others, bucketed, bucketed_inputs
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.solvers.objective.formulations import Formulation

_FIELDS = Partial, contract.Oracles, contract.Differences, contract.InferenceFacts, type(None)
"""What a field of a part of a problem may be."""

LOOKED_AT = 1 << 22
"""Numbers that are looked at together."""


def check_batch(batch: Any) -> None:
    """Raise ValueError unless it is an integer of at least 1."""
    checked_size("batch", batch)


def check_is_problem(problem: Any) -> None:
    """Raise ValueError unless it is a Problem."""
    if not isinstance(problem, contract.Problem):
        method = callable(problem) and getattr(problem, "__name__", "") == "problem"
        todo = "call it, since it makes one" if method else (
            "it is the first argument, before the examples"
        )  # fmt: skip
        raise ValueError(
            "problem must be a Problem (of multiclass, chain, make_problem, ...), got "
            f"{kind_and_text_of(problem)}: {todo}"
        )
    kinds = {
        "model": contract.Model,
        "oracles": contract.Oracles,
        "space": contract.Space,
        "inference": contract.Inference,
    }
    for name, kind in kinds.items():
        part = getattr(problem, name)
        if not isinstance(part, kind):
            raise ValueError(
                f"problem.{name} must be a jaxstruct.{kind.__name__}, got {kind_and_text_of(part)}"
            )
        for field, function in zip(part._fields, part, strict=True):
            if not isinstance(function, _FIELDS):
                raise ValueError(
                    f"problem.{name}.{field} must be a jax.tree_util.Partial, got "
                    f"{kind_and_text_of(function)}: make_problem wraps functions, _replace does "
                    "not; build the problem anew, or wrap the function"
                )


def check_certifiable(name: str, tolerance: float, dtype: jnp.dtype) -> None:
    """Raise ValueError where the dtype of the weights cannot certify the tolerance."""
    finest = FINEST.get(str(dtype), math.inf)
    if tolerance < finest:
        raise ValueError(
            f"{name} {tolerance:g} is below what {dtype} certifies ({finest:g}): raise it"
            + (", or use float64 weights" if str(dtype) == "float32" else "")
        )


def check_known(problem: Problem, formulation: Formulation) -> None:
    """Raise ValueError where known potentials meet a hard margin, which no multiple of w meets.

    Ascent comes to the optimum from w that lack a little of the margin. Without known potentials
    w / m meets it, m the least margin, so that P = |w|^2 / 2 m^2 is an upper bound. With them
    <w, delta Psi> >= 1 - delta K has right sides of both signs, and a larger w breaks those that
    are active below 0. To train for a margin of 1 + e in place of 1 leaves e sum beta in the gap,
    and how much that is depends on the known potentials.
    """
    if formulation.penalty == 0 and problem.model.known is not None:
        raise ValueError(
            f"{formulation.name} proves a hard margin by a multiple of w, which does not multiply "
            "known potentials: take svm1 with a large C, whose optimum is the same from some C on"
        )


def _scalar_advice(tree: PyTree, leaf: Any) -> str:
    """What to do about a leaf without an axis."""
    if isinstance(leaf, (str, bytes)):
        return "encode text and labels as numbers first (jaxstruct.core.labels, a vectoriser)"
    if isinstance(tree, (list, tuple)):
        return "make one array of it with numpy.asarray, or a store with jaxstruct.ragged"
    return "give every example its own row"


def rows_in(name: str, tree: PyTree) -> int:
    """The number n of examples in a pytree of arrays [n, ...].

    Raises:
      ValueError: it holds no arrays, or a leaf that is none, or leading axes that differ.
    """
    expected = f"{name} must be arrays with a leading axis of examples"
    leaves = jax.tree.leaves(tree)
    if isinstance(tree, contract.Problem) or not leaves:
        raise ValueError(
            f"{expected}, got {text_of(None if tree is None else type(tree).__name__)}"
        )
    shapes = [np.shape(leaf) for leaf in leaves]
    if () in shapes:
        wrong = leaves[shapes.index(())]
        raise ValueError(f"{expected}, got {kind_and_text_of(tree)}: {_scalar_advice(tree, wrong)}")
    if len({shape[0] for shape in shapes}) > 1:
        raise ValueError(
            f"{name} must agree in their leading axis, got shapes {text_of(shapes)} "
            "(examples of unequal lengths go into a jaxstruct.ragged)"
        )
    return shapes[0][0]


def _real(name: str, leaf: Any) -> np.ndarray:
    """A leaf in NumPy.

    Raises:
      ValueError: it is a sparse matrix, or holds other things than real numbers.
    """
    if hasattr(leaf, "tocsr"):
        raise ValueError(
            f"{name} is a SciPy sparse matrix of shape {leaf.shape}: convert it with "
            f"jaxstruct.from_scipy({name})"
        )
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must hold real numbers, got dtype {array.dtype}: encode text and labels first "
            "(jaxstruct.core.labels, a vectoriser), and give tables one number type "
            "(numpy.asarray(table, float))"
        )
    return array


def _check_finite(name: str, tree: PyTree) -> None:
    for leaf in jax.tree.leaves(tree):
        rows = leaf.rows if isinstance(leaf, Ragged) else _real(name, leaf)
        row = _first_not_finite(rows) if np.issubdtype(rows.dtype, np.floating) else None
        if row is not None:
            if isinstance(leaf, Ragged):
                row = int(np.searchsorted(leaf.offsets, row, side="right")) - 1
            raise ValueError(f"{name} has a NaN or an infinity, first in example {row}")


def _first_not_finite(rows: np.ndarray) -> int | None:
    """The first row with a NaN or an infinity; some rows at a time, for they may lie on a disk."""
    each = max(1, LOOKED_AT // max(1, rows[:1].size))
    for first in range(0, len(rows), each):
        finite = np.isfinite(rows[first : first + each])
        forget_pages(rows)
        if not finite.all():
            return first + int(np.argwhere(~finite)[0][0])
    return None


def _check_sparse(name: str, tree: PyTree) -> None:
    """Raise ValueError unless ragged sparse features have as many values as indices."""
    for part in jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, SparseFeatures)):
        if not isinstance(part, SparseFeatures) or not all(isinstance(x, Ragged) for x in part):
            continue
        indices, values = (leaf.lengths for leaf in part)
        wrong = np.flatnonzero(indices != values)
        if wrong.size:
            i = wrong[0]
            raise ValueError(
                f"{name}: example {i} has {indices[i]} indices and {values[i]} values: they must "
                "agree"
            )


def examples_in(inputs: PyTree, outputs: PyTree) -> int:
    """The number n of examples, by shapes alone.

    Raises:
      ValueError: no examples, or leading axes that differ.
    """
    if isinstance(outputs, Incomplete):
        raise ValueError(
            "outputs are Incomplete, labels with None or sets among them: train them by fit_latent "
            "or baselines.fit_random_field"
        )
    n, of_outputs = rows_in("inputs", inputs), rows_in("outputs", outputs)
    if n != of_outputs:
        raise ValueError(f"inputs has {n} examples, outputs has {of_outputs}: they must agree")
    if n == 0:
        raise ValueError("the training set is empty: inputs and outputs need at least one example")
    return n


def checked_examples(inputs: PyTree, outputs: PyTree, weights: np.ndarray | None) -> int:
    """The number n of examples.

    Raises:
      ValueError: no examples, leading axes that differ, values that are not finite, or weights
        that are negative, not [n], or all zero.
    """
    n = examples_in(inputs, outputs)
    check_inputs(inputs)
    checked_example_weights(weights, n)
    return n


def check_inputs(inputs: PyTree) -> None:
    """Raise ValueError unless the inputs are finite real numbers in arrays with a leading axis."""
    rows_in("inputs", inputs)
    _check_sparse("inputs", inputs)
    _check_finite("inputs", inputs)


def check_integer_outputs(outputs: PyTree) -> None:
    """Raise ValueError unless outputs are integers (or bool) that int32 holds.

    Numbers beside them must be finite.
    """
    if isinstance(outputs, Truth):
        _check_finite("outputs.numbers", outputs.numbers)
    for leaf in jax.tree.leaves(output_of(outputs)):
        array = _real("outputs", leaf)
        if array.dtype.kind == "f":
            raise ValueError(
                f"outputs must be integers, got {array.dtype} of shape {array.shape}: encode them "
                "(jaxstruct.core.labels); the examples come as inputs, then outputs; real numbers "
                "that the loss reads stand beside integers in a jaxstruct.Truth(output, numbers)"
            )
        if array.dtype.itemsize >= 4 and np.any(array != array.astype(np.int32)):
            raise ValueError(
                f"outputs must fit int32, got {array.dtype} in {array.min()}..{array.max()}"
            )


def check_weights(problem: contract.Problem, weights: PyTree, name: str = "weights") -> None:
    """Raise ValueError unless weights have the structure, shapes and dtypes of the problem's."""
    wanted = problem.initial_weights
    fits = jax.tree.structure(weights) == jax.tree.structure(wanted) and all(
        np.shape(leaf) == mine.shape and jnp.result_type(leaf) == mine.dtype
        for mine, leaf in zip(jax.tree.leaves(wanted), jax.tree.leaves(weights), strict=True)
    )
    if not fits:
        raise ValueError(
            f"{name} must be a pytree as problem.initial_weights, {outline(wanted)}, got "
            f"{outline(weights)}: they are of another problem"
        )


def outline(tree: PyTree) -> str:
    """Dtypes and shapes of a pytree in one line."""

    def of_leaf(path: tuple, leaf: Any) -> str:
        kind = getattr(leaf, "dtype", type(leaf).__name__)
        return f"{jax.tree_util.keystr(path)} {kind}{list(np.shape(leaf))}".strip()

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = [of_leaf(*each) for each in leaves[:6]] + ["..."] * (len(leaves) > 6)
    bare = bool(leaves) and not leaves[0][0]
    return named[0] if bare else f"{type(tree).__name__} ({', '.join(named)})"


def checked_buckets(
    problem: contract.Problem,
    inputs: PyTree,
    outputs: PyTree,
    example_weights: np.ndarray | None,
    others: Others = NO_OTHERS,
    *,
    dual: bool = True,
) -> tuple[Buckets, Buckets]:
    """The examples in buckets, or a ValueError that names what does not fit.

    Those that are in buckets already pass through.

    Args:
      others: of `padding.bucketed`. dual: whether inner products of planes will be asked for.
    """
    check_is_problem(problem)
    if not isinstance(inputs, Buckets):
        checked_examples(inputs, outputs, example_weights)
        inputs, outputs = bucketed(problem.padding, inputs, outputs, others, dual)
    checked_example_weights(example_weights, sum(map(len, outputs.index)))
    for x, y, index in zip(inputs.parts, outputs.parts, inputs.index, strict=True):
        if x is not None:  # of others
            check_bucket(problem, x, y, index)
    return inputs, outputs


def check_bucket(problem: contract.Problem, x: PyTree, y: PyTree | None, index: np.ndarray) -> None:
    """Raise ValueError unless some padded examples, those of `index`, fit the problem.

    The problem's own check is of the whole bucket; its error names the example as the caller
    counts. y: None where there are no outputs yet.
    """
    check_inputs(x)
    if y is not None:
        examples_in(x, y)
    try:
        problem.check(x, y)
    except NoOutput as error:
        raise NoOutput(index[error.which], error.reasons) from None
    except ValueError:
        if np.array_equal(index, np.arange(len(index))):
            raise
        for row, example in enumerate(index):
            one = jax.tree.map(lambda leaf, row=row: np.asarray(leaf)[row : row + 1], (x, y))
            try:
                problem.check(*one)
            except ValueError as error:
                raise ValueError(f"example {example}, taken by itself: {error}") from None
        raise
    if y is not None:
        check_integer_outputs(y)


def checked_inputs(problem: contract.Problem, inputs: PyTree) -> Buckets:
    """The inputs to predict of, in buckets, or a ValueError that names what does not fit.

    Its `NoOutput` names all of the inputs without an output.
    """
    check_is_problem(problem)
    if rows_in("inputs", inputs) == 0:
        raise ValueError("inputs is empty: there is nothing to predict")
    check_inputs(inputs)
    buckets = bucketed_inputs(problem.padding, inputs)
    none: list[NoOutput] = []
    for x, index in zip(buckets.parts, buckets.index, strict=True):
        try:
            check_bucket(problem, x, None, index)
        except NoOutput as error:
            none.append(error)
    if none:
        raise NoOutput(
            np.concatenate([each.which for each in none]),
            [reason for each in none for reason in each.reasons],
        )
    return buckets
