"""Sums and maxima by parent of rules that are sorted by parent, batch last.

Grammars are skewed: a few parents have hundreds of rules, most have a few. So the rules of a parent
are cut into blocks of four, and its blocks into groups of eight. A few groups a parent are left to
combine. A row of a table is one contiguous stretch of the batch. XLA reduces a block without
writing its rules down.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxstruct.core.types import Array, PyTree
from jaxstruct.trees.potentials import GrammarRules

BLOCK = 4
"""Rules of one parent in a block, whose maximum is one fused kernel."""
GROUP = 8
"""Blocks in a group, whose maximum is kept: the way back tries BLOCK GROUP = 32 rules a node,
however many a symbol has."""


class Runs(NamedTuple):
    """A sorted list of n keys cut into pieces, each of one key.

    Fields:
      members: [W, N] int32, the places of the list that a piece holds, n where it holds fewer.
      keys: [N] int32, the key of a piece; the number of keys for a piece that holds nothing.
      starts, counts: [S] int32, the first piece of a key and how many it has.
      begins, ends: [S] int32, the places begin..end - 1 that hold a key.
    """

    members: Array
    keys: Array
    starts: Array
    counts: Array
    begins: Array
    ends: Array


class RuleTable(NamedTuple):
    """The rules of a grammar by parent, in blocks and groups.

    Fields:
      rules: flat.
      blocks: of rules. groups: of blocks.
      lefts, rights: [BLOCK, N] children of the rules in a block, 0 where there is no rule.
    """

    rules: GrammarRules
    blocks: Runs
    groups: Runs
    lefts: Array
    rights: Array


def runs(keys: Array, symbols: int, width: int) -> Runs:
    """Pieces of at most `width` of a sorted list of keys [n]; keys >= symbols are left out."""
    n = keys.shape[0]
    pieces = min(n, (n + (width - 1) * symbols) // width)
    wanted = jnp.arange(symbols, dtype=keys.dtype)
    begins, ends = (jnp.searchsorted(keys, wanted, side=side) for side in ("left", "right"))
    counts = (ends - begins + width - 1) // width
    stops = jnp.cumsum(counts)
    starts = stops - counts
    piece = jnp.arange(pieces)
    owner = jnp.searchsorted(stops, piece, side="right")
    safe = jnp.minimum(owner, symbols - 1)
    places = begins[safe] + (piece - starts[safe]) * width
    places = places[None] + jnp.arange(width)[:, None]
    real = (places < ends[safe][None]) & (owner < symbols)[None]
    members = jnp.where(real, places, n)
    return Runs(
        *(leaf.astype(jnp.int32) for leaf in (members, owner, starts, counts, begins, ends))
    )


def rule_table(rules: GrammarRules, symbols: int) -> RuleTable:
    """The table of rules sorted by parent; symbols out of bounds are clipped: memory stays safe."""
    rules = GrammarRules(*(jnp.clip(leaf, 0, symbols - 1) for leaf in rules))
    blocks = runs(rules.parents, symbols, BLOCK)
    groups = runs(blocks.keys, symbols, GROUP)
    children = (members_of(leaf, blocks.members, 0) for leaf in (rules.lefts, rules.rights))
    return RuleTable(rules, blocks, groups, *children)


def larger(a: Array, b: Array) -> Array:
    """max(a, b), without the rules for NaN and -0: one instruction in place of several."""
    return jnp.where(a > b, a, b)


def rows(table: Array, index: Array) -> Array:
    """table[index] along axis 0, in bounds by promise."""
    return table.at[index].get(mode="promise_in_bounds")


def members_of(values: Array, members: Array, nothing: float) -> Array:
    """[.., N, ..] values [n, ..] at places [.., N], `nothing` where a place is n."""
    n = values.shape[0]
    real = (members < n).reshape(members.shape + (1,) * (values.ndim - 1))
    return jnp.where(real, rows(values, jnp.minimum(members, n - 1)), nothing)


def by_piece(values: PyTree, pieces: Runs, combine: Callable, nothing: float) -> PyTree:
    """[N, B] combined values [n, B] of each piece."""
    taken = jax.tree.map(lambda leaf: members_of(leaf, pieces.members, nothing), values)
    width = pieces.members.shape[0]
    parts = [jax.tree.map(lambda leaf, j=j: leaf[j], taken) for j in range(width)]
    return functools.reduce(combine, parts)


def by_key(values: PyTree, pieces: Runs, combine: Callable, nothing: float) -> PyTree:
    """[S, B] combined values [N, B] of all pieces of each key; `nothing` where it has none."""
    S, N = pieces.counts.shape[0], pieces.keys.shape[0]

    def body(j: Array, total: PyTree) -> PyTree:
        index = jnp.minimum(pieces.starts + j, N - 1)
        real = j < pieces.counts

        def new(leaf: Array) -> Array:
            shape = (S, *(1,) * (leaf.ndim - 1))
            return jnp.where(real.reshape(shape), rows(leaf, index), nothing)

        return combine(total, jax.tree.map(new, values))

    start = jax.tree.map(lambda leaf: jnp.full((S, *leaf.shape[1:]), nothing, leaf.dtype), values)
    return jax.lax.fori_loop(0, jnp.max(pieces.counts), body, start)
