"""Grammars read off trees, counted by hand and against a plain recount."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from jaxstruct.core.plain_values import from_plain, to_plain
from jaxstruct.data.bracketing import read_trees
from jaxstruct.data.trees import Tree, constituents, fold, preorder
from jaxstruct.models.model_files import RECORDS
from jaxstruct.trees.phrases.binarisation import FULL, Binarisation, binarise
from jaxstruct.trees.phrases.grammar import (
    CLASSES,
    Grammar,
    UnknownWords,
    fields_of,
    frequent_words,
    grammar_of,
    label_counts,
    read_grammar,
    signature,
    terminals_of,
    words_read,
)
from tests.lib.refusals import refused
from tests.trees.random_trees import random_trees

TREES = read_trees("""
(S (NP (NN Dogs)) (VP (VB bark)))
(S (NP (DT the) (JJ big) (NN dog)) (VP (VB barks) (RB again)))
(S (NP (NN Dogs)) (VP (VP (VB bark) (RB again))))
(FRAG (NP (NN Dogs)))
""")


def test_grammar_by_hand() -> None:
    grammar = read_grammar(TREES)
    # @ is the mark; proper symbols come first
    assert grammar.symbols == (
        "DT", "FRAG+NP+NN", "JJ", "NN", "NP", "NP+NN", "RB", "S", "VB", "VP", "VP+VB", "VP+VP",
        "@NP@DT",
    )  # fmt: skip
    assert grammar.terminals == ("DT", "JJ", "NN", "RB", "VB")
    rules = [tuple(grammar.symbols[name] for name in rule) for rule in grammar.binary_rules]
    assert rules == [
        ("NP", "DT", "@NP@DT"),
        ("S", "NP", "VP"),
        ("S", "NP+NN", "VP+VB"),
        ("S", "NP+NN", "VP+VP"),
        ("VP", "VB", "RB"),
        ("VP+VP", "VB", "RB"),
        ("@NP@DT", "JJ", "NN"),
    ]
    assert grammar.binary_counts.tolist() == [1] * 7
    lexical = {
        (grammar.symbols[name], grammar.terminals[read]): count
        for (name, read), count in zip(
            grammar.lexical_rules, grammar.lexical_counts.tolist(), strict=True
        )
    }
    assert lexical == {
        ("DT", "DT"): 1, ("FRAG+NP+NN", "NN"): 1, ("JJ", "JJ"): 1, ("NN", "NN"): 1,
        ("NP+NN", "NN"): 2, ("RB", "RB"): 2, ("VB", "VB"): 2, ("VP+VB", "VB"): 1,
    }  # fmt: skip
    roots = dict(zip(grammar.symbols, grammar.root_counts.tolist(), strict=True))
    assert {name: count for name, count in roots.items() if count} == {"S": 3, "FRAG+NP+NN": 1}
    inner = dict(zip(grammar.symbols, grammar.constituents.tolist(), strict=True))
    assert {name: count for name, count in inner.items() if count} == {
        "NP": 1, "S": 1, "VP": 1, "VP+VP": 2,
    }  # fmt: skip
    token = dict(zip(grammar.symbols, grammar.token_constituents.tolist(), strict=True))
    assert {name: count for name, count in token.items() if count} == {
        "FRAG+NP+NN": 2, "NP+NN": 1, "VP+VB": 1,
    }  # fmt: skip


@pytest.mark.parametrize("options", [Binarisation(), Binarisation("right", 0),
                                     Binarisation("left", 1)])  # fmt: skip
def test_counts_are_those_of_the_trees(options: Binarisation) -> None:
    """Rules and terminals are sorted, counts are 64 bits."""
    trees = random_trees(11, 200)
    grammar = read_grammar(trees, options)
    for rules in (grammar.binary_rules, grammar.lexical_rules):
        rows = [tuple(row) for row in rules.tolist()]
        assert rules.dtype == np.int32 and rows == sorted(set(rows))
    assert grammar.binary_counts.dtype == grammar.lexical_counts.dtype == np.int64
    assert list(grammar.terminals) == sorted(grammar.terminals)
    wanted = Counter(
        (node.label, *(child.label for child in node.children))
        for tree in trees
        for node in preorder(binarise(tree, options))
        if node.children
    )
    found = {
        tuple(grammar.symbols[name] for name in rule): count
        for rule, count in zip(grammar.binary_rules, grammar.binary_counts.tolist(), strict=True)
    }
    assert found == wanted
    assert grammar.root_counts.sum() == len(trees)


def _renamed(tree: Tree) -> Tree:
    """X is ROOT, an outer bracket, which is no constituent wherever it stands."""
    return fold(tree, lambda node, parts: Tree(
        "ROOT" if node.label == "X" else node.label, tuple(parts), node.word,
    ))  # fmt: skip


def test_constituents_add_up_to_those_of_each_tree() -> None:
    """Node by node, over tokens and over longer spans, in number and by label."""
    trees = [_renamed(tree) for tree in random_trees(12, 200)]
    grammar = read_grammar(trees)
    table = label_counts(grammar)
    labels = sorted({part.label for tree in trees for part in constituents(tree)} - {"ROOT"})
    np.testing.assert_array_equal(table.inner.sum(axis=1), grammar.constituents)
    np.testing.assert_array_equal(table.token.sum(axis=1), grammar.token_constituents)
    for tree in trees:
        histogram = np.zeros(len(labels), int)
        for node in preorder(binarise(tree)):
            number = grammar.symbols.index(node.label)
            histogram += (table.token if node.is_leaf else table.inner)[number]
        wanted = Counter(part.label for part in constituents(tree))
        assert histogram.tolist() == [wanted[label] for label in labels]


def test_tags_as_terminals() -> None:
    grammar = read_grammar(TREES)
    assert terminals_of(grammar, ["NN", "XX", "VB"]).tolist() == [2, -1, 4]
    assert terminals_of(grammar, []).shape == (0,)
    assert terminals_of(grammar, ["NN"]).dtype == np.int32


def test_words_as_terminals() -> None:
    grammar = read_grammar(TREES, unknown_words=UnknownWords(1))
    # the, big, dog and barks come once; Dogs, bark and again more often
    assert grammar.terminals == ("Dogs", "UNK", "UNK-s", "again", "bark")
    read = terminals_of(grammar, ["bark", "cats", "the", "Rover", "UNK-s"])
    assert [grammar.terminals[number] for number in read] == [
        "bark", "UNK-s", "UNK", "UNK", "UNK",
    ]  # fmt: skip
    pairs = {
        (grammar.symbols[name], grammar.terminals[word]) for name, word in grammar.lexical_rules
    }
    assert ("DT", "UNK") in pairs and ("VB", "UNK-s") in pairs and ("NP+NN", "Dogs") in pairs


def test_no_rare_word_no_unknown_word() -> None:
    grammar = read_grammar(TREES, unknown_words=UnknownWords(0))
    assert terminals_of(grammar, ["bark", "cats"]).tolist()[1] == -1


def test_only_words_of_one_token() -> None:
    grammar = read_grammar(read_trees("(NN a) (NP (NN b))"))
    assert grammar.binary_rules.shape == (0, 3)
    assert grammar.symbols == ("NN", "NP+NN")
    assert grammar.token_constituents.tolist() == [0, 1]


@pytest.mark.parametrize("options, unknown_words, trees", [
    (Binarisation("left", 2), None, random_trees(30, 100)),
    (Binarisation(), UnknownWords(3), random_trees(31, 50)),
    (Binarisation(), None, random_trees(32, 3, most_tokens=1)),
], ids=["tags", "words", "no binary rule"])  # fmt: skip
def test_files_hold_grammars(options, unknown_words, trees) -> None:
    grammar, arrays = read_grammar(trees, options, unknown_words), {}
    plain = json.dumps(to_plain(grammar, "grammar", arrays, RECORDS))
    found = from_plain(json.loads(plain), arrays, RECORDS)
    assert type(found) is Grammar and not arrays
    for mine, theirs in zip(grammar, found, strict=True):
        np.testing.assert_array_equal(mine, theirs, strict=isinstance(mine, np.ndarray))
        assert type(mine) is type(theirs)


FIELDS = fields_of(read_grammar(TREES))
RULES = read_grammar(TREES).binary_rules


def test_what_does_not_fit_is_refused() -> None:
    for arguments, message in (
        (([],), "trees: got none, expected at least one"),
        (("(S (NN a))",), "trees must be several Trees: read_trees.*got '"),
        ((TREES[0],), r"trees must be several Trees: .*\[tree\], got Tree"),
        (([TREES[0], "(S (NN a))"],), r"trees\[1\]: got str, expected one Tree"),
        ((TREES, "right"), "binarisation must be a Binarisation .*got str 'right'"),
        ((TREES, FULL, 1), "unknown_words must be .* UnknownWords .*got int 1"),
        ((TREES, FULL, UnknownWords(-1)), "rare must be at least 0, got -1"),
        ((TREES, FULL, UnknownWords(True)), "rare must be at least 0, .*got True"),
        ((read_trees("(A+B (NN a))"),), "separator"),
    ):
        refused(message, read_grammar, *arguments)
    grammar = read_grammar(TREES)
    refused("tokens must be a list of str, one a token, .*, got ", terminals_of, grammar, "NN")
    refused("tokens: got 3 among them", terminals_of, grammar, ["NN", 3])
    refused("grammar must be a Grammar .*, got ", terminals_of, ["NN"], grammar)


def test_what_is_no_grammar_is_refused() -> None:
    for change, message in (
        (dict(symbols=("A", "A")), "symbols has a text twice"),
        (dict(unknown_words=3), "unknown_words must be .* UnknownWords"),
        (dict(symbols=(1,)), r"symbols must be texts, got \[1\]"),
        (dict(binary_rules=RULES[::-1]), "each rule once, in ascending order"),
        (dict(binary_rules=RULES + 9), "the symbols and terminals"),
        (dict(binary_rules=RULES[1:]), r"binary_counts must be \[R = 6\] integers"),
        (dict(binary_rules=RULES - 9), "is -5: expected 0..2147483647"),
        (dict(binary_rules=RULES[:, :2]), r"binary_rules must be \[R, 3\] integers"),
        (dict(root_counts=np.ones(1, int)), r"root_counts must be \[S = 13\] integers"),
    ):
        changed = {name: np.asarray(value).tolist() for name, value in change.items()}
        refused(message, grammar_of, FIELDS | changed)
    refused("its fields are", RECORDS["grammar"].build, FIELDS | {"more": 1})
    options = FULL._asdict()
    refused("branching is 'up'", RECORDS["binarisation"].build, options | {"branching": "up"})
    refused("its fields are", RECORDS["binarisation"].build, options | {"colour": 1})
    refused("rare must be at least 0, got -1", RECORDS["unknown_words"].build, {"rare": -1})


SIGNATURES = {
    "UNK-num": ["1990s"], "UNK-punct": ["--", ""], "UNK-caps": ["NASA", "U.S."],
    "UNK-cap": ["I", "Vinken"], "UNK-hyphen": ["well-known"], "UNK-ing": ["running"],
    "UNK-ed": ["ended"], "UNK-ly": ["quickly"], "UNK-ion": ["nation"], "UNK-s": ["dogs"],
    "UNK-y": ["city"], "UNK-ity": ["ability"], "UNK": ["dog", "king"],
}  # fmt: skip


def test_signature() -> None:
    for name, given in SIGNATURES.items():
        assert {*map(signature, given)} == {name} and name in CLASSES


def test_rare_words_are_read_as_their_class() -> None:
    seen = "the the the dog dog Vinken UNK UNK UNK".split()
    assert frequent_words(seen, UnknownWords(0)) == {"the", "dog", "Vinken"}
    assert frequent_words(seen, UnknownWords(1)) == {"the", "dog"}
    assert frequent_words(seen, UnknownWords(2)) == {"the"}
    assert words_read(["the", "dog", "UNK"], {"the"}) == ["the", "UNK", "UNK-caps"]
