"""Spans, yields and equality of trees by hand, and trees far deeper than the recursion limit."""

from __future__ import annotations

import itertools
from functools import reduce

import pytest

from jaxstruct.data.bracketing import clean, read_tree, without_repetitions, write_line
from jaxstruct.data.trees import (
    Constituent,
    Tree,
    constituents,
    fold,
    leaves,
    preorder,
    tags,
    words,
)
from jaxstruct.trees.phrases.binarisation import (
    FULL,
    Binarisation,
    binarise,
    chain_labels,
    debinarise,
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
    assert read_tree(write_line(tall)) == tall
    assert clean(tall) == without_repetitions(tall)
    for tree in (tall, wide, chain):
        for options in (FULL, Binarisation("left", 1)):
            assert debinarise(binarise(tree, options), options) == tree


def test_what_is_no_tree_is_refused() -> None:
    leaf = Tree("NN", word="dog")
    for fields, message in [
        (("NP", (), None), "expected children .* or a word"),
        (("NP", (leaf,), "dog"), "expected children .* or a word"),
        ((3, (), "dog"), "label: got int, expected a str"),
        (("NN", (), 3), "word: got int, expected a str, or None"),
        (("NP", "dog"), "children: got str among them, expected Trees"),
    ]:
        refused(message, Tree, *fields)
    for walk in (leaves, words, tags, constituents, preorder):
        refused("tree: got list, expected one Tree of jaxstruct.trees; read_tree", walk, [leaf])


WIDE = "(X (A a) (B b) (C c) (D d) (E e))"
OPTIONS = [
    Binarisation(branching, memory)
    for branching, memory in itertools.product(("right", "left"), (None, 0, 1, 2))
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (FULL, "(X (A a) (@X@A (B b) (@X@A@B (C c) (@X@A@B@C (D d) (E e)))))"),
        (Binarisation("right", 2), "(X (A a) (@X@A (B b) (@X@A@B (C c) (@X@B@C (D d) (E e)))))"),
        (Binarisation("right", 1), "(X (A a) (@X@A (B b) (@X@B (C c) (@X@C (D d) (E e)))))"),
        (Binarisation("right", 0), "(X (A a) (@X (B b) (@X (C c) (@X (D d) (E e)))))"),
        (Binarisation("left"), "(X (@X@E (@X@E@D (@X@E@D@C (A a) (B b)) (C c)) (D d)) (E e))"),
        (Binarisation("left", 1), "(X (@X@E (@X@D (@X@C (A a) (B b)) (C c)) (D d)) (E e))"),
        (
            Binarisation("right", 1, "_", "^"),
            "(X (A a) (^X^A (B b) (^X^B (C c) (^X^C (D d) (E e)))))",
        ),
    ],
)
def test_wide_constituents(options: Binarisation, expected: str) -> None:
    assert write_line(binarise(read_tree(WIDE), options)) == expected
    assert debinarise(read_tree(expected), options) == read_tree(WIDE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(NN dog)", "(NN dog)"),
        ("(NP (NN dog))", "(NP+NN dog)"),
        ("(S (NP (NP (NN dog))))", "(S+NP+NP+NN dog)"),
        ("(S (VP (VB go) (NP (NN home))))", "(S+VP (VB go) (NP+NN home))"),
        ("(S (VP (VB go) (RB on) (NP (NN home))))", "(S+VP (VB go) (@VP@VB (RB on) (NP+NN home)))"),
        ("(X (A (B b)) (C c) (D d))", "(X (A+B b) (@X@A+B (C c) (D d)))"),
    ],
)
def test_chains_and_one_word(text: str, expected: str) -> None:
    assert write_line(binarise(read_tree(text))) == expected
    assert debinarise(read_tree(expected)) == read_tree(text)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_way_back_is_certain(options: Binarisation) -> None:
    for tree in random_trees(6, 1000):
        normal = binarise(tree, options)
        assert all(len(node.children) in (0, 2) for node in preorder(normal))
        assert words(normal) == words(tree)
        assert debinarise(normal, options) == tree


def test_labels_of_a_symbol() -> None:
    assert chain_labels("S+VP", FULL) == ("S", "VP")
    assert chain_labels("NN", FULL) == ("NN",)
    assert chain_labels("@S@NP+NN", FULL) == ()
    assert chain_labels("S+VP", Binarisation(separator="_")) == ("S+VP",)


def test_bad_labels_and_options() -> None:
    for label, options, message in (
        ("A+B", FULL, "'A\\+B', which holds '\\+', the separator of new symbols: rename"),
        ("@A", FULL, "'@A', which holds '@', the mark of new symbols: rename"),
        ("", FULL, "label: got an empty one"),
        ("A", Binarisation("up"), "branching is 'up'; choose one of .'right', 'left'."),
        ("A", Binarisation(memory=-1), "memory must be at least 0, got -1"),
        ("A", Binarisation(memory=True), "memory must be at least 0, .*got True"),
        ("A", Binarisation(separator=""), "separator: got '', expected one character"),
        ("A", Binarisation(mark="("), "mark: got '\\('"),
        ("A", Binarisation(separator="@"), "mark: got '@', expected another"),
    ):
        tree = Tree("S", (Tree("B", word="b"), Tree(label, (Tree("C", word="c"),))))
        refused(message, binarise, tree, options)
    for text in ("(@S@A (B b) (C c))", "(S (@S@A b) (C c))"):
        refused("the (intermediate )?symbol '@S@A'", debinarise, read_tree(text))
