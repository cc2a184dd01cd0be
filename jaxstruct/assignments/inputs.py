"""Two sets of items to match: features of their pairs and of the items, ragged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, text_of
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.spec import checked_int32
from jaxstruct.core.types import AnyArray, PyTree, SparseFeatures


class MatchingInput(NamedTuple):
    """Two sets to match; `matching_inputs` builds n of them, with `Ragged` leaves.

    Fields:
      features: [P, d] of pairs, or SparseFeatures of [P, m] leaves; zeros on padding.
      pairs: [P, 2] int32 the row and the column of each pair, -1 on padding; the others are
        forbidden. None where all r c pairs come row by row.
      rows, columns: [R, e] and [C, f] of the items, or SparseFeatures; what is read of them where
        items have no features is how many there may be.
      sizes: [2] int32, r and c.
    """

    features: PyTree
    pairs: AnyArray | None
    rows: PyTree
    columns: PyTree
    sizes: AnyArray


def store_of(features: PyTree) -> Any:
    """The first of the stores (or arrays) that features consist of."""
    return features.indices if isinstance(features, SparseFeatures) else features


def _items(name: str, features: Any, sizes: np.ndarray) -> PyTree:
    """Features of the items of one side, a constant 1 where there are none given."""
    if features is None:
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return Ragged(np.ones((offsets[-1], 1), np.float32), offsets)
    if not isinstance(features, (SparseFeatures, Ragged)):
        features = ragged(as_list(name, features, "a list of n arrays [items, features]"))
    found = store_of(features).lengths
    wrong = np.flatnonzero(found != sizes) if len(found) == len(sizes) else np.zeros(1, int)
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"{name} must have a row for each item of n = {len(sizes)} examples, "
            f"got {len(found)} examples, and of example {i} {found[i : i + 1]} rows for {sizes[i]}"
        )
    return features


def _of_arrays(features: Sequence[Any]) -> tuple[Ragged, np.ndarray]:
    """(rows of features of all pairs, sizes [n, 2]) of n arrays [r, c, d]."""
    arrays = [np.asarray(one) for one in as_list("features", features, "n arrays [r, c, d]")]
    for i, one in enumerate(arrays):
        if one.ndim != 3 or one.dtype.kind not in "biuf":
            raise ValueError(f"features[{i}] must be [r, c, d] numbers, got {text_of(features[i])}")
    sizes = np.array([one.shape[:2] for one in arrays], np.int32).reshape(-1, 2)
    return ragged([one.reshape(-1, one.shape[2]) for one in arrays]), sizes


def matching_inputs(
    features: Any,
    sizes: Any = None,
    *,
    pairs: Any = None,
    rows: Any = None,
    columns: Any = None,
) -> MatchingInput:
    """n examples of two sets each, of any sizes.

    Args:
      features: a list of n arrays [r, c, d]; or a `Ragged`, or `SparseFeatures` of two, of the rows
        of features of pairs.
      sizes: [n, 2] the numbers r and c of items, where they are not those of arrays.
      pairs: a list of n integers [P, 2], or a `Ragged` of them: the row and the column that each
        row of features is of, in the order of rows and columns; other pairs are forbidden. None
        where all come row by row.
      rows, columns: lists of n arrays [r, e] and [c, f], or such stores: features of the items,
        which an unmatched one is scored by. None for one constant feature.

    Raises:
      ValueError: what is given does not fit together.
    """
    if not isinstance(features, (Ragged, SparseFeatures)):
        if sizes is not None:
            raise ValueError("sizes must be left out of arrays [r, c, d], which have their own")
        features, sizes = _of_arrays(features)
    elif sizes is None:
        raise ValueError("sizes must be given of stores: [n, 2] integers")
    lengths = store_of(features).lengths
    sizes = checked_int32("sizes", sizes, "n 2", sizes={"n": len(lengths)})
    if (sizes < 1).any():
        i = int(np.argwhere(sizes < 1)[0, 0])
        raise ValueError(f"sizes[{i}] is {sizes[i].tolist()}: both sets must have an item")
    listed = sizes.prod(axis=1)
    if pairs is not None:
        pairs = ragged(pairs, -1)
        rest = pairs.rows.reshape(-1, 2) if not pairs.rows.size else pairs.rows
        pairs = Ragged(checked_int32("pairs", rest, "n 2"), pairs.offsets, -1)
        listed = pairs.lengths
    if not np.array_equal(lengths, listed):
        i = int(np.flatnonzero(lengths != listed)[0]) if len(listed) == len(lengths) else 0
        raise ValueError(f"features[{i}] has {lengths[i]} rows, expected one for each pair")
    return MatchingInput(
        features, pairs, _items("rows", rows, sizes[:, 0]), _items("columns", columns, sizes[:, 1]),
        sizes,
    )  # fmt: skip
