"""Trees in a grammar's numbers: by hand, there and back, what is lacking, and broken integers."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.core.types import BinaryTree
from jaxstruct.data.bracketing import read_tree, read_trees
from jaxstruct.data.trees import tags, words
from jaxstruct.trees.phrases.binarisation import Binarisation
from jaxstruct.trees.phrases.grammar import UnknownWords, read_grammar
from jaxstruct.trees.phrases.integer_trees import decode, encode
from tests.lib.refusals import refused
from tests.trees.random_trees import random_trees

TREES = read_trees("""
(S (NP (DT the) (JJ big) (NN dog)) (VP (VB barks) (RB again)))
(NP (NN Dogs))
""")
GRAMMAR = read_grammar(TREES)


def _number(name: str) -> int:
    return GRAMMAR.symbols.index(name)


def test_integers_by_hand() -> None:
    found = encode(GRAMMAR, TREES[0], 7)
    assert found.missing == ()
    tree = found.tree
    assert [GRAMMAR.symbols[name] for name in tree.symbols[:5]] == "DT JJ NN VB RB".split()
    assert tree.symbols.tolist()[5:] == [-1, -1]
    parents = [GRAMMAR.symbols[GRAMMAR.binary_rules[rule, 0]] for rule in tree.rules[:4]]
    assert parents == ["S", "NP", "@NP@DT", "VP"]
    assert tree.begins.tolist() == [0, 0, 1, 3, -1, -1]
    assert tree.splits.tolist() == [3, 1, 2, 4, -1, -1]
    assert tree.ends.tolist() == [5, 3, 3, 5, -1, -1]
    assert found.terminals.tolist()[5:] == [-1, -1]
    assert [GRAMMAR.terminals[read] for read in found.terminals[:5]] == list(tags(TREES[0]))
    assert all(leaf.dtype == np.int32 for leaf in (*tree, found.terminals))


def test_one_word_takes_two_places() -> None:
    found = encode(GRAMMAR, TREES[1])
    assert found.tree.symbols.tolist() == [_number("NP+NN"), -1]
    assert [leaf.tolist() for leaf in found.tree[1:]] == [[-1]] * 4
    assert decode(GRAMMAR, found.tree, ["Dogs"]) == TREES[1]


@pytest.mark.parametrize(
    "options", [Binarisation(), Binarisation("left"), Binarisation("right", 0)], ids=str
)
@pytest.mark.parametrize("unknown_words", [None, UnknownWords(40)])
def test_there_and_back(options: Binarisation, unknown_words: UnknownWords | None) -> None:
    trees = random_trees(20, 600)
    grammar = read_grammar(trees, options, unknown_words)
    for position, tree in enumerate(trees):
        tokens = len(words(tree))
        length = None if position % 2 else 14
        found = encode(grammar, tree, length)
        assert found.missing == ()
        assert len(found.tree.symbols) == (length or max(tokens, 2))
        assert len(found.tree.rules) == len(found.tree.symbols) - 1
        assert decode(grammar, found.tree, words(tree)) == tree


def test_without_words_the_tags_stand_in() -> None:
    tree = decode(GRAMMAR, encode(GRAMMAR, TREES[0]).tree)
    assert words(tree) == tags(tree) == tags(TREES[0])


MISSING = {
    "(VP (VB barks) (RB again))": ("the root VP",),
    "(NP (VB barks))": ("the root NP+VB", "the lexical rule NP+VB -> VB"),
    "(S (NP (NN a)) (VP (VB b) (RB c)))": ("the binary rule S -> NP+NN VP",),
    "(S (NP (DT a) (JJ b) (NN c)) (VP (VB d) (RB e) (XX f) (XX g)))": (
        "the binary rule VP -> VB @VP@VB", "the binary rule @VP@VB -> RB @VP@VB@RB",
        "the binary rule @VP@VB@RB -> XX XX", "the terminal XX",
    ),
}  # fmt: skip


def test_what_the_grammar_lacks_is_said() -> None:
    for text, missing in MISSING.items():
        found = encode(GRAMMAR, read_tree(text))
        assert found.tree is None and found.missing == missing


def test_a_name_that_is_lacking_is_no_number() -> None:
    """With -1 for Q, S -> B Q would have the sort key of S -> A Z."""
    grammar = read_grammar(read_trees("(S (A a) (Z z)) (B b)"))
    assert grammar.symbols == ("A", "B", "S", "Z")
    found = encode(grammar, read_tree("(S (B b) (Q q))"))
    assert "the binary rule S -> B Q" in found.missing


def test_a_grammar_without_binary_rules() -> None:
    grammar = read_grammar(TREES[1:])
    assert encode(grammar, TREES[0]).missing[:2] == ("the root S", "the binary rule S -> NP VP")


def test_every_tree_outside_is_found() -> None:
    """A tree is inside exactly if adding it to the training trees adds no rule and no root."""
    train, test = random_trees(21, 150, 4), random_trees(22, 150, 4)
    grammar = read_grammar(train)
    roots = (grammar.root_counts > 0).sum()
    inside = 0
    for tree in test:
        grown = read_grammar([*train, tree])
        same = (
            len(grown.binary_rules) == len(grammar.binary_rules)
            and len(grown.lexical_rules) == len(grammar.lexical_rules)
            and (grown.root_counts > 0).sum() == roots
        )
        assert (encode(grammar, tree).missing == ()) == same
        inside += same
    assert 10 < inside < 140


def test_what_cannot_be_encoded_or_decoded() -> None:
    for arguments, message in (
        ((TREES[0], GRAMMAR), "grammar must be a Grammar .see read_grammar., got Tree"),
        ((GRAMMAR, "(S (NN a))"), "tree: got str, expected one Tree"),
        ((GRAMMAR, TREES[0], 4), "length must be at least 5, got 4"),
    ):
        refused(message, encode, *arguments)
    found = encode(GRAMMAR, TREES[0])
    nothing, batch, floats = (
        BinaryTree(*map(change, found.tree))
        for change in (lambda leaf: 0 * leaf - 1, lambda leaf: leaf[None], lambda leaf: 1.0 * leaf)
    )
    for arguments, message in [
        ((found.tree, GRAMMAR), "grammar must be a Grammar .see read_grammar., got BinaryTree"),
        ((GRAMMAR, found), "tree: got Encoding, expected a BinaryTree of integers; take its field"),
        ((GRAMMAR, TREES[0]), "tree: got Tree, expected a BinaryTree of integers; see encode"),
        ((GRAMMAR, found.tree, "abcde"), "words must be a list of str, one a token, .*got 'abcde'"),
        ((GRAMMAR, found.tree, ["the"]), "words: got 1, expected 5, one for each token"),
        ((GRAMMAR, floats), r"tree.symbols must be \[T\] integers, got float64"),
        ((GRAMMAR, batch), r"tree.symbols must be \[T\] integers, got int32 of shape \(1, 5\)"),
        ((GRAMMAR, nothing), "tree: it has no token"),
    ]:
        refused(message, decode, *arguments)


def test_broken_integers_are_refused() -> None:
    tree = encode(GRAMMAR, TREES[0], 6).tree
    for field, position, value, message in (
        ("symbols", 0, 99, r"tree.symbols\[0\] is 99: expected -1.."),
        ("symbols", 2, -1, "tree: padding must be -1"),
        ("symbols", 0, 1, "token 0 has the symbol 1, expected 0"),
        ("rules", 3, 0, "rule 0 of node 3 is none of the symbol"),
        ("rules", 0, 50, "rule 50 of node 0 is none of the grammar"),
        ("splits", 0, 2, "node 1 covers 0..3 split at 1, expected 0..2"),
        ("ends", 3, 4, "node 3 covers "),
    ):
        column = getattr(tree, field).copy()
        column[position] = value
        refused(message, decode, GRAMMAR, tree._replace(**{field: column}))
    grammar = read_grammar(read_trees("(A (A a) (A b))"))
    for begins, splits, ends, message in (
        ([0, 0], [1, 1], [2, 2], "node 0 covers 0..2 split at 1, expected 0..3"),
        ([1, 0], [2, 1], [3, 2], "node 0 covers 1..3"),
        ([0, 2], [1, 3], [3, 4], "node 1 covers 2..4 split at 3, .*|rule 0 of node 1"),
    ):
        rows = [0, 0, 0], [0, 0], begins, splits, ends
        refused(message, decode, grammar, BinaryTree(*map(np.array, rows)))
