"""Door checks of sentences and of their trees under a grammar."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxstruct.core.types import BinaryTree
from jaxstruct.trees.parts import NOWHERE, GrammarTables, SentenceInput


def check_sentences(V: int, D: int, inputs: SentenceInput) -> tuple[int, int]:
    """(n, T) of a batch of sentences.

    Raises:
      ValueError: a shape, a length, a terminal or the features of spans do not fit.
    """
    terminals, length = np.asarray(inputs.terminals), np.asarray(inputs.length)
    if terminals.ndim != 2 or terminals.shape[1] < 2:
        raise ValueError(
            f"inputs.terminals must be [n, T], T >= 2, got shape {terminals.shape}; see "
            "sentence_inputs"
        )
    n, T = terminals.shape
    for name, array in (("terminals", terminals), ("length", length)):
        if not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"inputs.{name} must be integers, got dtype {array.dtype}")
    if length.shape != (n,) or (length < 1).any() or (length > T).any():
        raise ValueError(f"inputs.length must be [{n}] in 1..{T}, got {length}")
    known = np.arange(T) < length[:, None]
    wrong = np.argwhere(known & ((terminals < 0) | (terminals >= V)))
    if wrong.size:
        row, place = wrong[0]
        raise ValueError(
            f"inputs.terminals row {row} has {terminals[row, place]} at {place}, expected "
            f"0..{V - 1} ({len(wrong)} such): a sentence to learn from needs terminals of the "
            "grammar"
        )
    shape = None if inputs.spans is None else np.shape(inputs.spans)
    expected = (n, T, T, D) if D else None
    if shape != expected:
        raise ValueError(f"inputs.spans must be {expected}, got {shape}")
    return n, T


def check_trees(
    tables: GrammarTables, inputs: SentenceInput, outputs: BinaryTree, n: int, T: int
) -> None:
    """Raise ValueError unless every output is a tree of the grammar over its sentence."""
    shapes = {name: np.shape(leaf) for name, leaf in zip(outputs._fields, outputs, strict=True)}
    expected = dict.fromkeys(outputs._fields, (n, T - 1)) | {"symbols": (n, T)}
    if shapes != expected:
        raise ValueError(f"outputs must have shapes {expected}, got {shapes}; see tree_outputs")
    rows = zip(*(np.asarray(leaf).tolist() for leaf in outputs), strict=True)
    grammar = _Grammar(
        np.stack([np.asarray(leaf) for leaf in tables.rules], axis=1),
        np.asarray(tables.lexical) != NOWHERE, np.asarray(tables.roots),
    )  # fmt: skip
    terminals = np.asarray(inputs.terminals).tolist()
    for row, (tree, length) in enumerate(
        zip(rows, np.asarray(inputs.length).tolist(), strict=True)
    ):
        fault = _fault(grammar, BinaryTree(*tree), terminals[row], length)
        if fault:
            raise ValueError(
                f"outputs row {row} is no tree of the grammar over its {length} tokens: {fault}; "
                "see jaxstruct.trees.encode"
            )


class _Grammar(NamedTuple):
    """Rules [R, 3], whether a symbol stands over a terminal [V, S], and on top of a tree [S]."""

    rules: np.ndarray
    lexical: np.ndarray
    roots: np.ndarray


def _fault(grammar: _Grammar, tree: BinaryTree, terminals: list[int], length: int) -> str:
    """What is wrong with one tree, or nothing."""
    rules = grammar.rules
    inner = list(zip(tree.rules, tree.begins, tree.splits, tree.ends, strict=True))
    padding = tree.symbols[length:] + [x for node in inner[length - 1 :] for x in node]
    if any(x != -1 for x in padding):
        return "padding must be -1"
    top = tree.symbols[0] if length == 1 else None
    if length > 1:
        if not 0 <= tree.rules[0] < len(rules):
            return f"rule {tree.rules[0]} of node 0 is none of the grammar"
        top = int(rules[tree.rules[0], 0])
    if not (0 <= top < len(grammar.roots) and grammar.roots[top]):
        return f"the symbol {top} is no root"
    waiting, place = [(top, 0, length)], 0
    while waiting:
        symbol, begin, end = waiting.pop()
        if end - begin == 1:
            if tree.symbols[begin] != symbol:
                return f"token {begin} has the symbol {tree.symbols[begin]}, expected {symbol}"
            if not grammar.lexical[terminals[begin], symbol]:
                return f"there is no lexical rule {symbol} -> {terminals[begin]}"
            continue
        rule, first, split, last = inner[place]
        if not 0 <= rule < len(rules) or rules[rule, 0] != symbol:
            return f"rule {rule} of node {place} is none of the symbol {symbol}"
        if (first, last) != (begin, end) or not begin < split < end:
            found = f"{first}..{last} split at {split}"
            return f"node {place} covers {found}, expected {begin}..{end}"
        _, left, right = rules[rule].tolist()
        waiting += [(right, split, end), (left, begin, split)]
        place += 1
    return ""
