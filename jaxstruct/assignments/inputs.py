"""Two sets of items to match: features of their pairs and of the items, ragged."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxstruct.core.types import AnyArray, PyTree, SparseFeatures


class MatchingInput(NamedTuple):
    """Two sets to match; `prepare` and encodings make n of them, with `Ragged` leaves.

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
