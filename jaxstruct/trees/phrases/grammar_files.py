"""Grammars as JSON, as model files hold them; nothing is unpickled."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np

from jaxstruct.core.checks import distinct_texts
from jaxstruct.core.spec import array, refuse
from jaxstruct.trees.phrases.binarisation import Binarisation, check_binarisation
from jaxstruct.trees.phrases.grammar import Grammar
from jaxstruct.trees.phrases.unknown_words import UnknownWords, check_unknown_words

_FORMAT = "jaxstruct grammar"
_VERSION = 1
_ARRAYS = {
    "binary_rules": ("R 3", np.int32), "binary_counts": ("R", np.int64),
    "lexical_rules": ("Q 2", np.int32), "lexical_counts": ("Q", np.int64),
    "root_counts": ("S", np.int64), "constituents": ("S", np.int32),
    "token_constituents": ("S", np.int32),
}  # fmt: skip
"""Axes and dtypes; S symbols, R rules, Q lexical rules."""


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
        return _grammar(content)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: not a sound grammar: {error}") from error


def _grammar(content: dict[str, Any]) -> Grammar:
    fields: dict[str, Any] = {name: content[name] for name in Grammar._fields}
    for name in ("symbols", "terminals", "uncounted"):
        fields[name] = distinct_texts(name, fields[name])
    sizes = {"S": len(fields["symbols"]), "V": len(fields["terminals"])}
    for name, (axes, dtype) in _ARRAYS.items():
        table = np.array(fields[name], None if fields[name] else np.int64)
        table = table.reshape(-1, 3 if axes == "R 3" else 2) if " " in axes else table
        within = range(np.iinfo(dtype).max + 1)
        fields[name] = array(name, table, axes, sizes=sizes, within=within).astype(dtype)
    for name, ends in (("binary_rules", "SSS"), ("lexical_rules", "SV")):
        table, most = fields[name], [sizes[letter] for letter in ends]
        refuse(name, table, table >= most, f"below {most}, the symbols and terminals")
        falls = np.zeros(len(table), bool)
        falls[1:] = [b <= a for a, b in pairwise(table.tolist())]
        refuse(name, table, falls, "more than before it: each rule once, in ascending order")
    fields["binarisation"] = Binarisation(**fields["binarisation"])
    check_binarisation(fields["binarisation"])
    if fields["unknown_words"] is not None:
        fields["unknown_words"] = UnknownWords(**fields["unknown_words"])
        check_unknown_words(fields["unknown_words"])
    return Grammar(**fields)
