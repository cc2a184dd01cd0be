"""The documents of one query, or the examples of one sample."""

from __future__ import annotations

from typing import NamedTuple

from jaxstruct.core.types import AnyArray, Array, PyTree


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


class SampleTheta(NamedTuple):
    """Potentials of one query or sample.

    Fields:
      scores: [k] <w, x_i>, never read beyond the length. length: int32 scalar.
      relevance: [k] int32, -1 on padding, of the pairs that F of a ranking compares; None for all.
    """

    scores: Array
    length: Array
    relevance: Array | None = None
