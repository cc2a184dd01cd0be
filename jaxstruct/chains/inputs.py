"""One input sequence, and what sequences of labels are no outputs of it."""

from __future__ import annotations

from typing import NamedTuple

from jaxstruct.core.types import AnyArray, PyTree


class ChainInput(NamedTuple):
    """One input sequence, padded to T positions; `chain_inputs` builds a batch of them.

    In a batch features may be `Ragged` stores of the tokens.

    Fields:
      features: [T, d], SparseFeatures of [T, m] leaves, or KernelTokens; zeros on padding.
      length: int32 scalar.
      gram: [T, T] <Phi(x^t), Phi(x^s)>, of any dtype that holds them; None in ragged
        inputs, where no dual solver reads it, and of more than 128 positions: products of
        planes then come from the features.
    """

    features: PyTree
    length: AnyArray
    gram: AnyArray


class Constraints(NamedTuple):
    """Label sequences that are no outputs, as I-PER after O in IOB2.

    Fields:
      transitions: [S, S] bool, True forbids the second label after the first.
      start, stop: [S] bool, True forbids a label at the first or the last position.
    """

    transitions: AnyArray
    start: AnyArray
    stop: AnyArray
