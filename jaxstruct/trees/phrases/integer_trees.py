"""Trees as integers of a grammar (`core.types.BinaryTree`), and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxstruct.core.checks import text_of
from jaxstruct.core.spec import array
from jaxstruct.core.types import BinaryTree
from jaxstruct.trees.phrases.binarisation import binarise, chain_labels, debinarise
from jaxstruct.trees.phrases.grammar import (
    Grammar,
    check_grammar,
    check_tokens,
    numbers_of,
    terminals_of,
)
from jaxstruct.trees.phrases.tree import Tree, check_tree, kind_of, leaves, node_spans, tags, words


class Encoding(NamedTuple):
    """A tree as integers, or why there are none.

    Fields:
      tree: numpy arrays, padded with -1; None if the grammar cannot make the tree.
      terminals: [T] int32, what is read at each token, -1 where unknown and in the padding.
      missing: what the grammar lacks, each once, in words: "the root NP", "the binary rule
        S -> NP VP", "the terminal dog", "the lexical rule NN -> dog". Empty exactly if there is a
        tree.
    """

    tree: BinaryTree | None
    terminals: np.ndarray
    missing: tuple[str, ...]


def encode(grammar: Grammar, tree: Tree, length: int | None = None) -> Encoding:
    """Writes a tree (cleaned, not binarised) in the numbers of a grammar.

    A word that is no terminal is read as its class, in the report, too.

    Args:
      grammar: S symbols, R binary rules.
      tree: a tree of l tokens.
      length: T >= max(l, 2), the padded number of tokens; None for the least.

    Raises:
      ValueError: T is too small; a label that the binarisation of the grammar cannot take.
    """
    check_grammar(grammar)
    check_tree(tree)
    read = tags(tree) if grammar.unknown_words is None else words(tree)
    length = _checked_length(length, len(read))
    normal = binarise(tree, grammar.binarisation)
    above = [leaf.label for leaf in leaves(normal)]
    triples, spans = _inner_nodes(normal)
    terminals = terminals_of(grammar, read)
    rules = _rule_numbers(grammar, triples)
    missing = [
        *_missing_root(grammar, normal.label),
        *_missing_binary(triples, rules),
        *_missing_lexical(grammar, above, read, terminals),
    ]
    number = numbers_of(grammar.symbols)
    begins, splits, ends = np.array(spans, np.int32).reshape(len(spans), 3).T
    found = BinaryTree(
        symbols=_pad([number.get(name, -1) for name in above], length),
        rules=_pad(rules, length - 1),
        begins=_pad(begins, length - 1),
        splits=_pad(splits, length - 1),
        ends=_pad(ends, length - 1),
    )
    report = tuple(dict.fromkeys(missing))
    return Encoding(None if report else found, _pad(terminals, length), report)


def _checked_length(length: int | None, tokens: int) -> int:
    least = max(tokens, 2)
    if length is None:
        return least
    if isinstance(length, bool) or not isinstance(length, (int, np.integer)):
        raise ValueError(f"length: got {text_of(length)}, expected an integer, or None")
    if length < least:
        raise ValueError(
            f"length: got {length} for a tree of {tokens} tokens, expected at least {least}"
        )
    return int(length)


def _pad(values: Sequence[int] | np.ndarray, length: int) -> np.ndarray:
    row = np.full(length, -1, np.int32)
    row[: len(values)] = values
    return row


def _inner_nodes(normal: Tree) -> tuple[list[tuple[str, str, str]], list[tuple[int, int, int]]]:
    """(parent, left, right) and (begin, split, end) of the inner nodes, in preorder."""
    spans = node_spans(normal)
    triples, places = [], []
    for (node, begin, end), (_, _, split) in zip(spans, spans[1:], strict=False):
        if not node.is_leaf:  # what follows it in preorder is its left child, which ends at split
            left, right = node.children
            triples.append((node.label, left.label, right.label))
            places.append((begin, split, end))
    return triples, places


def _rule_numbers(grammar: Grammar, triples: Sequence[tuple[str, str, str]]) -> np.ndarray:
    """The number of each rule, -1 where the grammar lacks it."""
    number = numbers_of(grammar.symbols)
    named = [[number.get(name, -1) for name in triple] for triple in triples]
    wanted = np.array(named, np.int64).reshape(len(triples), 3)
    places = _places(grammar.binary_rules, wanted, len(grammar.symbols))
    return np.where((wanted < 0).any(axis=1), -1, places)


def _places(table: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    """Where each row stands in a sorted table of numbers below `size`; -1 where it does not."""
    powers = size ** np.arange(table.shape[1] - 1, -1, -1, dtype=np.int64)
    keys, wanted = table @ powers, rows @ powers
    places = np.searchsorted(keys, wanted)
    at = np.minimum(places, max(len(keys) - 1, 0))
    same = keys[at] == wanted if len(keys) else np.zeros(len(wanted), bool)
    return np.where(same, at, -1)


def _missing_root(grammar: Grammar, root: str) -> list[str]:
    number = numbers_of(grammar.symbols).get(root, -1)
    seen = number >= 0 and grammar.root_counts[number] > 0
    return [] if seen else [f"the root {root}"]


def _missing_binary(triples: Sequence[tuple[str, str, str]], rules: np.ndarray) -> list[str]:
    lacking = (triple for triple, rule in zip(triples, rules, strict=True) if rule < 0)
    return [f"the binary rule {parent} -> {left} {right}" for parent, left, right in lacking]


def _missing_lexical(
    grammar: Grammar, above: Sequence[str], read: Sequence[str], terminals: np.ndarray
) -> list[str]:
    symbols = numbers_of(grammar.symbols)
    pairs = np.array([symbols.get(name, -1) for name in above], np.int64)
    size = max(len(symbols), len(grammar.terminals))
    places = _places(grammar.lexical_rules, np.stack([pairs, terminals], axis=1), size)
    lacking = (pairs < 0) | (terminals < 0) | (places < 0)
    report = []
    for token in np.flatnonzero(lacking).tolist():
        if terminals[token] < 0:
            report.append(f"the terminal {read[token]}")
        else:
            name = grammar.terminals[terminals[token]]
            report.append(f"the lexical rule {above[token]} -> {name}")
    return report


def decode(grammar: Grammar, tree: BinaryTree, words: Sequence[str] | None = None) -> Tree:
    """Returns the tree that integers stand for, chains restored and intermediate symbols gone.

    Args:
      grammar: the grammar whose numbers they are.
      tree: one tree, no batch, padded with -1.
      words: its l words; None writes each tag in the place of its word.

    Raises:
      ValueError: the integers are no tree of the grammar, or the number of words is not l.
    """
    check_grammar(grammar)
    if not isinstance(tree, BinaryTree):
        hint = "; take its field .tree" if isinstance(tree, Encoding) else "; see encode"
        raise ValueError(f"tree: got {kind_of(tree)}, expected a BinaryTree of integers{hint}")
    if words is not None:
        check_tokens(words, "words")
    sizes: dict[str, int] = {}
    columns = []
    for name, leaf in tree._asdict().items():
        within = range(-1, len(grammar.symbols)) if name == "symbols" else None
        axes = "T" if name == "symbols" else "T-1"
        columns.append(array(f"tree.{name}", leaf, axes, sizes=sizes, within=within).tolist())
    tree = BinaryTree(*columns)
    length = sum(symbol >= 0 for symbol in tree.symbols)
    found = fault(grammar.binary_rules, tree, length)
    if found:
        raise ValueError(f"tree: {found}")
    if words is not None and len(words) != length:
        raise ValueError(f"words: got {len(words)}, expected {length}, one for each token")
    made = {
        (t, t + 1): _leaf(grammar, tree.symbols[t], None if words is None else words[t])
        for t in range(length)
    }
    inner = list(zip(*tree[1:], strict=True))[: length - 1]
    for rule, begin, split, end in reversed(inner):
        name = grammar.symbols[grammar.binary_rules[rule, 0]]
        made[begin, end] = Tree(name, (made[begin, split], made[split, end]))
    return debinarise(made[0, length], grammar.binarisation)


def fault(rules: np.ndarray, tree: BinaryTree, length: int) -> str:
    """What keeps lists of integers from being one tree over so many tokens, or nothing.

    Args:
      rules: [R, 3] parents, left and right children.
    """
    inner = list(zip(*tree[1:], strict=True))
    padding = [*tree.symbols[length:], *(x for node in inner[max(length - 1, 0) :] for x in node)]
    if not length or any(x != -1 for x in padding):
        return "padding must be -1" if length else "it has no token"
    waiting, place = [(-1, 0, length)], 0  # any symbol on top
    while waiting:
        symbol, begin, end = waiting.pop()
        if end - begin == 1:
            if symbol not in (-1, tree.symbols[begin]):
                return f"token {begin} has the symbol {tree.symbols[begin]}, expected {symbol}"
            continue
        rule, first, split, last = inner[place]
        if not 0 <= rule < len(rules) or symbol not in (-1, rules[rule, 0]):
            of = "grammar" if symbol < 0 else f"symbol {symbol}"
            return f"rule {rule} of node {place} is none of the {of}"
        if (first, last) != (begin, end) or not begin < split < end:
            found = f"{first}..{last} split at {split}"
            return f"node {place} covers {found}, expected {begin}..{end}"
        _, left, right = rules[rule].tolist()
        waiting += [(right, split, end), (left, begin, split)]
        place += 1
    return ""


def _leaf(grammar: Grammar, symbol: int, word: str | None) -> Tree:
    """The symbol over the word, or over its own tag."""
    name = grammar.symbols[symbol]
    if word is None:
        word = (chain_labels(name, grammar.binarisation) or (name,))[-1]
    return Tree(name, word=word)
