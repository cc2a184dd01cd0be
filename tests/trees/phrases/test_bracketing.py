"""Reading and writing Penn bracketing: the forms of three treebanks, errors, round trips."""

from __future__ import annotations

import pytest

from jaxstruct.trees.phrases.bracketing import read_tree, read_trees, write_indented, write_line
from jaxstruct.trees.phrases.tree import Tree, tags, words
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NN a))\n(S (NN a)", "file:2: the text ends inside of the bracket 'S', .* 1 more"),
        ("(S (NN a)", "file:1: .*1 more '\\)'"),
        ("\n\n)", "file:3: '\\)' closes nothing, expected '\\('"),
        ("(S (NN a)))", "file:1: '\\)' closes nothing"),
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


@pytest.mark.parametrize("text", [None, b"(A a)", ["(A a)"], Tree("A", word="a")])
def test_what_is_no_text(text: object) -> None:
    for read in (read_trees, read_tree):
        refused(f"text: got {type(text).__name__}, expected a str", read, text)


@pytest.mark.parametrize(
    "text", ["(S (NN a) {})", "({})", "{}", "(S a {})", "(S (NN {}", "(S {} ("]
)
def test_errors_are_one_short_line(text: str) -> None:
    refused(r"x\.\.\.x|1 more|2 more", lambda: read_trees(text.format("x" * 500_000)))


def test_only_trees_are_written() -> None:
    for tree in ("(S a)", None):
        for write in (write_line, write_indented):
            refused("tree: got .*, expected one Tree", write, tree)
    with refused("width must be at least 0, a Python integer, got '80'"):
        write_indented(Tree("A", word="a"), "80")


def test_one_tree_is_one() -> None:
    refused("holds 2 trees, expected exactly one", read_tree, "(A a) (B b)")


def test_indented_form() -> None:
    text = "(S (NP (DT the) (NN dog)) (VP (VBD chased) (NP (DT a) (NN cat))))"
    assert write_indented(read_tree(text), width=30) == (
        "(S\n  (NP (DT the) (NN dog))\n  (VP\n    (VBD chased)\n    (NP (DT a) (NN cat))))"
    )
    assert write_indented(read_tree(text), width=len(text)) == text
    assert len(write_indented(read_tree(text), width=len(text) - 1).splitlines()) == 3


def test_lines_keep_to_the_width() -> None:
    for tree in random_trees(3, 200):
        lines = write_indented(tree, width=40).splitlines()
        assert all(len(line) <= 40 for line in lines if "(" in line.strip()[1:])


@pytest.mark.smoke
def test_what_was_written_is_read_again() -> None:
    for tree in random_trees(2, 1000):
        assert read_tree(write_line(tree)) == tree
        assert read_tree(write_indented(tree, 25)) == tree
    trees = random_trees(4, 50)
    assert read_trees("\n".join(map(write_line, trees))) == tuple(trees)
    nameless = Tree("", (trees[0],))
    assert read_tree(write_line(nameless)) == nameless
    assert read_tree(write_indented(nameless, 1)) == nameless


@pytest.mark.parametrize(
    "tree",
    [
        Tree("NN", word="New York"),
        Tree("NN", word="("),
        Tree("NN", word=""),
        Tree("", word="dog"),
        Tree("N N", word="dog"),
        Tree("S", (Tree("", (Tree("NN", word="dog"),)),)),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tree: Tree) -> None:
    for write in (write_line, write_indented, lambda tree: write_indented(tree, 1)):
        refused("got '.*', expected one without white space", write, tree)
