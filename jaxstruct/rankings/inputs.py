"""The documents of one query, or the examples of one sample."""

from __future__ import annotations

from typing import NamedTuple

from jaxstruct.core.types import AnyArray, PyTree


class SampleInput(NamedTuple):
    """k documents or examples, padded; `sample_inputs` makes a batch.

    Fields:
      rows: [k, d], or SparseFeatures of [k, m] leaves with index d on padding. In a batch they may
        be `Ragged` stores.
      length: int32 scalar, how many of them are real.
      relevance: [k] int32 >= 0, -1 on padding, of a query to train a ranking on; None else.
    """

    rows: PyTree
    length: AnyArray
    relevance: AnyArray | None = None
