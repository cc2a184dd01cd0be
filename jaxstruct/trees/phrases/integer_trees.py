"""Trees as integers of a grammar (`core.types.BinaryTree`), and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxstruct.core.checks import check_record, checked_size
from jaxstruct.core.spec import array
from jaxstruct.core.types import BinaryTree
from jaxstruct.data.trees import Tree, check_tree, kind_of, leaves, node_spans, tags, words
from jaxstruct.trees.phrases.binarisation import binarise, chain_labels, debinarise
from jaxstruct.trees.phrases.grammar import Grammar, check_tokens, numbers_of, terminals_of


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
    check_record("grammar", grammar, Grammar, "read_grammar")
    check_tree(tree)
    read = tags(tree) if grammar.unknown_words is None else words(tree)
    least = max(len(read), 2)
    length = least if length is None else checked_size("length", length, least)
    normal = binarise(tree, grammar.binarisation)
    triples, spans = _inner_nodes(normal)
    terminals, number = terminals_of(grammar, read), numbers_of(grammar.symbols)
    named = [[number.get(name, -1) for name in triple] for triple in triples]
    wanted = np.array(named, np.int64).reshape(len(triples), 3)
    rules = _places(grammar.binary_rules, wanted, len(grammar.symbols))
    above = np.array([number.get(leaf.label, -1) for leaf in leaves(normal)], np.int64)
    missing = _missing(grammar, normal, read, terminals, triples, rules, above)
    report = tuple(dict.fromkeys(missing))
    inner = (rules, *np.array(spans, np.int32).reshape(len(spans), 3).T)
    found = BinaryTree(_pad(above, length), *(_pad(column, length - 1) for column in inner))
    return Encoding(None if report else found, _pad(terminals, length), report)


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


def _places(table: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    """Where each row stands in a sorted table of numbers below `size`; -1 where it does not."""
    powers = size ** np.arange(table.shape[1] - 1, -1, -1, dtype=np.int64)
    keys, wanted = table @ powers, rows @ powers
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    same = keys[at] == wanted if len(keys) else np.zeros(len(wanted), bool)
    return np.where(same & (rows >= 0).all(axis=1), at, -1)


def _missing(
    grammar: Grammar, normal: Tree, read: Sequence[str], terminals: np.ndarray,
    triples: Sequence[tuple[str, str, str]], rules: np.ndarray, above: np.ndarray,
) -> Iterator[str]:  # fmt: skip
    """What the grammar lacks of a binarised tree, in words."""
    root = numbers_of(grammar.symbols).get(normal.label, -1)
    if root < 0 or not grammar.root_counts[root]:
        yield f"the root {normal.label}"
    for at in np.flatnonzero(rules < 0).tolist():
        parent, left, right = triples[at]
        yield f"the binary rule {parent} -> {left} {right}"
    size = max(len(grammar.symbols), len(grammar.terminals))
    places = _places(grammar.lexical_rules, np.stack([above, terminals], axis=1), size)
    names = [leaf.label for leaf in leaves(normal)]
    for token in np.flatnonzero(places < 0).tolist():
        if terminals[token] < 0:
            yield f"the terminal {read[token]}"
        else:
            yield f"the lexical rule {names[token]} -> {grammar.terminals[terminals[token]]}"


def decode(grammar: Grammar, tree: BinaryTree, words: Sequence[str] | None = None) -> Tree:
    """Returns the tree that integers stand for, chains restored and intermediate symbols gone.

    Args:
      grammar: the grammar whose numbers they are.
      tree: one tree, no batch, padded with -1.
      words: its l words; None writes each tag in the place of its word.

    Raises:
      ValueError: the integers are no tree of the grammar, or the number of words is not l.
    """
    check_record("grammar", grammar, Grammar, "read_grammar")
    if not isinstance(tree, BinaryTree):
        hint = "; take its field .tree" if isinstance(tree, Encoding) else "; see encode"
        raise ValueError(f"tree: got {kind_of(tree)}, expected a BinaryTree of integers{hint}")
    if words is not None:
        check_tokens(words, "words")
    sizes: dict[str, int] = {}
    columns = []
    for name, leaf in tree._asdict().items():
        within = range(-1, len(grammar.symbols)) if name == "symbols" else None
        axes = "T" if name == "symbols" else "N"  # each is padded to a size of its own
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
