"""Inputs of candidate sets: what an example holds of x and of the outputs Gen(x) (thesis 4.6.2).

The outputs that are a candidate anywhere stand in one table; a candidate is its number there. A
number says which output is meant wherever it turns up, so that the loss and the kernel L need no
list beside it. Lists of one length are arrays [n, K], those of several lengths `Ragged` stores.
Padding is -1. Of equal scores the candidate that stands first in its list wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import as_array, as_list, check_flag, check_one_each, checked_size
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.types import AnyArray, PyTree, SparseFeatures
from jaxstruct.kernels.input import check_positive_semidefinite

Lists: TypeAlias = "Ragged | Sequence[Any] | np.ndarray"
"""n lists of candidates' numbers: lists of integers, an array [n, K] (padding: -1) or `Ragged`."""


class CandidateFeatures(NamedTuple):
    """Candidates with a feature vector each.

    Fields:
      numbers: [K] int32, the candidates; -1 is padding.
      features: [K, d] Psi(x, y_k), or `SparseFeatures` [K, m] padded with index d.
    """

    numbers: AnyArray
    features: AnyArray | SparseFeatures


class KernelCandidates(NamedTuple):
    """Candidates under J = K(x, x') L(y, y'), where the problem knows L.

    Fields:
      row: [m] K(x, anchor_j).
      anchor: scalar int32, the position of x among the anchors; m (out of range) if it is none.
      numbers: [K] int32, the candidates; -1 is padding.
    """

    row: AnyArray
    anchor: AnyArray
    numbers: AnyArray


class JointCandidates(NamedTuple):
    """Candidates under any joint kernel J((x, y), (x', y')).

    Fields:
      rows: [K, A] J((x, y_k), pair_a) against the A anchor pairs.
      anchors: [K] int32, the position of (x, y_k) among these; A (out of range) if it is none.
      numbers: [K] int32, the candidates; -1 is padding.
    """

    rows: AnyArray
    anchors: AnyArray
    numbers: AnyArray


def as_lists(numbers: Lists) -> Ragged:
    """Lists of candidates as a store of int32, its padding -1.

    Raises:
      ValueError: they are no n lists of integers >= 0, or a list is empty.
    """
    if not isinstance(numbers, Ragged):
        lists = as_list("numbers", numbers, "n lists of integers, the candidates of each input")
        arrays = [as_array(f"numbers[{i}]", one, "[K] integers") for i, one in enumerate(lists)]
        padded = hasattr(numbers, "dtype")
        numbers = ragged([_unpadded(a) for a in arrays] if padded else arrays, -1)
    rows = numbers.rows
    if len(rows) and (rows.ndim != 1 or rows.dtype.kind not in "iu"):
        raise ValueError(
            f"numbers must be n lists of integers, got {rows.dtype} rows of shape {rows.shape[1:]}"
        )
    empty = np.flatnonzero(numbers.lengths == 0)
    if empty.size or not len(numbers):
        what = f"numbers[{empty[0]}] has" if empty.size else "numbers have"
        raise ValueError(
            f"{what} no candidate ({empty.size} such): Gen(x) must hold an output for every input"
        )
    if rows.min() < 0 or rows.max() > np.iinfo(np.int32).max:
        raise ValueError(
            f"numbers must be rows 0.. of the table of outputs, got {rows.min()}..{rows.max()}"
        )
    return Ragged(rows.astype(np.int32), numbers.offsets, -1)


def _unpadded(row: np.ndarray) -> np.ndarray:
    """A row of an array [n, K] without its padding on the right."""
    if row.ndim != 1 or row.dtype.kind not in "iu":
        return row
    real = np.flatnonzero(row >= 0)
    return row[: real[-1] + 1 if real.size else 0]


def _leaf(store: Ragged) -> Ragged | np.ndarray:
    """An array [n, K, ...] where all lists are of one length, else the store."""
    lengths = store.lengths
    if (lengths != lengths[0]).any():
        return store
    return store.rows.reshape(len(store), int(lengths[0]), *store.rows.shape[1:])


def _per_candidate(name: str, value: Any, lists: Ragged, fill: float = 0) -> Ragged | np.ndarray:
    """Rows [M, ...] of all candidates, [n, K, ...] or n arrays [K, ...] as the lists are.

    Raises:
      ValueError: there are not as many rows as candidates.
    """
    rank = 0 if isinstance(value, (Ragged, list, tuple)) else np.ndim(value)
    if rank == 2:
        rows = np.asarray(value)
    elif rank > 2:
        rows = _real_rows(name, np.asarray(value), lists)
    else:
        store = ragged(value, fill)
        check_one_each(name, store.lengths, "numbers", lists.lengths)
        rows = store.rows
    if len(rows) != len(lists.rows):
        raise ValueError(
            f"{name} has {len(rows)} rows for {len(lists.rows)} candidates: give one row a "
            "candidate, those of the first input first"
        )
    return _leaf(Ragged(rows, lists.offsets, fill))


def _real_rows(name: str, value: np.ndarray, lists: Ragged) -> np.ndarray:
    """[M, ...] the rows of [n, K, ...] that are no padding."""
    n, K = len(lists), int(lists.lengths.max())
    if value.shape[0] != n or value.shape[1] < K:
        raise ValueError(f"{name} must be [n, K, ..] = [{n}, {K}, ..], got shape {value.shape}")
    return value[np.arange(value.shape[1]) < lists.lengths[:, None]]


def feature_inputs(
    numbers: Lists, features: Any, number_of_features: int | None = None
) -> CandidateFeatures:
    """Inputs of `candidates`: the candidates of n inputs and a feature vector each.

    Args:
      numbers: n lists, the candidates of each input as rows of the table of outputs.
      features: Psi(x, y): [M, d], one row a candidate, those of the first input first; or n arrays
        [K, d]; or [n, K, d]. `SparseFeatures` of such [.., m] leaves, too.
      number_of_features: d, which sparse features are padded with.

    Returns:
      CandidateFeatures of arrays where all lists are of one length, else of `Ragged` stores.

    Raises:
      ValueError: a list is empty, or there is not one row a candidate.
    """
    lists = as_lists(numbers)
    if not isinstance(features, SparseFeatures):
        return CandidateFeatures(_leaf(lists), _per_candidate("features", features, lists))
    d = checked_size("number_of_features (sparse features are padded with it)", number_of_features)
    indices = _per_candidate("features.indices", features.indices, lists, d)
    values = _per_candidate("features.values", features.values, lists)
    return CandidateFeatures(_leaf(lists), SparseFeatures(indices, values))


def kernel_inputs(gram: Any, numbers: Lists, *, new: bool = False) -> KernelCandidates:
    """Inputs of `kernel_candidates` from kernel values K of inputs.

    Args:
      gram: [n, m] K(x_i, anchor_j), as `kernels.gram_matrix` makes it of a kernel function. The
        inputs ARE the anchors (n = m) unless `new`.
      numbers: n lists, the candidates of each input as rows of the table of outputs.
      new: whether the inputs are no anchors, for prediction.

    Raises:
      ValueError: gram is no matrix of n rows, or none of a kernel, or a list is empty.
    """
    check_flag("new", new)
    lists = as_lists(numbers)
    gram, anchors = _anchored("gram", gram, len(lists), new, "inputs")
    return KernelCandidates(gram, anchors, _leaf(lists))


def joint_inputs(gram: Any, numbers: Lists, *, new: bool = False) -> JointCandidates:
    """Inputs of `joint_candidates` from values of any joint kernel J.

    Args:
      gram: [M, A] J((x_i, y_k), pair_a) of every candidate of every input, those of the first input
        first, against the anchor pairs. These candidates ARE the anchors (M = A) unless `new`.
      numbers: n lists, the candidates of each input as rows of the table of outputs.
      new: whether the candidates are no anchors, for prediction.

    Raises:
      ValueError: gram is no matrix of M rows, or none of a kernel, or a list is empty.
    """
    check_flag("new", new)
    lists = as_lists(numbers)
    gram, anchors = _anchored("gram", gram, len(lists.rows), new, "candidates")
    rows = _leaf(Ragged(gram, lists.offsets))
    return JointCandidates(rows, _leaf(Ragged(anchors, lists.offsets, gram.shape[1])), _leaf(lists))


def _anchored(
    name: str, gram: Any, count: int, new: bool, what: str
) -> tuple[np.ndarray, np.ndarray]:
    """(kernel values [count, A], the positions of their rows among the anchors)."""
    gram = as_array(name, gram, f"a matrix [{what}, anchors] of numbers")
    if gram.ndim != 2 or len(gram) != count:
        raise ValueError(
            f"{name} must be a matrix of {count} rows, one for each of the {what}, got shape "
            f"{gram.shape}"
        )
    if new:
        return gram, np.full(count, gram.shape[1], np.int32)
    if gram.shape[1] != count:
        raise ValueError(
            f"{name} is {count} x {gram.shape[1]}: the {what} of training are the anchors "
            "themselves; of others, to predict, say new=True"
        )
    check_positive_semidefinite(gram, name)
    return gram, np.arange(count, dtype=np.int32)


def joint_pairs(inputs: PyTree, outputs: PyTree, numbers: Lists) -> tuple[PyTree, PyTree]:
    """The M pairs (x_i, y_k) of all candidates, of which `kernels.gram_matrix` makes J.

    With J a function of two pairs ((x, y), (x', y')), J = gram_matrix(J, joint_pairs(...)) is what
    `joint_inputs` takes; of new inputs, gram_matrix(J, new pairs, pairs).

    Args:
      inputs: pytree with a leading axis [n]. outputs: pytree with a leading axis, the table.
      numbers: n lists, the candidates of each input as rows of the table.

    Returns:
      (inputs, outputs), pytrees with a leading axis [M], the pairs of the first input first.

    Raises:
      ValueError: the lists are not of n inputs, or name rows that the table does not have.
    """
    lists = as_lists(numbers)
    n, size = (np.shape(jax.tree.leaves(tree)[0])[0] for tree in (inputs, outputs))
    if n != len(lists):
        raise ValueError(f"inputs are {n}, numbers of {len(lists)}: give the lists of these inputs")
    if lists.rows.max() >= size:
        raise ValueError(
            f"numbers go to {lists.rows.max()}, but outputs has {size} rows: number the "
            "candidates by that table"
        )
    which = np.repeat(np.arange(n), lists.lengths)
    return (
        jax.tree.map(lambda leaf: jnp.asarray(leaf)[which], inputs),
        jax.tree.map(lambda leaf: jnp.asarray(leaf)[lists.rows], outputs),
    )
