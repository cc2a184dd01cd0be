"""What `chain` refuses before anything compiles: wrong options, and values of the examples.

Everything here runs in numpy on the host, before anything compiles.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.chains.inputs import Constraints
from jaxstruct.chains.losses import ChainLoss
from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.checks import (
    NoOutput,
    as_array,
    check_sparse,
    checked_number,
    checked_size,
    text_of,
)
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import AnyArray, Array, PyTree, SparseFeatures
from jaxstruct.kernels.check import check_positive_semidefinite

_KINDS = (
    "a jaxstruct.ragged of n sequences [l, d], or padded numbers [n, T, d] (SparseFeatures and "
    "KernelTokens: leaves of either kind)"
)
GRAM_ROWS = 256
"""Rows of token Gram matrices that are computed again by the validation, at most."""
_TOLERANCE = 1e-3
"""How far a given inner product may be off, in units of the norms: float32 sums are."""


def check_options(number_of_features: int, number_of_labels: int, order: int, eta: float) -> None:
    """Raise ValueError where a number that describes a chain is out of its range."""
    checked_size("number_of_features", number_of_features)
    checked_size("number_of_labels", number_of_labels, 2)
    if not isinstance(order, int) or order not in (1, 2):
        raise ValueError(f"order must be 1 or 2 (label triples), got {text_of(order)}")
    checked_number("eta", eta)


def check_tables(names: tuple[str, ...], tables: tuple[Array, ...], S: int) -> None:
    """Raise ValueError unless constraints are bool tables [S, S], [S], [S]."""
    shapes = ((S, S), (S,), (S,))
    if not isinstance(tables, tuple) or len(tables) != len(names):
        raise ValueError(
            f"constraints must be Constraints(transitions, start, stop), got {text_of(tables)}"
        )
    for name, table, shape in zip(names, tables, shapes, strict=True):
        table = as_array(f"constraints.{name}", table, f"bool of shape {shape}")
        if table.shape != shape or table.dtype != bool:
            raise ValueError(
                f"constraints.{name} must be bool of shape {shape}, got {table.dtype} of "
                f"{table.shape}"
            )


def check_kind(features: PyTree) -> tuple[int, int]:
    """(n, T) of features of n sequences, by their shapes alone.

    Raises:
      ValueError: they are not [n, T, d], sparse of [n, T, m] leaves, or kernel rows [n, T, m].
    """
    leaf = features
    if isinstance(features, (SparseFeatures, KernelTokens)):
        leaf = features[0]
    elif not hasattr(features, "shape"):
        leaf = as_array("features", features, _KINDS)
    if len(np.shape(leaf)) != 3:
        raise ValueError(
            f"features must be {_KINDS}, got {text_of(features)} of {np.ndim(leaf)} axes: "
            "chain_inputs(features, length, gram)"
        )
    n, T, _ = np.shape(leaf)
    return n, T


def checked_stores(features: PyTree) -> np.ndarray:
    """[n] the lengths that all leaves of ragged features have.

    Raises:
      ValueError: a leaf is no Ragged, tokens are no vectors (anchors: numbers), or two leaves
        differ in a length.
    """
    kinds = (SparseFeatures, KernelTokens)
    named = features._asdict() if isinstance(features, kinds) else {"": features}
    first: np.ndarray | None = None
    for field, leaf in named.items():
        name = f"features.{field}" if field else "features"
        axes = 1 if field == "anchors" else 2
        if not isinstance(leaf, Ragged) or leaf.rows.ndim != axes:
            wanted = "[l] numbers" if axes == 1 else "[l, d] numbers, a row a token"
            if isinstance(features, SparseFeatures):
                wanted = "[l, m] numbers, a row a token (from_scipy with offsets makes them)"
            raise ValueError(f"{name} must be a Ragged of {wanted}, got {text_of(leaf)}")
        first = leaf.lengths if first is None else first
        if not np.array_equal(first, leaf.lengths):
            raise ValueError(f"{name} must have the tokens of features.{next(iter(named))}")
    assert first is not None, "at least one leaf"
    return first


def _check_sparse(d: int, features: SparseFeatures) -> tuple[int, int]:
    indices, values = np.asarray(features.indices), np.asarray(features.values)
    check_sparse("inputs.features", indices, values, d, "[n, T, m]")
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


def _row_of_gram(features: PyTree, i: int, t: int) -> np.ndarray:
    """[T] inner products of token t of sequence i with all of its tokens, in float64."""
    if not isinstance(features, SparseFeatures):
        tokens = np.asarray(features[i], np.float64)
        return tokens @ tokens[t]
    indices, values = np.asarray(features.indices[i]), np.asarray(features.values[i], np.float64)
    if not indices.shape[1]:
        return np.zeros(len(indices))
    order = np.argsort(indices[t])
    own, weights = indices[t][order], values[t][order]
    place = np.minimum(np.searchsorted(own, indices), len(own) - 1)
    return np.sum(np.where(own[place] == indices, values * weights[place], 0), axis=1)


def _squared_norms(features: PyTree) -> np.ndarray:
    """[n, T] in float64, in blocks of sequences, so that memory stays small."""
    leaf = features.values if isinstance(features, SparseFeatures) else features
    norms = np.empty(leaf.shape[:2])
    for at in range(0, len(leaf), 256):
        part = np.asarray(leaf[at : at + 256], np.float64)
        norms[at : at + 256] = np.einsum("ntd,ntd->nt", part, part)
    return norms


def check_gram(features: PyTree, gram: np.ndarray, length: np.ndarray) -> None:
    """Raise ValueError where gram [n, T, T] is not that of the tokens.

    All of its diagonal is compared, and one row each of at most `GRAM_ROWS` sequences.
    """
    n, T = gram.shape[:2]
    norms = _squared_norms(features)
    diagonal = np.einsum("ntt->nt", gram).astype(np.float64)
    off = np.abs(diagonal - norms) > _TOLERANCE * norms
    wrong = np.argwhere(off & (np.arange(T) < length[:, None]))
    if wrong.size:
        i, t = wrong[0]
        _refuse_gram((i, t, t), float(diagonal[i, t]), float(norms[i, t]))
    some = np.unique(np.linspace(0, n - 1, min(n, GRAM_ROWS)).astype(int))
    for i in some[length[some] > 1]:
        end, t = length[i], i % length[i]
        row = _row_of_gram(features, i, t)[:end]
        scale = np.sqrt(norms[i, t] * norms[i, :end])
        wrong = np.flatnonzero(np.abs(gram[i, t, :end] - row) > _TOLERANCE * scale)
        if wrong.size:
            s = wrong[0]
            _refuse_gram((i, t, s), float(gram[i, t, s]), float(row[s]))


def _refuse_gram(place: tuple[int, int, int], found: float, wanted: float) -> None:
    i, t, s = place
    raise ValueError(
        f"inputs.gram[{i}, {t}, {s}] is {found:g}, but the inner product of these tokens is "
        f"{wanted:g}: the matrix is of other features; leave gram out, and chain_inputs makes it"
    )


def check_anchors(features: KernelTokens, gram: AnyArray | None, length: np.ndarray) -> None:
    """Raise ValueError unless every token is an anchor whose kernel values are those of any gram.

    A token that is no anchor has no coefficient that training could change.
    """
    rows, anchors = np.asarray(features.rows), np.asarray(features.anchors)
    (n, T, m), steps = rows.shape, np.arange(rows.shape[1])
    if anchors.shape != (n, T) or anchors.dtype.kind not in "iu":
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
    if gram is None:
        return
    gram = np.asarray(gram)
    places = np.broadcast_to(np.where(real, anchors, 0)[:, None], (n, T, T))
    pairs = real[:, :, None] & real[:, None]
    off = np.where(pairs, np.abs(np.take_along_axis(rows, places, axis=2) - gram), 0)
    if off.max(initial=0) > _TOLERANCE * np.abs(np.where(pairs, gram, 0)).max(initial=0):
        i, t, s = np.unravel_index(np.argmax(off), off.shape)
        raise ValueError(
            f"inputs.gram[{i}, {t}, {s}] is {gram[i, t, s]}, but inputs.features.rows at the "
            f"anchor of token {s} is {rows[i, t, anchors[i, s]]}: give values of one kernel"
        )


def check_anchor_kernel(features: PyTree, length: np.ndarray) -> None:
    """Raise ValueError where tokens are all anchors, as those of training are, but of no kernel.

    Args:
      features: `KernelTokens`, padded or ragged, and others, which pass. length: [n].
    """
    if not isinstance(features, KernelTokens):
        return
    rows, anchors = (leaf.rows if isinstance(leaf, Ragged) else leaf for leaf in features)
    if not isinstance(features.rows, Ragged):
        real = np.arange(np.shape(rows)[1]) < length[:, None]
        if np.shape(anchors) != real.shape:  # which fit refuses
            return
        rows, anchors = np.asarray(rows)[real], np.asarray(anchors)[real]
    distinct, first = np.unique(anchors, return_index=True)
    if distinct.dtype.kind not in "iu" or not distinct.size:
        return
    if 0 <= distinct[0] and distinct[-1] < rows.shape[1]:
        gram = rows[first[:, None], distinct]
        check_positive_semidefinite(gram, "features.rows of the anchors that are tokens")


def check_labels(S: int, length: np.ndarray, y: np.ndarray) -> None:
    """Raise ValueError unless y holds labels 0..S-1 up to the length, and -1 after it."""
    if y.dtype.kind not in "iu":
        raise ValueError(f"outputs must be integer labels, got {y.dtype}: see core.labels")
    real = np.arange(y.shape[1]) < length[:, None]
    wrong = np.argwhere(np.where(real, (y < 0) | (y >= S), y != -1))
    if wrong.size:
        i, t = wrong[0]
        raise ValueError(
            f"outputs[{i}, {t}] is {y[i, t]}: expected labels 0..{S - 1} in the first "
            f"{length[i]} positions and -1 (padding) after them ({len(wrong)} such)"
        )


def check_possible(tables: Constraints, length: np.ndarray) -> None:
    """Raise `NoOutput` where the constraints allow no label sequence of a length [n]."""
    wrong = np.flatnonzero(~_possible(tables, int(length.max(initial=0)))[length])
    if wrong.size:
        raise NoOutput(
            wrong, [f"the constraints allow no labels of a sequence of length {length[i]}: relax "
                    "them, or leave it out" for i in wrong],
        )  # fmt: skip


def _possible(tables: Constraints, longest: int) -> np.ndarray:
    """[longest + 1] bool, whether the constraints allow a label sequence of each length."""
    follows, start, stop = (~np.asarray(table) for table in tables)
    possible, ends = np.ones(longest + 1, bool), start
    for length in range(1, longest + 1):
        possible[length:] = (ends & stop).any()
        before, ends = ends, follows[ends].any(axis=0)
        if (ends == before).all():  # and so they are of all that are longer
            break
    return possible


def check_allowed(
    tables: Constraints,
    rows: np.ndarray,
    offsets: np.ndarray,
    place: str = "outputs",
    names: Sequence[str] | None = None,
) -> None:
    """Raise ValueError if a true output breaks the constraints.

    Args:
      rows: the labels of n sequences one after the other. offsets: [n + 1] where each begins.
      place: what the caller calls the n. names: [S] of labels; None for their numbers.
    """
    transitions, start, stop = map(np.asarray, tables)
    offsets = np.asarray(offsets)
    some = np.flatnonzero(np.diff(offsets) > 0)
    first, last = offsets[some], offsets[some + 1] - 1
    inside = np.ones(max(len(rows) - 1, 0), bool)
    inside[last[:-1]] = False
    follows = 1 + np.flatnonzero(transitions[rows[:-1], rows[1:]] & inside)
    begins, ends = first[start[rows[first]]], last[stop[rows[last]]]
    wrong = np.concatenate([begins, follows, ends])
    if not wrong.size:
        return
    at = int(wrong.min())
    i = int(np.searchsorted(offsets, at, side="right")) - 1
    shown = [str(s) if names is None else text_of(names[s]) for s in rows]
    if at in begins:
        rule = "which no sequence may begin with"
    elif at in follows:
        rule = f"which may not follow {shown[at - 1]}"
    else:
        rule = "which no sequence may end with"
    bad = len(np.unique(np.searchsorted(offsets, wrong, side="right")))
    raise ValueError(
        f"{place}[{i}] breaks the constraints: token {at - offsets[i]} has the label {shown[at]}, "
        f"{rule} ({bad} such {place}): repair the labels or drop the constraints"
    )


def check_level_loss(loss: ChainLoss, length: np.ndarray) -> None:
    """Raise ValueError unless a loss of the level is 0 at level 0 and finite, >= 0 elsewhere."""
    lengths = np.unique(length)
    levels = np.arange(lengths[-1] + 1)
    assert loss.of_level is not None, "a loss of the level"
    of_all = jax.vmap(jax.vmap(loss.of_level, (0, None)), (None, 0))
    losses = np.asarray(of_all(jnp.asarray(levels), jnp.asarray(lengths)))
    good = np.isfinite(losses) & np.where(levels == 0, losses == 0, losses >= 0)
    wrong = np.argwhere(~good & (levels <= lengths[:, None]))
    if wrong.size:
        i, level = wrong[0]
        raise ValueError(
            f"loss(level={level}, length={lengths[i]}) is {losses[i, level]}: a loss must be 0 at "
            "level 0 (also of an empty sequence, length 0), finite and >= 0 elsewhere"
        )
