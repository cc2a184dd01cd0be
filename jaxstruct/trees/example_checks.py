"""Validation of sentences and of their trees under a grammar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import check_integers, checked_dtype, checked_lengths, text_of
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import BinaryTree
from jaxstruct.trees.parts import NOWHERE, GrammarTables, SentenceInput
from jaxstruct.trees.phrases.grammar import Grammar, check_grammar, check_tokens
from jaxstruct.trees.phrases.integer_trees import Encoding


def _check_integer(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be an integer, got {text_of(value)}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_lengths(rows: Iterable[Any], tokens: int | None, name: str = "sentences") -> None:
    """Raise ValueError where a row is empty, or has more than `tokens` entries."""
    for place, row in enumerate(rows):
        if not len(row) or (tokens is not None and len(row) > tokens):
            wanted = "at least 1" if tokens is None else f"1..{tokens}"
            raise ValueError(f"{name}[{place}] has {len(row)} tokens, expected {wanted}")


def check_sentence_arguments(grammar: Grammar, sentences: object, tokens: int | None) -> None:
    """Raise ValueError unless these are a grammar, lists of str, and T >= 2 (or None)."""
    check_grammar(grammar)
    if tokens is not None:
        _check_integer("tokens", tokens, 2)
    if isinstance(sentences, str) or not isinstance(sentences, (list, tuple, np.ndarray)):
        raise ValueError(
            "sentences must be a list of lists of str, one list a sentence, got "
            f"{text_of(sentences)}"
        )
    for row, sentence in enumerate(sentences):
        check_tokens(sentence, f"sentences[{row}]")


def check_spans(spans: Any, lengths: np.ndarray, T: int, name: str = "spans") -> None:
    """Raise ValueError unless spans are None, or numbers [n, T, T, D], finite where they are read.

    Args:
      spans: features. lengths: [n]. T: padded tokens. name: what the message calls them.
    """
    if spans is None:
        return
    spans, n = np.asarray(spans), len(lengths)
    if spans.ndim != 4 or spans.shape[:3] != (n, T, T) or not np.issubdtype(spans.dtype, np.number):
        raise ValueError(
            f"{name} must be numbers [{n}, {T}, {T}, D], got shape {spans.shape} of dtype "
            f"{spans.dtype}"
        )
    first, last = np.indices((T, T))
    read = (first < last) & (last < np.asarray(lengths)[:, None, None])
    wrong = np.argwhere(read[..., None] & ~np.isfinite(spans))
    if wrong.size:
        raise ValueError(
            f"{name} must be finite, got {spans[tuple(wrong[0])]} at {tuple(wrong[0].tolist())} "
            f"({len(wrong)} such)"
        )


def checked_trees(trees: object) -> list[BinaryTree]:
    """BinaryTrees, their leaves in NumPy.

    Raises:
      ValueError: there is none, one of them is no BinaryTree, or its leaves are no rows of
        integers.
    """
    if isinstance(trees, BinaryTree) or not isinstance(trees, Iterable):
        raise ValueError(
            f"trees must be a list of BinaryTrees, got {type(trees).__name__}; write [tree] for one"
        )
    trees = list(trees)
    if not trees:
        raise ValueError("trees is empty")
    for row, tree in enumerate(trees):
        if not isinstance(tree, BinaryTree):
            hint = "take its field .tree" if isinstance(tree, Encoding) else (
                "the grammar lacks a part of it, see encode(..).missing" if tree is None
                else "see trees.integer_trees.encode"
            )  # fmt: skip
            raise ValueError(
                f"trees[{row}] must be a BinaryTree, got {type(tree).__name__}; {hint}"
            )
        trees[row] = tree = BinaryTree(*map(np.asarray, tree))
        for name, leaf in tree._asdict().items():
            if leaf.ndim != 1 or leaf.dtype.kind not in "iu":
                raise ValueError(
                    f"trees[{row}].{name} must be [T] integers of one tree, got {leaf.dtype} of "
                    f"shape {leaf.shape}"
                )
    return trees


def checked_options(
    grammar: Grammar, longest: int | None, span_features: int, token_features: int, dtype: object
) -> str:
    """The dtype's name, all arguments of `weighted_grammar` but the loss being sound.

    Raises:
      ValueError: as there.
    """
    check_grammar(grammar)
    if not len(grammar.binary_rules):
        raise ValueError("grammar has no binary rule: there are no trees to learn")
    if longest is not None:
        _check_integer("longest", longest, 2)
    _check_integer("span_features", span_features, 0)
    _check_integer("token_features", token_features, 0)
    if span_features and token_features:
        raise ValueError(
            f"span_features, token_features: got {span_features} and {token_features}, expected "
            "one of them at most: features of spans are given, or made of those of tokens"
        )
    name = checked_dtype(dtype)
    if name == "float64" and jnp.result_type(float) != np.float64:
        raise ValueError(
            "dtype is 'float64', but jax is in its float32 mode: call "
            "jax.config.update('jax_enable_x64', True) first"
        )
    return name


def check_sentences(
    V: int, D: int, inputs: SentenceInput, training: bool = True
) -> tuple[int, int]:
    """(n, T) of a batch of sentences. Those to predict may have unknown terminals.

    Raises:
      ValueError: a shape, a length, a terminal or the features of spans do not fit.
    """
    terminals, length = (_array(inputs, name) for name in ("terminals", "length"))
    if terminals.ndim != 2 or terminals.shape[1] < 2:
        raise ValueError(
            f"inputs.terminals must be [n, T], T >= 2, got shape {terminals.shape}; see "
            "sentence_inputs"
        )
    n, T = terminals.shape
    check_integers("inputs.terminals", terminals)
    length = checked_lengths("inputs.length", length, n, 1, T)
    known = np.arange(T) < length[:, None]
    wrong = np.argwhere(known & ((terminals < 0) | (terminals >= V)))
    if training and wrong.size:
        row, place = wrong[0]
        raise ValueError(
            f"inputs.terminals row {row} has {terminals[row, place]} at {place}, expected "
            f"0..{V - 1} ({len(wrong)} such): a sentence to learn from needs terminals of the "
            "grammar"
        )
    shape = None if inputs.spans is None else np.asarray(inputs.spans).shape
    expected = (n, T, T, D) if D else None
    if shape != expected:
        raise ValueError(f"inputs.spans must be {expected}, got {shape}")
    check_spans(inputs.spans, length, T, "inputs.spans")
    return n, T


def checked_token_features(
    features: Sequence[np.ndarray] | None, terminals: Ragged
) -> Ragged | None:
    """The features of tokens as a store.

    Raises:
      ValueError: they are no integers [tokens, A], A >= 1 the same of all sentences.
    """
    if features is None:
        return None
    found = [np.asarray(each) for each in features]
    shapes = [each.shape for each in found]
    A = shapes[0][1:] if shapes else ()
    if shapes != [(length, *A) for length in terminals.lengths] or len(A) != 1 or A[0] < 1:
        raise ValueError(
            "token_features must be integers [tokens, A] of each sentence, with one A >= 1, for "
            f"{len(terminals)} sentences, got {len(found)}, the first ones of shapes {shapes[:3]}"
        )
    check_integers("token_features", rows := np.concatenate(found))
    return Ragged(rows.astype(np.int32), terminals.offsets, -1)


def check_token_features(D: int, inputs: SentenceInput) -> None:
    """Raise ValueError unless tokens have features of D, or none where D = 0."""
    if (inputs.tokens is not None) != (D > 0):
        wanted = "given, see sentence_inputs" if D else "None"
        raise ValueError(f"inputs.tokens must be {wanted}: the problem has token_features = {D}")
    if not D:
        return
    tokens, (n, T) = _array(inputs, "tokens"), np.shape(inputs.terminals)
    if tokens.ndim != 3 or tokens.shape[:2] != (n, T):
        raise ValueError(f"inputs.tokens must be [{n}, {T}, A], got shape {tokens.shape}")
    check_integers("inputs.tokens", tokens)
    if tokens.min() < -1 or tokens.max() >= D:
        raise ValueError(
            f"inputs.tokens must be in -1..{D - 1}, got {tokens.min()} to {tokens.max()}"
        )


def _array(inputs: SentenceInput, name: str) -> np.ndarray:
    """A field as an array.

    Raises:
      ValueError: its rows are of different lengths.
    """
    try:
        return np.asarray(getattr(inputs, name))
    except ValueError as error:
        raise ValueError(
            f"inputs.{name} has rows of different lengths: pad them, see sentence_inputs"
        ) from error


def check_trees(
    tables: GrammarTables, inputs: SentenceInput, outputs: BinaryTree, n: int, T: int
) -> None:
    """Raise ValueError unless every output is a tree of the grammar over its sentence."""
    shapes = {name: np.shape(leaf) for name, leaf in zip(outputs._fields, outputs, strict=True)}
    expected = dict.fromkeys(outputs._fields, (n, T - 1)) | {"symbols": (n, T)}
    if shapes != expected:
        raise ValueError(f"outputs must have shapes {expected}, got {shapes}; see tree_outputs")
    for name, leaf in zip(outputs._fields, outputs, strict=True):
        dtype = np.asarray(leaf).dtype
        if not np.issubdtype(dtype, np.integer):
            raise ValueError(f"outputs.{name} must be integers, got dtype {dtype}")
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
    padding = [*tree.symbols[length:]] + [x for node in inner[length - 1 :] for x in node]
    if any(x != -1 for x in padding):
        return "padding must be -1"
    top = tree.symbols[0]
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
