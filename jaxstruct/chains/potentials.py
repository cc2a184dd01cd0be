"""One input sequence, potentials of a chain, and the score of a label sequence under them.

F(y) = start[y^1] + sum_t emissions[t, y^t] + sum_{t<l} transitions[t, y^t, y^{t+1}]
       + sum_{t<l-1} triples[t, y^t, y^{t+1}, y^{t+2}] + stop[y^l]

(thesis 4.20 with label triples, 4.4.1). A sequence of length 0 has the score 0.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.checks import checked_length
from jaxstruct.core.spec import array, one_example
from jaxstruct.core.types import AnyArray, Array, PyTree

PADDING = -1
"""The label of positions beyond the length of a sequence."""


class ChainPotentials(NamedTuple):
    """Potentials of ONE chain with T positions (padding included) and S labels.

    A potential of -inf forbids (as IOB2 forbids I-PER after O); the others are finite. Entries at
    positions beyond the length of the sequence are never read.

    Fields:
      emissions: [T, S].
      transitions: [S, S] for every position, or [T - 1, S, S] with row t for (y^t, y^{t+1});
        the first label index is the earlier one.
      start, stop: [S], or None for zeros.
      triples: None for a chain of first order, or [S, S, S] or [T - 2, S, S, S].
    """

    emissions: Array
    transitions: Array
    start: Array | None = None
    stop: Array | None = None
    triples: Array | None = None


def _entries(table: Array, labels: list[Array]) -> Array:
    """Entries of a constant or a time-varying table at consecutive labels."""
    if table.ndim == len(labels):
        return table[tuple(labels)]
    return table[(jnp.arange(labels[0].shape[0]), *labels)]


def score_parts(potentials: ChainPotentials, labels: Array, length: Array) -> Array:
    """[T] the parts of F(y): each at the last position that it reads, start at the first.

    They sum to F(y) over the length; nothing may read what stands beyond it. Arguments as in
    `score_labels`.
    """
    emissions, transitions, start, stop, triples = jax.tree.map(jnp.asarray, potentials)
    T, S = emissions.shape
    y = jnp.clip(labels, 0, S - 1)
    parts = emissions[jnp.arange(T), y].at[1:].add(_entries(transitions, [y[:-1], y[1:]]))
    if triples is not None:
        parts = parts.at[2:].add(_entries(triples, [y[:-2], y[1:-1], y[2:]]))
    if start is not None:
        parts = parts.at[0].add(start[y[0]])
    if stop is not None:
        last = jnp.maximum(length - 1, 0)
        parts = parts.at[last].add(stop[y[last]])
    return parts


def score_labels(potentials: ChainPotentials, labels: Array, length: Array) -> Array:
    """F(y) of one label sequence, differentiable in the potentials.

    Args:
      potentials: of one chain; see the module's equation.
      labels: [T] int32; positions beyond `length` are ignored.
      length: int32 scalar, 0 <= length <= T.

    Returns:
      The score, a scalar.
    """
    parts = score_parts(potentials, labels, length)
    return jnp.sum(jnp.where(jnp.arange(len(parts)) < length, parts, 0))


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


def checked_chain(potentials: ChainPotentials, length: Array) -> tuple[ChainPotentials, Array]:
    """Potentials of one chain, as arrays of one floating dtype, and its length.

    Raises:
      ValueError: a shape does not fit the emissions, T or S is 0, or the potentials are not
        floating-point numbers; as `checked_length`.
    """
    potentials = one_example(
        "potentials", potentials, {}, emissions="T S", transitions="S S | T-1 S S", start="S",
        stop="S", triples="S S S | T-2 S S S",
    )  # fmt: skip
    return potentials, checked_length(length, potentials.emissions.shape[0])


def checked_labels(y_true: Array, potentials: ChainPotentials) -> Array:
    """Labels of one chain, [T] int32.

    Raises:
      ValueError: they are not [T] integers.
    """
    found = array("y_true", y_true, "T", "integers", {"T": potentials.emissions.shape[0]})
    return jnp.asarray(found, jnp.int32)
