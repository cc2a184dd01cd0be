"""Reading and writing Penn bracketing: the forms of three treebanks, errors, round trips."""

from __future__ import annotations

import pytest

from jaxstruct.data.bracketing import (
    clean,
    plain_label,
    read_tree,
    read_trees,
    without_functions,
    without_outer,
    without_repetitions,
    without_traces,
    write_line,
)
from jaxstruct.data.trees import Tree, tags, words
from tests.lib.refusals import refused
from tests.trees.random_trees import random_trees

LDC = """
( (S
    (NP-SBJ (NNP Mr.) (NNP Vinken) )
    (VP (VBZ is)
      (NP-PRD (-LRB- -LRB-) (NN chairman) (-RRB- -RRB-) ))
    (. .) ))
( (NP (NN end) ))
"""


def test_the_unlabelled_outer_bracket_of_ldc() -> None:
    first, second = read_trees(LDC)
    assert first.label == "" and len(first.children) == 1
    assert words(first) == ("Mr.", "Vinken", "is", "-LRB-", "chairman", "-RRB-", ".")
    assert tags(first)[3] == "-LRB-"
    assert second == Tree("", (Tree("NP", (Tree("NN", word="end"),)),))


def test_labelled_outer_bracket_and_tight_spacing() -> None:
    text = "(ROOT\n  (S (NP (DT The))(VP(VBZ is))))\r\n\r\n(ROOT(UH yes))"
    first, second = read_trees(text)
    assert write_line(first) == "(ROOT (S (NP (DT The)) (VP (VBZ is))))"
    assert write_line(second) == "(ROOT (UH yes))"


def test_words_with_odd_characters_stay_whole() -> None:
    """No-break spaces are no white space of the format."""
    tree = read_tree("(CD 1\u00a0000)")
    assert tree == Tree("CD", word="1\u00a0000")
    assert read_tree(write_line(tree)) == tree


def test_nothing_is_no_tree() -> None:
    assert read_trees(" \n ") == ()


@pytest.mark.smoke
def test_what_was_written_is_read_again() -> None:
    for tree in random_trees(2, 1000):
        assert read_tree(write_line(tree)) == tree
    trees = random_trees(4, 50)
    assert read_trees("\n".join(map(write_line, trees))) == tuple(trees)
    nameless = Tree("", (trees[0],))
    assert read_tree(write_line(nameless)) == nameless


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NN a))\n(S (NN a)", "file:2: the text ends inside of the bracket 'S', .* 1 more"),
        ("\n\n)", "file:3: '\\)' closes nothing, expected '\\('"),
        ("(S\n(NP ))", "file:2: the bracket 'NP' is empty, expected a word or trees"),
        ("()", "file:1: a bracket without label is empty"),
        ("(S (NN a b))", "file:1: a second word 'b' in the bracket 'NN', expected '\\)'"),
        ("(S (NN a) b)", "file:1: the word 'b' after a tree in the bracket 'S'"),
        ("(NP a (NN b))", "file:1: '\\(' after the word 'a', expected '\\)'"),
        ("(S ((NN a)))", "file:1: '\\(' right after an inner '\\(', expected a label"),
        ("(S (NN a))\nword", "file:2: 'word' outside of all brackets, expected '\\('"),
    ],
)
def test_errors_name_the_line_and_what_was_expected(text: str, message: str) -> None:
    refused(message, read_trees, text, "file")


def test_what_is_neither_read_nor_written() -> None:
    for text in (None, b"(A a)", ["(A a)"], Tree("A", word="a")):
        refused(f"text: got {type(text).__name__}, expected a str", read_trees, text)
    for text in ("(S (NN a) {})", "({})", "{}", "(S a {})", "(S (NN {}", "(S {} ("):
        refused(r"x\.\.\.x|1 more|2 more", read_trees, text.format("x" * 500_000))
    refused("holds 2 trees, expected exactly one", read_tree, "(A a) (B b)")
    refused("tree: got .*, expected one Tree", write_line, "(S a)")
    for tree in (
        Tree("NN", word="New York"), Tree("NN", word="("), Tree("NN", word=""),
        Tree("", word="dog"), Tree("N N", word="dog"),
        Tree("S", (Tree("", (Tree("NN", word="dog"),)),)),
    ):  # fmt: skip
        refused("got '.*', expected one without white space", write_line, tree)


RAW = (
    "( (S (NP-SBJ-1 (DT the) (NN bid)) (VP (VBD was) (VP (VBN said) (S=2 (NP-SBJ (-NONE- *-1)) "
    "(VP (TO to) (VP (VB fail)))))) (SBAR (-NONE- 0) (S (-NONE- *T*-3))) (. .)))"
)


def test_function_tags_and_indices() -> None:
    labels = "NP-SBJ=1 NP-SBJ-TTL-1 NP=2 ADVP|PRT-CLR -LRB- -RRB- -NONE- PRP$ :".split()
    plain = "NP NP NP ADVP|PRT -LRB- -RRB- -NONE- PRP$ :".split()
    assert [*map(plain_label, labels)] == plain and plain_label("") == ""


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
