"""Each rule of cleaning by hand, alone and together."""

from __future__ import annotations

import pytest

from jaxstruct.trees.phrases.bracketing import read_tree, write_line
from jaxstruct.trees.phrases.cleaning import (
    clean,
    plain_label,
    without_functions,
    without_outer,
    without_repetitions,
    without_traces,
)
from tests.trees.random_trees import random_trees

RAW = (
    "( (S (NP-SBJ-1 (DT the) (NN bid)) (VP (VBD was) (VP (VBN said) (S=2 (NP-SBJ (-NONE- *-1)) "
    "(VP (TO to) (VP (VB fail)))))) (SBAR (-NONE- 0) (S (-NONE- *T*-3))) (. .)))"
)


def _by(rule, text: str) -> str:
    return write_line(rule(read_tree(text)))


def test_traces_and_what_they_leave_empty() -> None:
    assert _by(without_traces, "(S (NP (-NONE- *)) (SBAR (-NONE- 0) (S (NN a))))") == (
        "(S (SBAR (S (NN a))))"
    )
    assert without_traces(read_tree("( (S (NP (-NONE- *)) (VP (-NONE- *?*))))")) is None


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


def test_functions_are_cut_everywhere() -> None:
    assert _by(without_functions, "(S-TPC-1 (NP-SBJ (-LRB- -LRB-)) (VP=2 (VB-X a-b)))") == (
        "(S (NP (-LRB- -LRB-)) (VP (VB a-b)))"
    )


def test_outer_bracket() -> None:
    assert _by(without_outer, "(ROOT (S (NN a)))") == "(S (NN a))"
    assert _by(without_outer, "( (TOP (S (NN a))))") == "(S (NN a))"
    assert _by(without_outer, "(ROOT (NN a))") == "(NN a)"
    assert _by(without_outer, "( (S (NN a)) (. .))") == "(ROOT (S (NN a)) (. .))"
    assert _by(without_outer, "(TOP (S (NN a)) (. .))") == "(TOP (S (NN a)) (. .))"
    assert _by(without_outer, "(S (ROOT (NN a)))") == "(S (ROOT (NN a)))"


def test_repetitions() -> None:
    assert _by(without_repetitions, "(S (NP (NP (NP (NN a)))) (NP (NP (NN b)) (NP (NN c))))") == (
        "(S (NP (NN a)) (NP (NP (NN b)) (NP (NN c))))"
    )
    assert _by(without_repetitions, "(X (X a))") == "(X (X a))"
    assert _by(without_repetitions, "(S (VP (S (NN a))))") == "(S (VP (S (NN a))))"


def test_all_rules_together() -> None:
    assert write_line(clean(read_tree(RAW))) == (
        "(S (NP (DT the) (NN bid)) (VP (VBD was) (VP (VBN said) (S (VP (TO to) (VP (VB fail)))))) "
        "(. .))"
    )
    assert clean(read_tree("( (S (-NONE- *)))")) is None


def test_rules_work_after_one_another() -> None:
    """A trace's loss makes a chain, a function tag's loss makes it a repetition."""
    assert write_line(clean(read_tree("( (NP (NP-SBJ (NN a)) (S (-NONE- *))))"))) == "(NP (NN a))"


def test_clean_trees_stay() -> None:
    for tree in random_trees(5, 300):
        once = clean(tree)
        assert clean(once) == once
