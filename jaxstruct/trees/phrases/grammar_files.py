"""Grammars as JSON, as model files hold them; nothing is unpickled."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from jaxstruct.trees.phrases.binarisation import Binarisation, check_binarisation
from jaxstruct.trees.phrases.grammar import Grammar
from jaxstruct.trees.phrases.unknown_words import UnknownWords, check_unknown_words

_FORMAT = "jaxstruct grammar"
_VERSION = 1


def grammar_text(grammar: Grammar) -> str:
    """Returns the grammar as JSON: its fields by name, options as objects, arrays as lists."""
    fields = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in grammar._asdict().items()
    }
    fields["binarisation"] = grammar.binarisation._asdict()
    if grammar.unknown_words is not None:
        fields["unknown_words"] = grammar.unknown_words._asdict()
    return json.dumps({"format": _FORMAT, "version": _VERSION, **fields}, ensure_ascii=False)


def parse_grammar(text: str, name: str = "text") -> Grammar:
    """Returns the grammar of a JSON text.

    Raises:
      ValueError: no text, not JSON, not such a grammar, another version, or rules that are out of
        order, repeated or of numbers that do not exist.
    """
    try:
        content = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:  # too long a number, too deep
        raise ValueError(f"{name}: not JSON ({error}), expected a saved grammar") from error
    wanted = {"format", "version", *Grammar._fields}
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f"{name}: holds no {_FORMAT!r}; write one with grammar_text")
    if content.get("version") != _VERSION:
        raise ValueError(f"{name}: version is {content.get('version')!r}, expected {_VERSION}")
    if set(content) != wanted:
        raise ValueError(f"{name}: the fields {sorted(set(content) ^ wanted)} lack or are too many")
    try:
        grammar = _grammar(content)
        _check(grammar)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: not a sound grammar: {error}") from error
    return grammar


def _grammar(content: dict[str, Any]) -> Grammar:
    unknown = content["unknown_words"]
    return Grammar(
        symbols=_names(content, "symbols"),
        terminals=_names(content, "terminals"),
        binary_rules=_integers(content, "binary_rules", np.int32).reshape(-1, 3),
        binary_counts=_integers(content, "binary_counts", np.int64),
        lexical_rules=_integers(content, "lexical_rules", np.int32).reshape(-1, 2),
        lexical_counts=_integers(content, "lexical_counts", np.int64),
        root_counts=_integers(content, "root_counts", np.int64),
        constituents=_integers(content, "constituents", np.int32),
        token_constituents=_integers(content, "token_constituents", np.int32),
        binarisation=Binarisation(**content["binarisation"]),
        unknown_words=None if unknown is None else UnknownWords(**unknown),
        uncounted=_names(content, "uncounted"),
    )


def _names(content: dict[str, Any], field: str) -> tuple[str, ...]:
    names = content[field]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{field} is no list of names")
    if len(set(names)) != len(names):
        raise ValueError(f"{field} holds a name twice")
    return tuple(names)


def _integers(content: dict[str, Any], field: str, dtype: type) -> np.ndarray:
    values = np.array(content[field])
    if values.size and values.dtype.kind != "i":
        raise ValueError(f"{field} holds something other than integers")
    if values.size and not (0 <= values.min() and values.max() <= np.iinfo(dtype).max):
        raise ValueError(f"{field} holds a number that is negative or too large")
    return values.astype(dtype)


def _check(grammar: Grammar) -> None:
    check_binarisation(grammar.binarisation)
    if grammar.unknown_words is not None:
        check_unknown_words(grammar.unknown_words)
    symbols, terminals = len(grammar.symbols), len(grammar.terminals)
    for field in ("root_counts", "constituents", "token_constituents"):
        _check_shape(field, getattr(grammar, field), (symbols,))
    _check_rules("binary", grammar.binary_rules, grammar.binary_counts, (symbols,) * 3)
    _check_rules("lexical", grammar.lexical_rules, grammar.lexical_counts, (symbols, terminals))


def _check_shape(field: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise ValueError(f"{field} has shape {values.shape}, expected {shape}")


def _check_rules(kind: str, rules: np.ndarray, counts: np.ndarray, sizes: tuple[int, ...]) -> None:
    _check_shape(f"{kind}_counts", counts, (len(rules),))
    if (rules >= np.array(sizes)).any():
        raise ValueError(f"{kind}_rules names a symbol or terminal that does not exist")
    rows = [tuple(row) for row in rules.tolist()]
    if any(first >= second for first, second in zip(rows, rows[1:], strict=False)):
        raise ValueError(f"{kind}_rules is not in ascending order without repeats")
