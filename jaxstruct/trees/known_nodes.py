"""What is known of a tree: nodes over some spans, and symbols over some tokens.

A known node forbids the spans that cross it. In Chomsky normal form it is then there: a tree
without a node over a span has one that crosses it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxstruct.core.types import AnyArray, Array
from jaxstruct.trees.parts import TreeTheta


class KnownNodes(NamedTuple):
    """What is known of the tree of one sentence.

    Fields:
      tokens: [T, S] bool, which symbols may stand right above each token.
      spans: [K, 2] int32, first and last token of each known node over several tokens, no two over
        the same; -1 on padding.
      symbols: [K, S] bool, which symbols each of them may have, one at least.
    """

    tokens: AnyArray
    spans: AnyArray
    symbols: AnyArray


def known_table(known: KnownNodes) -> Array:
    """[T, T, S] bool: over known spans, and single tokens, the symbols that may stand there."""
    T, S = known.tokens.shape
    steps, (first, last) = jnp.arange(T), known.spans.T
    table = jnp.zeros((T, T, S), bool).at[steps, steps].set(known.tokens)
    return table.at[jnp.where(first >= 0, first, T), last].set(known.symbols, mode="drop")


def restricted(theta: TreeTheta, known: KnownNodes) -> TreeTheta:
    """theta without the nodes that do not agree with what is known."""
    table = known_table(known)
    steps, (first, last) = jnp.arange(len(table)), known.spans.T
    first, last = first[None, None], last[None, None]
    a, b = steps[:, None, None], steps[None, :, None]
    crosses = ((a < first) & (first <= b) & (b < last)) | ((first < a) & (a <= last) & (last < b))
    open_ = ~jnp.any(crosses & (first >= 0), axis=2) & ~jnp.any(table, axis=2)
    steps = steps[:, None] != steps[None]
    return theta._replace(allowed=table | (open_ & steps)[:, :, None])
