"""What `fit_binary` and its relatives refuse before compiling, and the forms that they read."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from experiments.machines.binary.examples import DenseRows, Examples, KernelRows, SparseRows
from jaxstruct.core.checks import (
    as_array,
    as_numbers,
    check_sparse,
    checked_dtype,
    checked_size,
    text_of,
)
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.multiclass.structure import KernelInput


def held_dtype(dtype: Any) -> str:
    """The name of a dtype that jax holds as it is set.

    Raises:
      ValueError: neither float32 nor float64, or float64 without jax's x64 mode, in which jax
        would compute in float32.
    """
    name = checked_dtype(dtype)
    if name == "float64" and not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        raise ValueError(
            'dtype is "float64", but jax\'s x64 mode is off: jax.config.update("jax_enable_x64", '
            "True) before anything else, or take float32"
        )
    return name


def rows_of(
    inputs: PyTree, number_of_features: int | None, kernel_columns: int | None = None
) -> Examples:
    """Checked inputs as NumPy arrays, float32 where they came so, else float64.

    Args:
      inputs: dense, sparse or kernel values, see `fit_binary`.
      number_of_features: d, or None for that of dense inputs.
      kernel_columns: kernel values have so many columns; None: they are square, for training.

    Raises:
      ValueError: another type, shape or value than expected.
    """
    if isinstance(inputs, KernelInput):
        return _kernel(inputs, kernel_columns)
    if kernel_columns is not None:
        raise ValueError(
            f"inputs must be a KernelInput, as the training inputs were, got {text_of(inputs)}"
        )
    if isinstance(inputs, SparseFeatures):
        return _sparse(inputs, number_of_features)
    x = _numbers("inputs", inputs, "[n, d] numbers, SparseFeatures or a KernelInput")
    if x.ndim != 2 or not x.size:
        raise ValueError(f"inputs must be [n, d] numbers, got shape {x.shape}")
    if number_of_features is not None and x.shape[1] != number_of_features:
        raise ValueError(
            f"inputs must be [n, number_of_features = {number_of_features}], got shape {x.shape}"
        )
    _check_finite("inputs", x)
    return DenseRows(x)


def _numbers(name: str, value: Any, expected: str) -> np.ndarray:
    numbers = as_numbers(name, value, expected)
    return numbers.astype(np.float32) if np.asarray(value).dtype == np.float32 else numbers


def _check_finite(name: str, values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        place = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(f"{name}{[int(i) for i in place]} is {values[tuple(place)]}, not finite")


def _kernel(inputs: KernelInput, columns: int | None) -> KernelRows:
    gram = _numbers("inputs.row", inputs.row, "[n, m] kernel values")
    if columns is None and not np.array_equal(np.asarray(inputs.anchor), np.arange(len(gram))):
        raise ValueError(
            "inputs must be the anchors in their order, kernel_inputs(gram) of the square kernel "
            f"matrix, got rows of shape {gram.shape}"
        )
    wanted = len(gram) if columns is None else columns
    if gram.ndim != 2 or gram.shape[1] != wanted or not gram.size:
        raise ValueError(f"inputs.row must be [n, {wanted}] kernel values, got shape {gram.shape}")
    _check_finite("inputs.row", gram)
    return KernelRows(gram)


def _sparse(inputs: SparseFeatures, d: int | None) -> SparseRows:
    if d is None:
        raise ValueError("number_of_features is None: sparse inputs do not say it, so give d")
    d = checked_size("number_of_features", d)
    indices, values = inputs
    if isinstance(indices, Ragged) and isinstance(values, Ragged):
        every, width = np.arange(len(indices)), max(1, int(indices.lengths.max(initial=1)))
        indices, values = indices.padded(every, width, d), values.padded(every, width)
    indices = as_array("inputs.indices", indices, "[n, m] integers")
    values = as_numbers("inputs.values", values, "[n, m] numbers")
    _check_finite("inputs.values", values)
    check_sparse("inputs", indices, values, d, "[n, m]")
    return SparseRows(SparseFeatures(indices, values), np.zeros(d))


def checked_signs(signs: Any, n: int, example_weights: np.ndarray) -> np.ndarray:
    """[n, M] int8 of -1, 0 and 1, with both signs in each column.

    Raises:
      ValueError: another shape or value, or a machine without examples of one sign.
    """
    array = as_array("signs", signs, "[n] or [n, M] of -1, 0 and 1")
    if array.ndim not in (1, 2) or len(array) != n or not array.size:
        raise ValueError(f"signs must be [n = {n}] or [n, M], got shape {array.shape}")
    if array.dtype.kind not in "iuf" or not np.isin(array, (-1, 0, 1)).all():
        raise ValueError(f"signs must be -1, 0 (left out) or 1, got {text_of(np.unique(array))}")
    table = array.reshape(n, -1).astype(np.int8)
    used = table[example_weights > 0]
    for sign in (1, -1):
        bare = np.flatnonzero(~(used == sign).any(axis=0))
        if bare.size:
            raise ValueError(
                f"signs[:, {bare[0]}] has no {sign} ({bare.size} such): a machine needs "
                "examples of weight > 0 on both sides"
            )
    return table
