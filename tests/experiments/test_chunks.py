"""Chunks of the benchmarks: labels read off a tree, and features of its tokens."""

from __future__ import annotations

from experiments.tasks.chunks import chunk_labels, features
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
