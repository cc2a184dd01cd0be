"""Trees: features by hand, what a tree costs, and the figures of a list of them."""

from __future__ import annotations

import pytest

from experiments.reranking.lists import Lists
from experiments.reranking.trees import (
    height,
    measures,
    one_minus_f1,
    parents,
    parents_and_shapes,
)
from jaxstruct.trees.phrases.bracketing import read_tree

RIGHT = read_tree("(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (PRP it))))")
FLAT = read_tree("(S (DT the) (NN dog) (VP (VBD saw) (NP (PRP it))))")


def test_rules_with_the_constituent_above() -> None:
    found = parents(RIGHT)
    assert found["rule", "NP", ("DT", "NN")] == 1 and found["rule", "S", ("NP", "VP")] == 1
    assert found["rule below", "VP", "NP", ("PRP",)] == 1
    assert found["rule below", "", "S", ("NP", "VP")] == 1
    assert found["pair", "NP", ("<", "DT")] == 1 and found["pair", "NP", ("PRP", ">")] == 1
    assert sum(value for name, value in found.items() if name[0] == "rule") == 4


def test_heights_widths_and_edges() -> None:
    found = parents_and_shapes(RIGHT)
    assert height(RIGHT) == 3 and found["height of the tree", 3] == 1
    assert found["height", "VP", 2] == 1 and found["width", "VP", 2] == 1
    assert found["edges", "S", "DT", "PRP"] == 1 and found["right branch", 3] == 1
    assert found["first", "S", "NP", "DT"] == 1 and found["tags", "NP", ("PRP",)] == 1
    assert ("tags", "S", ("DT", "NN", "VBD", "PRP")) not in found


def test_costs_and_figures() -> None:
    """FLAT misses one of four constituents: F1 = 2 * 3 / 7."""
    assert one_minus_f1(RIGHT, RIGHT) == 0
    assert one_minus_f1(RIGHT, FLAT) == pytest.approx(1 / 7)
    lists = Lists([[FLAT, RIGHT], []], [[1.0, 0.0], []], [[1 / 7, 0.0], []], [RIGHT, RIGHT])
    assert measures(lists, [0, 0])[0] == 0
    whole, f1 = measures(lists, [1, 0])  # the sentence without a tree misses four of eight
    assert whole == 50 and f1 == pytest.approx(100 * 2 * 4 / (8 + 4))
