"""What `chain` refuses at the door: options that do not fit, and values of the examples.

Everything here runs in numpy on the host, before anything compiles.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.chains.losses import ChainLoss
from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.types import Array, PyTree, SparseFeatures


def check_options(number_of_features: int, number_of_labels: int, order: int, eta: float) -> None:
    """Raise ValueError where a number that describes a chain is out of its range."""
    if number_of_features < 1 or number_of_labels < 2:
        raise ValueError(
            f"number_of_features must be at least 1 and number_of_labels at least 2, got "
            f"{number_of_features} and {number_of_labels}"
        )
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2 (label triples), got {order!r}")
    if not (np.isfinite(eta) and eta >= 0):
        raise ValueError(f"eta must be finite and >= 0, got {eta!r}")


def check_tables(names: tuple[str, ...], tables: tuple[Array, ...], S: int) -> None:
    """Raise ValueError unless constraints are bool tables [S, S], [S], [S]."""
    shapes = ((S, S), (S,), (S,))
    for name, table, shape in zip(names, tables, shapes, strict=True):
        if np.shape(table) != shape or np.asarray(table).dtype != bool:
            raise ValueError(
                f"constraints.{name} must be bool of shape {shape}, got "
                f"{np.asarray(table).dtype} of {np.shape(table)}"
            )


def check_lengths(length: np.ndarray, n: int, T: int) -> None:
    """Raise ValueError unless there are n integer lengths in 0..T."""
    if length.shape != (n,) or not np.issubdtype(length.dtype, np.integer):
        raise ValueError(
            f"inputs.length must be [n = {n}] integers, got {length.dtype} of shape {length.shape}"
        )
    wrong = np.flatnonzero((length < 0) | (length > T))
    if wrong.size:
        raise ValueError(
            f"inputs.length[{wrong[0]}] is {length[wrong[0]]}: expected 0..{T}, the padded length "
            f"({wrong.size} such)"
        )


def _check_sparse(d: int, features: SparseFeatures) -> tuple[int, int]:
    indices, values = np.asarray(features.indices), np.asarray(features.values)
    if not np.issubdtype(indices.dtype, np.integer) or indices.ndim != 3:
        raise ValueError(
            f"inputs.features.indices must be [n, T, m] integers, got {indices.dtype} of shape "
            f"{indices.shape}"
        )
    if indices.shape != values.shape:
        raise ValueError(
            f"inputs.features.indices {indices.shape} and values {values.shape} must have one shape"
        )
    if indices.size and (indices.min() < 0 or indices.max() > d):
        raise ValueError(
            f"inputs.features.indices must lie in 0..{d - 1} (padding: {d}), got "
            f"{indices.min()}..{indices.max()}"
        )
    if values[indices == d].any():
        raise ValueError(f"inputs.features.values must be 0 where the index is {d} (padding)")
    return indices.shape[:2]


def check_features(d: int, features: PyTree) -> tuple[int, int]:
    """(n, T) of features of n sequences.

    Raises:
      ValueError: they are not [n, T, d], sparse with indices 0..d, or kernel rows on d anchors.
    """
    if isinstance(features, SparseFeatures):
        return _check_sparse(d, features)
    kernel = isinstance(features, KernelTokens)
    shape = np.shape(features.rows if kernel else features)
    if len(shape) != 3 or shape[2] != d:
        name = "inputs.features.rows" if kernel else "inputs.features"
        raise ValueError(f"{name} must be [n, T, number_of_features = {d}], got shape {shape}")
    return shape[:2]


def check_anchors(features: KernelTokens, gram: np.ndarray, length: np.ndarray) -> None:
    """Raise ValueError unless every token is an anchor whose kernel values are those of gram.

    A token that is no anchor has no coefficient that training could change.
    """
    rows, anchors = np.asarray(features.rows), np.asarray(features.anchors)
    (n, T, m), steps = rows.shape, np.arange(rows.shape[1])
    if anchors.shape != (n, T) or not np.issubdtype(anchors.dtype, np.integer):
        raise ValueError(
            f"inputs.features.anchors must be [n, T] = [{n}, {T}] integers, got {anchors.dtype} "
            f"of shape {anchors.shape}"
        )
    real = steps < length[:, None]
    wrong = np.argwhere(real & ((anchors < 0) | (anchors >= m)))
    if wrong.size:
        i, t = wrong[0]
        raise ValueError(
            f"inputs.features.anchors[{i}, {t}] is {anchors[i, t]}: every token of a training "
            f"sequence must be one of the {m} anchors ({len(wrong)} are not)"
        )
    places = np.broadcast_to(np.where(real, anchors, 0)[:, None], (n, T, T))
    pairs = real[:, :, None] & real[:, None]
    off = np.where(pairs, np.abs(np.take_along_axis(rows, places, axis=2) - gram), 0)
    if off.max(initial=0) > 1e-3 * np.abs(np.where(pairs, gram, 0)).max(initial=0):
        i, t, s = np.unravel_index(np.argmax(off), off.shape)
        raise ValueError(
            f"inputs.gram[{i}, {t}, {s}] is {gram[i, t, s]}, but inputs.features.rows at the "
            f"anchor of token {s} is {rows[i, t, anchors[i, s]]}: give values of one kernel"
        )


def check_labels(S: int, length: np.ndarray, y: np.ndarray) -> None:
    """Raise ValueError unless y holds labels 0..S-1 up to the length, and -1 after it."""
    if not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"outputs must be integer labels, got {y.dtype}: see core.labels")
    real = np.arange(y.shape[1]) < length[:, None]
    wrong = np.argwhere(np.where(real, (y < 0) | (y >= S), y != -1))
    if wrong.size:
        i, t = wrong[0]
        raise ValueError(
            f"outputs[{i}, {t}] is {y[i, t]}: expected labels 0..{S - 1} in the first "
            f"{length[i]} positions and -1 (padding) after them ({len(wrong)} such)"
        )


def check_allowed(tables: tuple[Array, ...], length: np.ndarray, y: np.ndarray) -> None:
    """Raise ValueError if a true output breaks the constraints (transitions, start, stop)."""
    transitions, start, stop = map(np.asarray, tables)
    pairs = transitions[y[:, :-1], y[:, 1:]] & (y[:, 1:] >= 0)
    last = y[np.arange(len(y)), np.maximum(length - 1, 0)]
    ends = (length > 0) & (start[y[:, 0]] | stop[last])
    bad = np.flatnonzero(pairs.any(axis=1) | ends)
    if bad.size:
        raise ValueError(
            f"outputs[{bad[0]}] breaks the constraints ({bad.size} such): the true output must be "
            "one that the constraints allow; repair the labels or drop the constraints"
        )


def check_level_loss(loss: ChainLoss, length: np.ndarray) -> None:
    """Raise ValueError unless a loss of the level is 0 at level 0 and finite, >= 0 elsewhere."""
    lengths = np.unique(length)
    levels = np.arange(lengths[-1] + 1)
    of_all = jax.vmap(jax.vmap(loss.of_level, (0, None)), (None, 0))
    losses = np.asarray(of_all(jnp.asarray(levels), jnp.asarray(lengths)))
    if losses.shape != (lengths.size, levels.size):
        raise ValueError(
            f"loss(level, length) must be a scalar, got shape {losses.shape[2:]} of scalars"
        )
    good = np.isfinite(losses) & np.where(levels == 0, losses == 0, losses >= 0)
    wrong = np.argwhere(~good & (levels <= lengths[:, None]))
    if wrong.size:
        i, level = wrong[0]
        raise ValueError(
            f"loss(level={level}, length={lengths[i]}) is {losses[i, level]}: a loss must be 0 at "
            "level 0 (also of an empty sequence, length 0), finite and >= 0 elsewhere"
        )
