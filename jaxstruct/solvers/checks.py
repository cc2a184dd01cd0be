"""Errors at the door: what `fit` refuses, and why."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.types import PyTree

FINEST = {"float32": 1e-5, "float64": 1e-12}


def rounding(dtype: jnp.dtype) -> float:
    """How far, relative to P, the dual may exceed the primal through rounding alone."""
    return 10 * FINEST.get(str(dtype), 1e-3)


def _positive(name: str, value: float) -> None:
    if not (isinstance(value, (int, float, np.number)) and math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")


def check_run(
    C: float,
    tolerance: float | None,
    epsilon: float | None,
    max_passes: int,
    min_margin: float,
    dtype: jnp.dtype,
) -> None:
    """Check the numbers of a run.

    Raises:
      ValueError: C, tolerance, epsilon, max_passes or min_margin is out of its range, no stopping
        rule is left, or the dtype cannot certify the tolerance.
    """
    _positive("C", C)
    _positive("min_margin", min_margin)
    if tolerance is None and epsilon is None:
        raise ValueError("tolerance and epsilon are both None: give at least one stopping rule")
    for name, value in (("tolerance", tolerance), ("epsilon", epsilon)):
        if value is not None:
            _positive(name, value)
    finest = FINEST.get(str(dtype), math.inf)
    if tolerance is not None and tolerance < finest:
        raise ValueError(
            f"tolerance {tolerance:g} is below what {dtype} certifies ({finest:g}): raise it"
            + (", or use float64 weights" if str(dtype) == "float32" else "")
        )
    if max_passes < 1:
        raise ValueError(f"max_passes must be at least 1, got {max_passes}")


def _rows(name: str, tree: PyTree) -> int:
    leaves = [np.shape(leaf) for leaf in jax.tree.leaves(tree)]
    if not leaves or any(not shape for shape in leaves):
        raise ValueError(f"{name} must be arrays with a leading axis of examples, got {leaves}")
    if len({shape[0] for shape in leaves}) > 1:
        raise ValueError(f"{name} must agree in their leading axis, got shapes {leaves}")
    return leaves[0][0]


def _check_finite(name: str, tree: PyTree) -> None:
    for leaf in jax.tree.leaves(tree):
        leaf = np.asarray(leaf)
        if leaf.dtype.kind not in "biuf":
            raise ValueError(
                f"{name} must hold real numbers, got dtype {leaf.dtype}: encode text and labels "
                "first (jaxstruct.core.labels, scikit-learn's vectorisers)"
            )
        if np.issubdtype(leaf.dtype, np.floating) and not np.isfinite(leaf).all():
            row = int(np.argwhere(~np.isfinite(leaf))[0][0])
            raise ValueError(f"{name} has a NaN or an infinity, first in example {row}")


def checked_examples(inputs: PyTree, outputs: PyTree, weights: np.ndarray | None) -> int:
    """The number n of examples.

    Raises:
      ValueError: no examples, leading axes that differ, values that are not finite, or weights
        that are negative, not [n], or all zero.
    """
    n, of_outputs = _rows("inputs", inputs), _rows("outputs", outputs)
    if n != of_outputs:
        raise ValueError(f"inputs has {n} examples, outputs has {of_outputs}: they must agree")
    if n == 0:
        raise ValueError("the training set is empty: inputs and outputs need at least one example")
    _check_finite("inputs", inputs)
    check_weights(weights, n)
    return n


def check_weights(weights: np.ndarray | None, n: int) -> None:
    """Raise ValueError unless the example weights are None or [n], finite, >= 0, not all 0."""
    if weights is not None:
        weights = np.asarray(weights)
        if weights.shape != (n,):
            raise ValueError(f"example_weights must be [n = {n}], got shape {weights.shape}")
        if not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
            raise ValueError("example_weights must be finite, >= 0 and not all zero")
