"""Treebanks as bracketed text: the four methods, words at the leaves, refusals."""

from __future__ import annotations

import nltk
import numpy as np
import pytest

from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.types import BinaryTree
from jaxstruct.trees import encode, prepare, read_trees, tags, words, write_line
from tests.lib.refusals import refused

TEXT = """(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))))
( (S (NP (NNS kings)) (VP (VBZ sleeps))))
(ROOT (S (NP (DT a) (NN man)) (VP (VBZ sees) (NP (PRP her)) (PP (IN in) (NP (NN town))))))"""
PLAIN = """(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))))
(S (NP (NNS kings)) (VP (VBZ sleeps)))
(S (NP (DT a) (NN man)) (VP (VBZ sees) (NP (PRP her)) (PP (IN in) (NP (NN town)))))"""
TREES = list(read_trees(PLAIN))


@pytest.mark.parametrize("trees", [TEXT, TREES, TEXT.splitlines()], ids=["text", "trees", "lines"])
def test_trees_come_back_from_their_numbers(trees) -> None:
    encoding = prepare(trees).encoding
    y = encoding.outputs(trees)
    assert encoding.decode(y, trees) == TREES
    assert encoding.decode(y, [words(tree) for tree in TREES]) == TREES
    bare = encoding.decode(y)[0]
    assert write_line(bare) == "(S (NP (DT DT) (NN NN)) (VP (VBZ VBZ) (NP (DT DT) (NN NN))))"


def test_trees_of_nltk_are_trees() -> None:
    given, encoding = [*map(nltk.Tree.fromstring, PLAIN.splitlines())], prepare(TEXT).encoding
    assert prepare(given).encoding.grammar.symbols == encoding.grammar.symbols
    assert encoding.decode(encoding.outputs(given), given) == TREES
    inputs = encoding.inputs(given).terminals.rows
    assert inputs.tolist() == encoding.inputs(TREES).terminals.rows.tolist()
    refused("got one Tree: put it into a list", prepare, given[0])
    given[0].append("word")
    refused(r"trees\[0\] has 'word' below 'S': expected one word .* below each tag", prepare, given)


def test_sentences_are_tags_or_trees() -> None:
    encoding = prepare(TEXT).encoding
    by_tree, by_tags = encoding.inputs(TEXT), encoding.inputs([tags(tree) for tree in TREES])
    np.testing.assert_array_equal(by_tree.terminals.rows, by_tags.terminals.rows)
    assert by_tree.length.tolist() == [5, 2, 6]
    with pytest.warns(UnseenFeatures, match="first 'XX' in sentences"):
        assert encoding.inputs([["DT", "XX"]]).terminals.rows.tolist()[1] == -1


def test_words_are_read_where_wanted_and_rare_ones_by_their_class() -> None:
    encoding = prepare(TEXT, read_words=True, rare=1).encoding
    assert "sees" in encoding.grammar.terminals and "dog" not in encoding.grammar.terminals
    assert encoding.decode(encoding.outputs(TEXT), TEXT) == TREES
    x = encoding.inputs([["a", "zebra", "sees"]])
    assert (x.terminals.rows >= 0).all()


def test_a_sentence_without_a_parse_is_none() -> None:
    encoding = prepare(TEXT).encoding
    one = encode(encoding.grammar, TREES[1]).tree
    none = BinaryTree(*(np.full_like(leaf, -1) for leaf in one))
    both = BinaryTree(*(np.stack(pair) for pair in zip(one, none, strict=True)))
    assert encoding.decode(both, [["kings", "sleeps"], ["a", "b"]]) == [TREES[1], None]


def test_options_of_the_grammar_and_of_the_problem() -> None:
    right = prepare(TEXT, memory=None).encoding.grammar
    left = prepare(TEXT, memory=0, branching="left").encoding.grammar
    assert right.binarisation.memory is None and left.binarisation.branching == "left"
    data = prepare(TEXT, loss="zero_one")
    rules = data.problem.initial_weights["rules"]
    assert rules.shape == (len(data.encoding.grammar.binary_rules),)


ENCODING = prepare(TEXT).encoding
WRONG = {
    "one tree": (lambda: prepare(TREES[0]), "trees must be .*, got one Tree: put it into"),
    "no tree": (lambda: prepare([]), "trees: got none"),
    "no text": (lambda: prepare([3]), r"trees\[0\] must be a Tree, one of NLTK or bracketed text"),
    "open": (lambda: prepare("(S (A b)"), "trees:1: the text ends inside of"),
    "two in one": (lambda: prepare([PLAIN]), r"trees\[0\]: holds 3 trees, expected exactly"),
    "flag": (lambda: prepare(TEXT, read_words="no"), "read_words must be True or False"),
    "new rule": (
        lambda: ENCODING.outputs("(S (NP (DT a) (NN b)) (VP (VBZ c)) (PP (IN d) (NP (NN e))))"),
        r"trees\[0\] is no tree of the grammar, which lacks the binary rule S -> NP @S",
    ),
    "empty sentence": (lambda: ENCODING.inputs([[]]), r"sentences\[0\]"),
    "number of sentences": (
        lambda: ENCODING.decode(ENCODING.outputs(TEXT), TREES[:2]), "sentences are 2, outputs 3",
    ),
    "number of words": (
        lambda: ENCODING.decode(ENCODING.outputs(PLAIN.splitlines()[:1]), [["a"]]), "got 1, expe",
    ),
    "no outputs": (lambda: ENCODING.decode([1]), "outputs must be a BinaryTree"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case: str) -> None:
    call, message = WRONG[case]
    refused(message, call)
