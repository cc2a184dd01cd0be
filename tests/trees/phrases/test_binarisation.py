"""Chomsky normal form by hand for each option, and the way back for thousands of trees."""

from __future__ import annotations

import itertools

import pytest

from jaxstruct.trees.phrases.binarisation import (
    FULL,
    Binarisation,
    binarise,
    chain_labels,
    debinarise,
)
from jaxstruct.trees.phrases.bracketing import read_tree, write_line
from jaxstruct.trees.phrases.tree import Tree, preorder, words
from tests.lib.refusals import refused
from tests.trees.random_trees import random_trees

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


def test_less_memory_means_fewer_symbols() -> None:
    trees = random_trees(7, 300)

    def symbols(memory: int | None) -> int:
        forms = (binarise(tree, Binarisation("right", memory)) for tree in trees)
        return len({node.label for form in forms for node in preorder(form)})

    assert symbols(0) < symbols(1) < symbols(2) < symbols(None)


def test_labels_of_a_symbol() -> None:
    assert chain_labels("S+VP", FULL) == ("S", "VP")
    assert chain_labels("NN", FULL) == ("NN",)
    assert chain_labels("@S@NP+NN", FULL) == ()
    assert chain_labels("S+VP", Binarisation(separator="_")) == ("S+VP",)


@pytest.mark.parametrize(
    ("label", "options", "message"),
    [
        ("A+B", FULL, "'A\\+B', which holds '\\+', the separator of new symbols: rename"),
        ("@A", FULL, "'@A', which holds '@', the mark of new symbols: rename"),
        ("A@", FULL, "the mark of"),
        ("", FULL, "label: got an empty one"),
        ("A", Binarisation("up"), "branching is 'up'; choose one of .'right', 'left'."),
        ("A", Binarisation(memory=-1), "memory must be at least 0, got -1"),
        ("A", Binarisation(memory=1.5), "memory must be at least 0, a Python integer, got 1.5"),
        ("A", Binarisation(memory=True), "memory must be at least 0, .*got True"),
        ("A", Binarisation(separator=""), "separator: got '', expected one character"),
        ("A", Binarisation(mark="("), "mark: got '\\('"),
        ("A", Binarisation(separator="@"), "mark: got '@', expected another"),
    ],
)
def test_bad_labels_and_options(label: str, options: Binarisation, message: str) -> None:
    tree = Tree("S", (Tree("B", word="b"), Tree(label, (Tree("C", word="c"),))))
    refused(message, binarise, tree, options)


@pytest.mark.parametrize("text", ["(@S@A (B b) (C c))", "(S (@S@A b) (C c))"])
def test_intermediate_symbols_have_their_places(text: str) -> None:
    refused("the (intermediate )?symbol '@S@A'", lambda: debinarise(read_tree(text)))
