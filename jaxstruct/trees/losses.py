"""Losses of trees by what their nodes share with the true tree's: zero-one and kinds of 1 - F1.

    zero_one      1 where the trees differ
    node_f1       1 - m / (l - 1),  m = sum_{1 <= r < s <= l} delta(y_i^{rs}, y^{rs}): an inner
                  node is a symbol y^{rs} over the tokens r to s, two or more. m of the tree's l - 1
                  inner nodes are inner nodes of the true tree. Thesis, table 4.6; its leading
                  "1 -" is lost in print. 0 where l = 1.
    all_node_f1   1 - m / (2 l - 1): the same of all 2 l - 1 nodes, single tokens included
    f1            1 - 2 m / (p + g): of the constituents that the nodes stand for, p in the tree, g
                  in the true one, m in both; intermediate symbols stand for none, chains for
                  several

All trees in Chomsky normal form over l tokens have l - 1 inner nodes and 2 l - 1 nodes. So
precision, recall and F1 of nodes are one number, and both losses are additive over the true nodes.

Thesis 4.5.2: "stratifying the maximization over all values of Delta". A tree y != y_i may have the
loss 0. With node_f1 it has y_i's inner nodes and another symbol above a token. These trees are a
level of their own: margin re-scaling demands <w, delta Psi_i(y)> >= -xi_i of them (3.40), slack
re-scaling nothing. With f1 it has y_i's constituents in another order and counts as y_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxstruct.core.checks import check_choice, checked_size
from jaxstruct.core.contract import Truth, output_of
from jaxstruct.core.types import Array, BinaryTree
from jaxstruct.trees.parts import GrammarTables, inner_parents, known_table
from jaxstruct.trees.phrases.grammar import Grammar, LabelCounts, label_counts

NAMES = ("zero_one", "node_f1", "all_node_f1", "f1")


def node_list(tables: GrammarTables, y: BinaryTree) -> tuple[Array, Array, Array]:
    """(first token, last token, symbol), [2 T - 1] each, of all nodes; symbol -1 on padding."""
    tokens = jnp.arange(y.symbols.shape[0], dtype=jnp.int32)
    firsts = jnp.concatenate([y.begins, tokens])
    lasts = jnp.concatenate([y.ends - 1, tokens])
    return firsts, lasts, jnp.concatenate([inner_parents(tables, y), y.symbols])


def same_tree(a: BinaryTree, b: BinaryTree) -> Array:
    """Whether two trees are the same in every node."""
    return jnp.all(jnp.stack(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.all(x == y), a, b))))


def true_symbols(tables: GrammarTables, y_true: BinaryTree) -> Array:
    """[T, T] the symbol of the true node over the tokens from the first to the last, -1 if none."""
    T = y_true.symbols.shape[0]
    firsts, lasts, symbols = node_list(tables, y_true)
    places = jnp.where(symbols >= 0, firsts, T)
    return jnp.full((T, T), -1, jnp.int32).at[places, lasts].set(symbols, mode="drop")


@partial(jax.tree_util.register_dataclass, data_fields=["parts"], meta_fields=["name", "most"])
@dataclass(frozen=True)
class Stratification:
    """A loss, and the levels that make it exact.

    Fields:
      parts: for "f1", else None.
      name: of `NAMES`.
      most: for "f1", most constituents of a tree over w = 1 .. T tokens, rising; else ().
    """

    parts: LabelCounts | None
    name: str
    most: tuple[int, ...] = ()

    @property
    def is_additive(self) -> bool:
        """Whether every node of the true tree adds to the loss where it is missed."""
        return self.name in ("node_f1", "all_node_f1")

    @property
    def counts_tokens(self) -> bool:
        """Whether nodes over single tokens are among those that count."""
        return self.name == "all_node_f1"

    @property
    def has_level_of_no_loss(self) -> bool:
        """Whether there is a last level for the trees y != y_true of loss 0; see the module."""
        return self.name == "node_f1"

    @property
    def standing(self) -> Array:
        """[S] int32 how many constituents a node stands for, over one token or over several."""
        assert self.parts is not None, "f1 counts constituents"
        inner, token = (jnp.sum(table, axis=1, dtype=jnp.int32) for table in self.parts)
        return jnp.maximum(inner, token)  # of another width a symbol stands for none

    def check_additive(self) -> None:
        """Raise ValueError where no node has a share of its own in the loss."""
        if not self.is_additive:
            raise ValueError(
                "the loss of the trees does not add up over nodes: take "
                'loss="node_f1" or "all_node_f1"'
            )

    def nodes(self, y_true: BinaryTree) -> Array:
        """How many nodes of the true tree an additive loss counts."""
        length = jnp.sum(y_true.symbols >= 0, dtype=jnp.int32)
        return 2 * length - 1 if self.counts_tokens else length - 1

    def share(self, y_true: BinaryTree | Truth, scale: Array | int) -> Array:
        """What missing one of the true nodes, or of those that are known, costs in scale Delta."""
        return scale / jnp.maximum(self.nodes(output_of(y_true)), 1)

    def sizes(self, tokens: int) -> tuple[int, ...]:
        """(M,), or (P, M), how many levels the trees over so many (padded) tokens have."""
        if self.name == "f1":
            return (self.most[tokens - 1] + 1,) * 2
        return ({"zero_one": 2, "node_f1": tokens, "all_node_f1": 2 * tokens}[self.name],)

    def levels(self, tables: GrammarTables, y_true: BinaryTree, dtype: DTypeLike) -> Array:
        """[M] or [P, M] Delta of each level, 0 where it has no tree or is that of the true one.

        The trees y != y_true of loss 0 are in none of them.
        """
        m = jnp.arange(self.sizes(y_true.symbols.shape[0])[-1])
        if self.name == "zero_one":  # no node is missed, or one at least
            return m.astype(dtype)
        if self.is_additive:
            most = self.nodes(y_true)
            return jnp.where(m < most, 1 - m.astype(dtype) / jnp.maximum(most, 1), 0)
        symbols = node_list(tables, y_true)[2]
        gold = jnp.sum(jnp.where(symbols >= 0, self.standing[symbols], 0), dtype=jnp.int32)
        p, m = m[:, None], m[None]
        losses = 1 - 2 * m.astype(dtype) / jnp.maximum(p + gold, 1)
        return jnp.where((m <= p) & (m <= gold) & (p + gold > 0), losses, 0)

    def matched(
        self, tables: GrammarTables, y_true: BinaryTree | Truth, first: Array, last: Array,
        symbol: Array,
    ) -> Array:  # fmt: skip
        """What nodes add to m: integers or bool of the shape of their tokens and symbols."""
        if isinstance(y_true, Truth):
            right = known_table(y_true.numbers)[first, last, symbol]
            return right & (self.counts_tokens | (last > first))
        true = true_symbols(tables, y_true)[first, last]
        if self.name == "zero_one":
            return true != symbol
        if self.is_additive:
            return (true == symbol) & (self.counts_tokens | (last > first))
        assert self.parts is not None, "f1 counts constituents"
        inner, parts = (last > first)[..., None], self.parts
        shared = [jnp.where(inner, parts.inner[each], parts.token[each])
                  for each in (jnp.maximum(true, 0), symbol)]  # fmt: skip
        return jnp.where(true >= 0, jnp.sum(jnp.minimum(*shared), axis=-1, dtype=jnp.int32), 0)

    def counts(
        self, tables: GrammarTables, y_true: BinaryTree, first: Array, last: Array, symbol: Array
    ) -> Array:
        """What nodes add to the level, int32; of a pair (p, m) to p M + m."""
        matched = self.matched(tables, y_true, first, last, symbol).astype(jnp.int32)
        if self.parts is None:
            return matched
        return matched + self.standing[symbol] * self.sizes(y_true.symbols.shape[0])[1]

    def loss(
        self, tables: GrammarTables, y_true: BinaryTree | Truth, y: BinaryTree, dtype: DTypeLike
    ) -> Array:
        """Delta(y_true, y) of one pair of trees over the same tokens."""
        if self.name == "zero_one":
            return (~same_tree(output_of(y_true), y)).astype(dtype)
        first, last, symbol = node_list(tables, y)
        if isinstance(y_true, Truth):
            own = jnp.where(symbol >= 0, self.matched(tables, y_true, first, last, symbol), 0)
            known = jnp.sum(y_true.numbers.spans[:, 0] >= 0, dtype=jnp.int32)
            known += jnp.sum(y.symbols >= 0, dtype=jnp.int32) if self.counts_tokens else 0
            missed = known - jnp.sum(own, dtype=jnp.int32)
            return (missed * self.share(y_true, 1)).astype(dtype)
        own = jnp.where(symbol >= 0, self.counts(tables, y_true, first, last, symbol), 0)
        return self.levels(tables, y_true, dtype).reshape(-1)[jnp.sum(own, dtype=jnp.int32)]

    def check_tokens(self, tokens: int) -> None:
        """Raise ValueError where sentences are padded to more tokens than the levels allow for."""
        if self.name == "f1" and tokens > len(self.most):
            raise ValueError(
                f"inputs are padded to {tokens} tokens, longer than longest = {len(self.most)}"
            )


ZERO_ONE = Stratification(None, "zero_one")


def most_constituents(grammar: Grammar, tokens: int) -> tuple[int, ...]:
    """Most constituents that any tree of the grammar over w = 1 .. T tokens stands for."""
    parents, lefts, rights = grammar.binary_rules.T
    never = -(10**6)
    best = [np.full(len(grammar.symbols), never)]
    lexical = grammar.lexical_rules[:, 0]
    best[0][lexical] = grammar.token_constituents[lexical]
    for width in range(2, tokens + 1):
        cells = np.full(len(grammar.symbols), never)
        for split in range(1, width):
            sums = best[split - 1][lefts] + best[width - split - 1][rights]
            np.maximum.at(cells, parents, sums + grammar.constituents[parents])
        best.append(cells)
    most = np.maximum.accumulate([max(int(cells.max()), 0) for cells in best])
    return tuple(most.tolist())


def stratification(grammar: Grammar, loss: str, longest: int | None) -> Stratification:
    """The levels of a loss under a grammar.

    Raises:
      ValueError: the loss is none of `NAMES`; "f1" lacks `longest`, or the grammar has a symbol
        that stands for other numbers of constituents over one token than over several.
    """
    check_choice("loss", loss, NAMES)
    if loss != "f1":
        return Stratification(None, loss)
    if longest is None:
        raise ValueError('loss "f1" needs longest, the tokens of a sentence, >= 2; got None')
    checked_size('longest, which loss "f1" needs,', longest, 2)
    inner, token = np.zeros((2, len(grammar.symbols)), bool)
    inner[grammar.binary_rules[:, 0]], token[grammar.lexical_rules[:, 0]] = True, True
    unlike = inner & token & (grammar.constituents != grammar.token_constituents)
    if unlike.any():
        name = grammar.symbols[int(np.flatnonzero(unlike)[0])]
        raise ValueError(
            f"grammar: the symbol {name} stands for other constituents over one token than over "
            'several, which loss "f1" cannot count: rename the label or the tag, or use node_f1'
        )
    parts = LabelCounts(*map(jnp.asarray, label_counts(grammar)))
    return Stratification(parts, loss, most_constituents(grammar, longest))
