"""Chunks of the benchmarks: labels read off a tree, and features of its tokens."""

from __future__ import annotations

import pytest

from experiments.corpora.locate import available
from experiments.tasks.chunks import chunk_labels, chunked, features
from jaxstruct.trees import leaves, read_tree

TREE = """(S (NP (NP (DT the) (NN board)) (PP (IN of) (NP (NNP Ada) (, ,) (NNP Bob))))
  (VP (MD will) (VP (VB meet) (NP (PRP them)) (ADVP (RB soon)))) (. .))"""


def test_a_chunk_is_the_lowest_phrase_and_verbs_go_on() -> None:
    tree = read_tree(TREE, "tree")
    found = {leaf.word: label for leaf, label in zip(leaves(tree), chunk_labels(tree), strict=True)}
    assert found == {
        "the": "B-NP", "board": "I-NP", "of": "B-PP", "Ada": "B-NP", ",": "O", "Bob": "B-NP",
        "will": "B-VP", "meet": "I-VP", "them": "B-NP", "soon": "B-ADVP", ".": "O",
    }  # fmt: skip


def test_features_name_neighbours_within_the_sentence() -> None:
    first, last = features([("Ada", "NNP"), ("meets", "VBZ")])
    assert "-1:none" in first and "1:word=meets" in first and "tags=NNP|VBZ" not in first
    assert "-1:tag=NNP" in last and "1:none" in last and "tags=NNP|VBZ" in last


@pytest.mark.skipif(not available("treebank"), reason="needs treebank")
def test_sentences_are_those_asked_for() -> None:
    both, some = chunked(6), chunked(2, skip=4)
    assert (both[0][4:], both[1][4:]) == some and len(some[0]) == 2
    letters = {label.partition("-")[0] for labels in both[1] for label in labels}
    assert letters == {"O", "B", "I"}
    assert [*map(len, both[0])] == [*map(len, both[1])]
