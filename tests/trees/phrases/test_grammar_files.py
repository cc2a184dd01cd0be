"""Grammars as JSON: there and back, and texts that are none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jaxstruct.trees.phrases.binarisation import Binarisation
from jaxstruct.trees.phrases.grammar import Grammar, read_grammar
from jaxstruct.trees.phrases.grammar_files import grammar_text, parse_grammar
from jaxstruct.trees.phrases.unknown_words import UnknownWords
from tests.lib.refusals import refused
from tests.trees.random_trees import random_trees

GRAMMAR = read_grammar(random_trees(30, 100), Binarisation("left", 2))


def _assert_same(first: Grammar, second: Grammar) -> None:
    for mine, theirs in zip(first, second, strict=True):
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs)
        else:
            assert mine == theirs and type(mine) is type(theirs)


@pytest.mark.parametrize(
    "grammar",
    [
        GRAMMAR,
        read_grammar(random_trees(31, 50), unknown_words=UnknownWords(3)),
        read_grammar(random_trees(32, 3, most_tokens=1)),
    ],
    ids=["tags", "words", "no binary rule"],
)
def test_there_and_back(grammar: Grammar) -> None:
    _assert_same(parse_grammar(grammar_text(grammar)), grammar)


def _changed(**fields: object) -> str:
    return json.dumps(json.loads(grammar_text(GRAMMAR)) | fields)


RULES = GRAMMAR.binary_rules.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "text: not JSON"),
        (None, "text: not JSON"),
        ("[" * 100_000, "text: not JSON"),
        ("1" * 5_000, "text: not JSON"),
        ("[]", "holds no 'jaxstruct grammar'"),
        (_changed(format="other"), "holds no 'jaxstruct grammar'"),
        (_changed(version=2), "version is 2, expected 1"),
        (_changed(more=1), "the fields \\['more'\\] lack or are too many"),
        (_changed(symbols=["A", "A"]), "symbols has a text twice"),
        (_changed(symbols=[1]), "symbols must be texts, got \\[1\\]"),
        (_changed(symbols="NP"), "symbols must be texts, got 'NP'"),
        (_changed(binary_rules=RULES[::-1]), "each rule once, in ascending order"),
        (_changed(binary_rules=[RULES[0], *RULES[:-1]]), "each rule once, in ascending order"),
        (_changed(binary_rules=[[0, 0, 9999], *RULES[1:]]), "the symbols and terminals"),
        (_changed(binary_rules=RULES[1:]), "binary_counts must be \\[R = \\d+\\] integers"),
        (_changed(binary_rules=[[0.5, 1, 2]]), "integers, got float64"),
        (_changed(binary_rules=[[-1, 1, 2]]), "is -1: expected 0..2147483647"),
        (_changed(binary_rules=[[1, 2]]), "not a sound grammar"),
        (_changed(root_counts=[1]), "root_counts must be \\[S = \\d+\\] integers"),
        (_changed(binarisation={"branching": "up"}), "branching is 'up'"),
        (_changed(binarisation={"colour": 1}), "not a sound grammar"),
        (_changed(unknown_words={"rare": -1}), "rare must be at least 0, got -1"),
    ],
)
def test_what_is_no_grammar_is_refused(text: str, message: str) -> None:
    refused(message, parse_grammar, text)
