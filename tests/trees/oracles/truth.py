"""The slow truth of the oracles of trees: every tree of a small grammar, written down."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from jaxstruct.core.types import BinaryTree
from jaxstruct.trees.potentials import GrammarRules, TreePotentials
from tests.lib.enumeration import Listed, flat, with_garbage


class Forest(NamedTuple):
    """All trees of one grammar over l tokens, those that are preferred among equals first.

    Fields:
      trees: BinaryTree with a leading axis [A].
      parents: [A, T - 1] symbols of inner nodes, -1 beyond.
      tops: [A] symbols of top nodes.
    """

    trees: BinaryTree
    parents: np.ndarray
    tops: np.ndarray


def grammar(random: np.random.Generator, symbols: int, count: int, skewed: bool) -> GrammarRules:
    """Random rules; skewed ones have most of them at symbol 0, and none at the last symbol."""
    every = np.argwhere(np.ones((symbols,) * 3, bool))
    weights = np.where(every[:, 0] == 0, 20.0, 1.0) * (every[:, 0] < symbols - 1)
    weights = weights if skewed else np.ones(len(every))
    chosen = random.choice(len(every), count, replace=False, p=weights / weights.sum())
    return GrammarRules(*every[np.sort(chosen)].T.astype(np.int32))


def _nodes(rules: tuple, begin: int, end: int, symbol: int) -> list[tuple]:
    """Trees of a symbol over a span: in preorder, (rule, begin, split, end) or (token, A)."""

    @cache
    def below(begin: int, end: int, symbol: int) -> list[tuple]:
        if end - begin == 1:
            return [((begin, symbol),)]
        return [
            ((number, begin, split, end), *left, *right)
            for number, (parent, *children) in enumerate(rules)
            if parent == symbol
            for split in range(begin + 1, end)
            for left in below(begin, split, children[0])
            for right in below(split, end, children[1])
        ]

    return below(begin, end, symbol)


def forest(rules: GrammarRules, symbols: int, tokens: int, length: int) -> Forest:
    """All trees over `length` of at most `tokens` tokens.

    Among equals the lowest top symbol is preferred, then, node by node in preorder, the lowest
    rule, then the lowest split: the order in which they are written down here.
    """
    table = tuple(zip(*(leaf.tolist() for leaf in rules), strict=True))
    found = [(A, nodes) for A in range(symbols) for nodes in _nodes(table, 0, length, A)]
    count = len(found)
    leaves = np.full((count, tokens), -1, np.int32)
    inner = np.full((4, count, tokens - 1), -1, np.int32)
    for a, (_, nodes) in enumerate(found):
        place = 0
        for node in nodes:
            if len(node) == 2:
                leaves[a, node[0]] = node[1]
            else:
                inner[:, a, place] = node
                place += 1
    parents = np.where(inner[0] >= 0, rules.parents[inner[0]], -1)
    tops = np.array([A for A, _ in found], np.int32)
    return Forest(BinaryTree(leaves, *inner), parents, tops)


def _summed(table: np.ndarray, real: np.ndarray, *index: np.ndarray) -> np.ndarray:
    return np.where(real, table[tuple(np.where(real, part, 0) for part in index)], 0).sum(axis=1)


def scores(potentials: TreePotentials, given: Forest, length: int) -> np.ndarray:
    """[A] F of all trees of a forest, summed in float64."""
    lexical, rules, root, spans = (
        None if leaf is None else np.asarray(leaf, float) for leaf in potentials
    )
    trees, real = given.trees, given.trees.rules >= 0
    tokens = np.broadcast_to(np.arange(lexical.shape[0]), trees.symbols.shape)
    total = root[given.tops] + _summed(lexical, tokens < length, tokens, trees.symbols)
    total = total + _summed(rules, real, trees.rules)
    if spans is not None:
        total = total + _summed(spans, real, trees.begins, trees.ends - 1, given.parents)
    return total


def node_sums(counts: np.ndarray, given: Forest, length: int) -> np.ndarray:
    """[A] sums over the nodes of each tree, tokens included, of integers [T, T, S]."""
    trees, real = given.trees, given.trees.rules >= 0
    tokens = np.broadcast_to(np.arange(counts.shape[0]), trees.symbols.shape)
    single = _summed(counts, tokens < length, tokens, tokens, trees.symbols)
    return single + _summed(counts, real, trees.begins, trees.ends - 1, given.parents)


class Cases(NamedTuple):
    """Sentences of one grammar with the scores of all of their trees.

    Fields:
      rules: the grammar.
      potentials: leaves with a leading axis [N] (rules too, unless they are shared: `axes`).
      length: [N].
      forests: {length: Forest}.
      scores: [N] list of arrays, F of every tree of the sentence's forest.
      axes: in_axes of the potentials.
    """

    rules: GrammarRules
    potentials: TreePotentials
    length: np.ndarray
    forests: dict[int, Forest]
    scores: list[np.ndarray]
    axes: TreePotentials


SHARED, OWN = "shared rules", "rules of each sentence"
"""Kinds of rule potentials: the same [R] for all sentences, own [R] with span scores."""


class Size(NamedTuple):
    """The size of a family of cases."""

    symbols: int
    rules: int
    tokens: int
    skewed: bool


SMALL = Size(3, 6, 5, False)
SKEWED = Size(7, 80, 3, True)
"""More rules of one parent than a group of rules holds."""


def _potentials(
    random: np.random.Generator, size: Size, kind: str, count: int, tied: bool
) -> TreePotentials:
    S, R, T = size.symbols, size.rules, size.tokens
    rules = {SHARED: (R,), OWN: (count, R)}[kind]
    spans = None if kind == SHARED else (count, T, T, S)
    shapes = TreePotentials((count, T, S), rules, (count, S), spans)

    def leaf(shape: tuple[int, ...] | None) -> np.ndarray | None:
        if shape is None:
            return None
        values = random.integers(-1, 2, shape) if tied else random.normal(size=shape)
        return np.where(random.random(shape) < 0.1, -np.inf, values).astype(np.float32)

    return TreePotentials(*map(leaf, shapes))


def _beyond(potentials: TreePotentials, length: np.ndarray) -> TreePotentials:
    """Garbage at all tokens beyond the lengths, and of spans that hold such or one token."""
    at = np.arange(potentials.lexical.shape[1])
    real = at < length[:, None]
    lexical = with_garbage(potentials.lexical, real[:, :, None])
    spans = potentials.spans
    if spans is not None:
        read = real[:, None, :, None] & (at[:, None] < at)[..., None]
        spans = with_garbage(spans, read)
    return potentials._replace(lexical=lexical, spans=spans)


@cache
def cases(kind: str, size: Size, seed: int, count: int = 50) -> Cases:
    """Sentences of all lengths under one random grammar; odd seeds have many ties."""
    random = np.random.default_rng([seed, size.rules])
    rules = grammar(random, size.symbols, size.rules, size.skewed)
    potentials = _potentials(random, size, kind, count, tied=seed % 2 == 1)
    length = random.integers(1, size.tokens + 1, count).astype(np.int32)
    potentials = _beyond(potentials, length)
    forests = {n: forest(rules, size.symbols, size.tokens, n) for n in set(length.tolist())}
    axes = TreePotentials(0, None if kind == SHARED else 0, 0, None if kind == SHARED else 0)
    F = [
        scores(one(potentials, axes, n), forests[many], many)
        for n, many in enumerate(length.tolist())
    ]
    return Cases(rules, potentials, length, forests, F, axes)


def listed(given: Cases, tied: bool) -> Listed:
    """All trees of the cases, of equals the preferred one first."""
    every = {length: flat(forest.trees, 1) for length, forest in given.forests.items()}
    outputs = [every[int(length)] for length in given.length]
    return Listed(outputs, given.scores, np.full(len(outputs), tied))


def one(potentials: TreePotentials, axes: TreePotentials, n: int) -> TreePotentials:
    """Potentials of sentence n."""
    leaves = zip(potentials, axes, strict=True)
    return TreePotentials(*(leaf if axis is None else leaf[n] for leaf, axis in leaves))


def as_dtype(potentials: TreePotentials, dtype: str) -> TreePotentials:
    """Potentials in another dtype."""
    return TreePotentials(*(None if leaf is None else leaf.astype(dtype) for leaf in potentials))
