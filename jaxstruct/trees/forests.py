"""The trees that a grammar has over a sentence, as a packed forest: what its oracles search.

A grammar of hundreds of symbols has few trees over the tags of a sentence: of a chart of 100,000
rules over spans and splits some 50 belong to any. Which ones these are does not depend on the
weights, so they are found once. A node is a symbol over a span, an edge a rule that makes it of two
nodes; nodes and edges that no whole tree has are left out.

64 sentences are the bits of one word: a chart of words is filled upwards with the nodes that have a
tree below them, and gone through downwards for those that a whole tree has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import AnyArray
from jaxstruct.trees.phrases.grammar import Grammar

MOST_EDGES = 1 << 23
"""Edges of all sentences together, 100 MB; beyond them charts are filled again at every call."""
WORD = 64
"""Sentences in a word."""
WORDS, CHUNK = 1 << 22, 16
"""Words that are held at once, and words side by side, at most."""


class Forest(NamedTuple):
    """The packed forest of one sentence; of several a `Ragged` store or a padded array of each.

    Fields:
      nodes: [N, 5] int32 (symbol, first token, last token, first edge, end of the edges), sorted by
        the width of the span, its first token, and the symbol: children come before parents, and
        the nodes over the whole sentence last. Padding is -1.
      edges: [E, 3] int32 (rule, left node, right node), those of a node sorted by the rule, then
        the split.
    """

    nodes: AnyArray
    edges: AnyArray


class GrammarBits(NamedTuple):
    """A grammar as the bit-parallel charts read it; numpy arrays.

    Fields:
      lexical: [V, S] bool. roots: [S] bool. parents, lefts, rights: [R], sorted by the parent.
    """

    lexical: np.ndarray
    roots: np.ndarray
    parents: np.ndarray
    lefts: np.ndarray
    rights: np.ndarray


def _packed(flags: np.ndarray) -> np.ndarray:
    """[.., W] words whose bits are the flags [n, ..]."""
    words = -(-len(flags) // WORD)
    bits = np.zeros((*flags.shape[1:], words * WORD), bool)
    bits[..., : len(flags)] = np.moveaxis(flags, 0, -1)
    return np.packbits(bits, axis=-1, bitorder="little").view(np.uint64)


def _members(words: np.ndarray) -> tuple[np.ndarray, ...]:
    """(the axes of each bit that is set in words [.., W], the last one the number of the bit)."""
    at = np.nonzero(words)
    bits = np.unpackbits(words[at][:, None].view(np.uint8), axis=1, bitorder="little")
    entry, bit = np.nonzero(bits)
    *axes, word = (axis[entry] for axis in at)
    return *axes, word * WORD + bit


def _or_by(keys: np.ndarray, words: np.ndarray, size: int) -> np.ndarray:
    """[m, size, W] the words [m, R, W] joined by sorted keys [R]."""
    found = np.zeros((len(words), size, words.shape[2]), np.uint64)
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    found[:, keys[starts]] = np.bitwise_or.reduceat(words, starts, axis=1)
    return found


def _parts(bits: GrammarBits, words: np.ndarray, width: int) -> np.ndarray:
    """[begins, splits, R, W] where both children of a rule have trees."""
    begins = np.arange(len(words) - width + 1)[:, None]
    splits = begins + np.arange(1, width)[None]
    left, right = words[begins, splits], words[splits, begins + width]
    return left[:, :, bits.lefts] & right[:, :, bits.rights]


def _upward(bits: GrammarBits, terminals: np.ndarray) -> np.ndarray:
    """[T, T + 1, S, W] by begin and end: the nodes that have trees below them.

    Args:
      terminals: [n, T], -1 for none.
    """
    n, T = terminals.shape
    S = len(bits.roots)
    known = (terminals >= 0)[:, :, None] & bits.lexical[np.maximum(terminals, 0)]
    tokens = _packed(known)
    words = np.zeros((T, T + 1, S, tokens.shape[-1]), np.uint64)
    words[np.arange(T), np.arange(T) + 1] = tokens
    for width in range(2, T + 1):
        found = np.bitwise_or.reduce(_parts(bits, words, width), axis=1)
        begins = np.arange(T - width + 1)
        words[begins, begins + width] = _or_by(bits.parents, found, S)
    return words


def _downward(
    bits: GrammarBits, words: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Edges of whole trees, and (sentence, symbol) of the trees of one token.

    Edges are [5, E]: sentence, width, begin, tokens of the left part, rule.
    """
    T, _, S, _ = words.shape
    used = np.zeros_like(words)
    whole = _packed(lengths[:, None] == np.arange(T + 1)[None])
    used[0] = words[0] & whole[:, None] & np.where(bits.roots, ~np.uint64(0), 0)[:, None]
    symbol, sentence = _members(used[0, 1])
    alone = lengths[sentence] == 1
    by_left, by_right = (np.argsort(each, kind="stable") for each in (bits.lefts, bits.rights))
    found = [np.zeros((5, 0), np.int64)]
    for width in range(T, 1, -1):
        begins = np.arange(T - width + 1)
        live = _parts(bits, words, width)
        live &= used[begins, begins + width][:, None, bits.parents]
        begin, split, rule, of = _members(live)
        found.append(np.stack([of, np.full(len(of), width), begin, split + 1, rule]))
        for k in range(1, width):
            own = live[:, k - 1]
            left = _or_by(bits.lefts[by_left], own[:, by_left], S)
            right = _or_by(bits.rights[by_right], own[:, by_right], S)
            used[begins, begins + k] |= left
            used[begins + k, begins + width] |= right
    return np.concatenate(found, axis=1), (sentence[alone], symbol[alone])


def _forests_of_chunk(
    bits: GrammarBits, terminals: np.ndarray, lengths: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(nodes, edges) of each of some sentences."""
    n, T = terminals.shape
    S = len(bits.roots)
    edges, alone = _downward(bits, _upward(bits, terminals), lengths)

    def key(
        sentence: np.ndarray, width: np.ndarray, begin: np.ndarray, symbol: np.ndarray
    ) -> np.ndarray:
        return ((sentence * (T + 1) + width) * T + begin) * S + symbol

    of, width, begin, split, rule = edges
    parent = key(of, width, begin, bits.parents[rule])
    order = np.lexsort((split, rule, parent))
    (of, width, begin, split, rule), parent = edges[:, order], parent[order]
    left = key(of, split, begin, bits.lefts[rule])
    right = key(of, width - split, begin + split, bits.rights[rule])
    ones = np.ones(len(alone[0]), np.int64)
    keys = np.unique(np.concatenate([parent, left, right, key(alone[0], ones, 0 * ones, alone[1])]))
    rest, symbol = np.divmod(keys, S)
    rest, first = np.divmod(rest, T)
    owner, wide = np.divmod(rest, T + 1)
    node_offsets = np.searchsorted(owner, np.arange(n + 1))
    edge_offsets = np.searchsorted(of, np.arange(n + 1))
    begins = np.searchsorted(parent, keys) - edge_offsets[owner]
    ends = np.searchsorted(parent, keys, side="right") - edge_offsets[owner]
    nodes = np.stack([symbol, first, first + wide - 1, begins, ends], axis=1).astype(np.int32)
    children = [np.searchsorted(keys, each) - node_offsets[of] for each in (left, right)]
    made = np.stack([rule, *children], axis=1).astype(np.int32)
    return np.split(nodes, node_offsets[1:-1]), np.split(made, edge_offsets[1:-1])


def _bits(grammar: Grammar) -> GrammarBits:
    lexical = np.zeros((len(grammar.terminals), len(grammar.symbols)), bool)
    symbols, terminals = grammar.lexical_rules.T
    lexical[terminals, symbols] = True
    return GrammarBits(lexical, grammar.root_counts > 0, *grammar.binary_rules.T)


def forests_of(grammar: Grammar, terminals: Ragged) -> Forest | None:
    """The forests of n sentences.

    Args:
      grammar: whose trees they hold. terminals: of each sentence, -1 where the grammar has none.

    Returns:
      A `Forest` of stores, without nodes where a sentence has no tree; None where they would have
      more than `MOST_EDGES` edges, as those of many long sentences have.
    """
    bits, lengths = _bits(grammar), terminals.lengths
    order = np.argsort(-lengths, kind="stable")  # the largest forests first
    nodes: list[np.ndarray] = []
    edges: list[np.ndarray] = []
    total, at = 0, 0
    while at < len(order):
        longest = int(lengths[order[at]])
        own = order[at : at + _side_by_side(bits, longest)]
        padded = terminals.padded(own, longest, -1)
        more = _forests_of_chunk(bits, padded, lengths[own])
        nodes, edges, at = nodes + more[0], edges + more[1], at + len(own)
        total += sum(map(len, more[1]))
        if total > MOST_EDGES:
            return None
    back = np.argsort(order)
    return Forest(*(store_of([each[i] for i in back]) for each in (nodes, edges)))


def store_of(rows: Sequence[np.ndarray]) -> Ragged:
    """Rows of every example, padded with -1."""
    return Ragged(np.concatenate(rows), np.cumsum([0, *map(len, rows)]), -1)


def _side_by_side(bits: GrammarBits, longest: int) -> int:
    """Sentences whose charts are filled together."""
    words = longest * longest * (len(bits.roots) + longest * len(bits.parents) // 4)
    return WORD * max(1, min(CHUNK, WORDS // words))
