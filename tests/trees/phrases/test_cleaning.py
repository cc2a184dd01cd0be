"""Each rule of cleaning by hand, alone and together."""

from __future__ import annotations

import pytest

from jaxstruct.trees.phrases.bracketing import (
    clean,
    plain_label,
    read_tree,
    without_functions,
    without_outer,
    without_repetitions,
    without_traces,
    write_line,
)
from tests.trees.random_trees import random_trees

RAW = (
    "( (S (NP-SBJ-1 (DT the) (NN bid)) (VP (VBD was) (VP (VBN said) (S=2 (NP-SBJ (-NONE- *-1)) "
    "(VP (TO to) (VP (VB fail)))))) (SBAR (-NONE- 0) (S (-NONE- *T*-3))) (. .)))"
)


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        ("NP-SBJ=1", "NP"),
        ("NP-SBJ-TTL-1", "NP"),
        ("NP=2", "NP"),
        ("-LRB-", "-LRB-"),
        ("-RRB-", "-RRB-"),
        ("-NONE-", "-NONE-"),
        ("ADVP|PRT-CLR", "ADVP|PRT"),
        ("PRP$", "PRP$"),
        ("", ""),
        (":", ":"),
    ],
)
def test_function_tags_and_indices(label: str, plain: str) -> None:
    assert plain_label(label) == plain


@pytest.mark.parametrize(("rule", "text", "expected"), [
    (without_traces, "(S (NP (-NONE- *)) (SBAR (-NONE- 0) (S (NN a))))", "(S (SBAR (S (NN a))))"),
    (without_traces, "( (S (NP (-NONE- *)) (VP (-NONE- *?*))))", None),
    (without_functions, "(S-TPC-1 (NP-SBJ (-LRB- -LRB-)) (VP=2 (VB-X a-b)))",
     "(S (NP (-LRB- -LRB-)) (VP (VB a-b)))"),
    (without_outer, "(ROOT (S (NN a)))", "(S (NN a))"),
    (without_outer, "( (TOP (S (NN a))))", "(S (NN a))"),
    (without_outer, "(ROOT (NN a))", "(NN a)"),
    (without_outer, "( (S (NN a)) (. .))", "(ROOT (S (NN a)) (. .))"),
    (without_outer, "(TOP (S (NN a)) (. .))", "(TOP (S (NN a)) (. .))"),
    (without_outer, "(S (ROOT (NN a)))", "(S (ROOT (NN a)))"),
    (without_repetitions, "(S (NP (NP (NP (NN a)))) (NP (NP (NN b)) (NP (NN c))))",
     "(S (NP (NN a)) (NP (NP (NN b)) (NP (NN c))))"),
    (without_repetitions, "(X (X a))", "(X (X a))"),
    (without_repetitions, "(S (VP (S (NN a))))", "(S (VP (S (NN a))))"),
    (clean, RAW, "(S (NP (DT the) (NN bid)) (VP (VBD was) (VP (VBN said) "
     "(S (VP (TO to) (VP (VB fail)))))) (. .))"),
    (clean, "( (S (-NONE- *)))", None),
    # a trace's loss makes a chain, a function tag's loss makes it a repetition
    (clean, "( (NP (NP-SBJ (NN a)) (S (-NONE- *))))", "(NP (NN a))"),
])  # fmt: skip
def test_rules_by_hand(rule, text: str, expected: str | None) -> None:
    found = rule(read_tree(text))
    assert (None if found is None else write_line(found)) == expected


def test_clean_trees_stay() -> None:
    for tree in random_trees(5, 300):
        once = clean(tree)
        assert clean(once) == once
