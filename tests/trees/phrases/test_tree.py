"""Spans, yields and equality of trees by hand, and trees far deeper than the recursion limit."""

from __future__ import annotations

from functools import reduce

import pytest

from jaxstruct.trees.phrases.binarisation import FULL, Binarisation, binarise, debinarise
from jaxstruct.trees.phrases.bracketing import (
    clean,
    read_tree,
    without_repetitions,
    write_indented,
    write_line,
)
from jaxstruct.trees.phrases.tree import (
    Constituent,
    Tree,
    constituents,
    fold,
    leaves,
    node_spans,
    preorder,
    tags,
    words,
)
from tests.lib.refusals import refused
from tests.trees.random_trees import deep_tree, depth, random_trees

DOG = Tree("NP", (Tree("DT", word="the"), Tree("NN", word="dog")))
BARKS = Tree("VP", (Tree("VBZ", word="barks"),))
SENTENCE = Tree("S", (Tree("S", (DOG, BARKS)),))


def test_yield_spans_and_depth() -> None:
    assert words(SENTENCE) == ("the", "dog", "barks")
    assert tags(SENTENCE) == ("DT", "NN", "VBZ")
    assert constituents(SENTENCE) == [
        Constituent("S", 0, 3),
        Constituent("S", 0, 3),
        Constituent("NP", 0, 2),
        Constituent("VP", 2, 3),
    ]
    assert depth(SENTENCE) == 4
    assert [node.label for node in preorder(SENTENCE)] == "S S NP DT NN VP VBZ".split()


def test_one_word() -> None:
    leaf = Tree("UH", word="yes")
    assert leaf.is_leaf and depth(leaf) == 1 and constituents(leaf) == []
    assert node_spans(leaf) == [(leaf, 0, 1)]


def test_equality_is_of_labels_words_and_shape() -> None:
    assert Tree("NP", (Tree("DT", word="the"), Tree("NN", word="dog"))) == DOG
    assert hash(Tree("NP", DOG.children)) == hash(DOG)
    assert Tree("NX", DOG.children) != DOG
    assert Tree("NP", (*DOG.children[:1], Tree("NN", word="cat"))) != DOG
    assert Tree("NP", DOG.children[:1]) != DOG
    assert DOG != Tree("NP", DOG.children[:1])
    assert DOG != "NP"
    flat = Tree("S", (Tree("A", (Tree("B", word="b"), Tree("C", word="c"))),))
    steep = Tree("S", (Tree("A", (Tree("B", word="b"),)), Tree("C", word="c")))
    assert flat != steep


@pytest.mark.parametrize(("children", "word"), [((), None), ((Tree("NN", word="dog"),), "dog")])
def test_a_node_is_a_constituent_or_a_leaf(children, word) -> None:
    refused("expected children .* or a word", Tree, "NP", children, word)


def test_spans_agree_with_recursion() -> None:
    def recursive(node: Tree, begin: int) -> tuple[list[Constituent], int]:
        found, end = [], begin
        for child in node.children:
            below, end = recursive(child, end)
            found += below
        if node.is_leaf:
            return [], begin + 1
        return [Constituent(node.label, begin, end), *found], end

    for tree in random_trees(0, 300):
        assert constituents(tree) == recursive(tree, 0)[0]


def test_fold_gives_the_results_of_children_from_left_to_right() -> None:
    for tree in random_trees(1, 100):
        found = fold(tree, lambda node, parts: [node.word] if node.is_leaf else sum(parts, []))
        assert tuple(found) == words(tree) == tuple(leaf.word for leaf in leaves(tree))


def test_depth_and_width_are_no_limit() -> None:
    """Of anything that walks over trees."""
    tall, wide = deep_tree(3_000), Tree("S", tuple(Tree("NN", word=f"w{n}") for n in range(2_000)))
    chain = reduce(lambda below, _: Tree("NP", (below,)), range(2_000), Tree("NN", word="end"))
    assert depth(tall) == 3_000 and len(constituents(tall)) == 2_999
    assert tall == deep_tree(3_000) != deep_tree(2_999) and hash(tall) == hash(deep_tree(3_000))
    assert repr(tall).endswith("leaves>)")
    assert read_tree(write_line(tall)) == read_tree(write_indented(tall)) == tall
    assert clean(tall) == without_repetitions(tall)
    for tree in (tall, wide, chain):
        for options in (FULL, Binarisation("left", 1)):
            assert debinarise(binarise(tree, options), options) == tree


def test_parts_of_other_types() -> None:
    leaf = Tree("NN", word="dog")
    for fields, message in [
        ((3, (), "dog"), "label: got int, expected a str"),
        (("NN", (), 3), "word: got int, expected a str, or None"),
        (("NP", "dog"), "children: got str among them, expected Trees"),
        (("NP", (leaf, None)), "children: got NoneType among them"),
    ]:
        refused(message, Tree, *fields)


def test_walks_over_what_is_no_tree() -> None:
    for walk in (leaves, words, tags, constituents, preorder):
        with refused("tree: got list, expected one Tree of jaxstruct.trees; read_tree"):
            walk([Tree("NN", word="dog")])
