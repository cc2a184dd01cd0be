"""Validation of sentences and of their trees under a grammar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import as_list, check_record, checked_dtype, checked_size, text_of
from jaxstruct.core.contract import Truth
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.spec import array, checked_lengths, refuse
from jaxstruct.core.types import BinaryTree
from jaxstruct.trees.parts import NOWHERE, GrammarTables, KnownNodes, SentenceInput
from jaxstruct.trees.phrases.grammar import Grammar, check_tokens
from jaxstruct.trees.phrases.integer_trees import Encoding, fault

_PADDED, _TREES = "; see sentence_inputs, which pads them", "; see tree_outputs"


def checked_sentences(grammar: Grammar, sentences: Any, tokens: int | None) -> list[Any]:
    """The sentences, lists of 1..T str, where there are a grammar and T >= 2 (or None), too.

    Raises:
      ValueError: one of them is none, is empty or has more tokens.
    """
    check_record("grammar", grammar, Grammar, "read_grammar")
    if tokens is not None:
        checked_size("tokens", tokens, 2)
    listed = as_list("sentences", sentences, "a list of lists of str, one list a sentence")
    for row, sentence in enumerate(listed):
        check_tokens(sentence, f"sentences[{row}]")
        if not len(sentence) or (tokens is not None and len(sentence) > tokens):
            wanted = "at least 1" if tokens is None else f"1..{tokens}"
            raise ValueError(f"sentences[{row}] has {len(sentence)} tokens, expected {wanted}")
    return listed


def check_spans(
    spans: Any, lengths: np.ndarray, T: int, D: int | None = None, name: str = "spans"
) -> None:
    """Raise ValueError unless spans are None, or numbers [n, T, T, D], finite where they are read.

    Args:
      lengths: [n]. T: padded tokens. D: features, None for any. name: what the message calls them.
    """
    if spans is None:
        return
    sizes = {"n": len(lengths), "T": T} | ({} if D is None else {"D": D})
    spans = array(name, spans, "n T T D", "numbers", sizes)
    first, last = np.indices((T, T))
    read = (first < last) & (last < np.asarray(lengths)[:, None, None])
    refuse(name, spans, read[..., None] & ~np.isfinite(spans), "finite numbers")


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
            array(f"trees[{row}].{name}", leaf, "T")
    return trees


def checked_options(
    grammar: Grammar, longest: int | None, span_features: int, token_features: int, dtype: object
) -> str:
    """The dtype's name, all arguments of `weighted_grammar` but the loss being sound.

    Raises:
      ValueError: as there.
    """
    check_record("grammar", grammar, Grammar, "read_grammar")
    if not len(grammar.binary_rules):
        raise ValueError("grammar has no binary rule: there are no trees to learn")
    if longest is not None:
        checked_size("longest", longest, 2)
    checked_size("span_features", span_features, 0)
    checked_size("token_features", token_features, 0)
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
    V: int, D: int, A: int, inputs: SentenceInput, training: bool = True
) -> dict[str, int]:
    """The sizes n and T of a batch of sentences. Those to predict may have unknown terminals.

    Args:
      V, D, A: how many terminals, features of spans and of tokens the problem has.

    Raises:
      ValueError: a shape, a length, a terminal or the features do not fit.
    """
    sizes: dict[str, int] = {}
    terminals = array("inputs.terminals", inputs.terminals, "n T", sizes=sizes, advice=_PADDED)
    n, T = sizes["n"], sizes["T"]
    if T < 2:
        raise ValueError(f"inputs.terminals must be [n, T], T >= 2, got T = {T}{_PADDED}")
    length = checked_lengths("inputs.length", inputs.length, n, 1, T)
    known = np.arange(T) < length[:, None]
    if training:
        wrong = known & ((terminals < 0) | (terminals >= V))
        refuse("inputs.terminals", terminals, wrong, f"0..{V - 1}, terminals of the grammar")
    for name, count, option in (("spans", D, "span_features"), ("tokens", A, "token_features")):
        if (getattr(inputs, name) is not None) != (count > 0):
            wanted = "given, see sentence_inputs" if count else "None"
            raise ValueError(f"inputs.{name} must be {wanted}: the problem has {option} = {count}")
    check_spans(inputs.spans, length, T, D, "inputs.spans")
    if A:
        array("inputs.tokens", inputs.tokens, "n T A", sizes=sizes, within=range(-1, A))
    return sizes


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
    rows = array("token_features", np.concatenate(found), "tokens A")
    return Ragged(rows.astype(np.int32), terminals.offsets, -1)


def checked_brackets(name: str, known: Any, length: int) -> list[tuple[int, int, Any]]:
    """Known constituents, if they are triples of a sentence of so many tokens that do not cross."""
    found = []
    for one in as_list(name, known, "a list of triples (start, end, label)"):
        whole = isinstance(one, (tuple, list)) and len(one) == 3
        start, end = one[:2] if whole else (0, 0)
        if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start < end <= length:
            raise ValueError(
                f"{name} has {text_of(one)}: expected triples (start, end, label), 0 <= start < "
                f"end <= {length}, the tokens"
            )
        crossed = [two for two in found if two[0] < start < two[1] < end
                   or start < two[0] < end < two[1]]  # fmt: skip
        if crossed:
            raise ValueError(f"{name} has constituents that cross: {crossed[0]} and {one}")
        found.append(one)
    return found


def checked_completions(outputs: Truth, sizes: dict[str, int]) -> BinaryTree:
    """The trees of `Truth`s.

    Raises:
      ValueError: what is known is no `KnownNodes`, or no tree of the grammar agrees with it.
    """
    y, known = outputs
    check_record("outputs.numbers", known, KnownNodes, "TreeEncoding.outputs")
    array("outputs.numbers.tokens", known.tokens, "n T S", "bools", sizes)
    array("outputs.numbers.spans", known.spans, "n K 2", "integers", sizes, range(-1, sizes["T"]))
    array("outputs.numbers.symbols", known.symbols, "n K S", "bools", sizes)
    none = np.flatnonzero(np.asarray(y.symbols)[:, 0] < 0)
    if none.size:
        raise ValueError(
            f"outputs[{none[0]}] does not agree with what is known of it ({none.size} such): the "
            "grammar has no such tree, add one to those that are known whole or leave it out"
        )
    return y


def check_trees(
    tables: GrammarTables, inputs: SentenceInput, outputs: BinaryTree, sizes: dict[str, int]
) -> None:
    """Raise ValueError unless every output is a tree of the grammar over its sentence."""
    S = tables.lexical.shape[1]
    for name, leaf in outputs._asdict().items():
        axes, within = ("n T", range(-1, S)) if name == "symbols" else ("n T-1", None)
        array(f"outputs.{name}", leaf, axes, sizes=sizes, within=within, advice=_TREES)
    rows = zip(*(np.asarray(leaf).tolist() for leaf in outputs), strict=True)
    rules = np.stack([np.asarray(leaf) for leaf in tables.rules], axis=1)
    terminals, lengths = (np.asarray(leaf).tolist() for leaf in (inputs.terminals, inputs.length))
    known, roots = np.asarray(tables.lexical) != NOWHERE, np.asarray(tables.roots)
    for row, (leaves, length) in enumerate(zip(rows, lengths, strict=True)):
        tree = BinaryTree(*leaves)
        found = fault(rules, tree, length)
        if not found:
            top = int(rules[tree.rules[0], 0]) if length > 1 else tree.symbols[0]
            pairs = list(zip(tree.symbols, terminals[row], strict=True))[:length]
            none = [pair for pair in pairs if not known[pair[1], pair[0]]]
            found = "" if roots[top] else f"the symbol {top} is no root"
            found = f"there is no lexical rule {none[0][0]} -> {none[0][1]}" if none else found
        if found:
            raise ValueError(
                f"outputs row {row} is no tree of the grammar over its {length} tokens: {found}; "
                "see jaxstruct.trees.encode"
            )
