"""experiments.parsing.pictures: which nodes are marked, which sentences are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.parsing.pictures import (
    Case,
    _gold_nodes,
    _own_nodes,
    chosen_cases,
    lone_pictures,
    tree_pictures,
)
from jaxstruct.trees.phrases.bracketing import read_tree, write_line

GOLD = read_tree("(S (NP (A a)) (VP (B b) (NP (C c) (D d))))")
WRONG = read_tree("(S (NP (A a)) (VP (VP (B b) (C c)) (D d)))")
CASE = Case(GOLD, (GOLD, WRONG, None))


def marked(nodes):
    return [(node.text, node.x) for node in nodes if node.kind in ("wrong", "missed")]


def test_what_differs_is_marked():
    assert marked(_gold_nodes(Case(GOLD, (GOLD, WRONG)))) == [("NP", 2.5)]
    assert marked(_gold_nodes(CASE)) == [("S", 1.5), ("NP", 0), ("VP", 2), ("NP", 2.5)]
    marks = {(node.text, node.x): node.mark for node in _gold_nodes(CASE) if node.mark}
    assert marks == {("S", 1.5): "*3", ("NP", 0): "*3", ("VP", 2): "*3", ("NP", 2.5): "*2,3"}
    assert marked(_own_nodes(CASE, 0)) == [] == _own_nodes(CASE, 2)
    assert marked(_own_nodes(CASE, 1)) == [("VP", 1.5)]


def test_places_of_nodes():
    found = {(node.text, node.x): node.y for node in _own_nodes(CASE, 0)}
    assert found == {
        ("S", 1.5): 4, ("NP", 0): 2, ("VP", 2): 3, ("NP", 2.5): 2, ("A", 0): 1, ("B", 1): 1,
        ("C", 2): 1, ("D", 3): 1, ("a", 0): 0, ("b", 1): 0, ("c", 2): 0, ("d", 3): 0,
    }  # fmt: skip


def test_sentences_that_differ_come_first():
    short, long = read_tree("(S (A a) (B b))"), GOLD
    gold = [short, long, short, short, long]
    first, last = np.array([0, 0, 7, 5, 1]), np.array([0, 0, 1, 0, 9])
    answers = [[f"a{i}" for i in range(5)], [f"b{i}" for i in range(5)]]
    cases = chosen_cases(gold, answers, [first, last], 4)
    assert [case.predicted[0] for case in cases] == ["a2", "a4", "a3", "a1"]


def test_the_sheet_has_its_numbers():
    plot = tree_pictures([CASE], ("one", "two", "three"), "trees")
    assert len(plot.figure.axes) == 4
    texts = [{text.get_text() for text in axes.texts} for axes in plot.figure.axes]
    assert {"NP*2,3", "S*3", "VP*3"} <= texts[0] and "VP?" in texts[2] and texts[3] == {"no parse"}
    titles = [axes.get_title(loc="left") for axes in plot.figure.axes]
    assert titles == ["right", "1: one", "2: two", "3: three"]
    (sentence,) = plot.data["sentences"]
    assert list(sentence) == ["right", "one", "two", "three"] and sentence["three"] is None


def test_trees_alone_are_unmarked_and_dollars_are_letters():
    dollars = read_tree("(NP (NP ($ $) (CD 5)) (NP ($ $) (CD $6$)))")
    plot = lone_pictures([GOLD, None, dollars], ("one", "two", "$x$"), "trees")
    texts = [[text.get_text() for text in axes.texts] for axes in plot.figure.axes]
    assert sorted(texts[0]) == sorted([*"SABCDabcd", "NP", "VP", "NP"]) and texts[1] == ["no parse"]
    assert texts[2].count("$") == 4 and "$6$" in texts[2]
    assert not any(text.get_parse_math() for text in plot.figure.axes[2].texts)
    assert [axes.get_title(loc="left") for axes in plot.figure.axes] == ["one", "two", "$x$"]
    assert [one["tree"] for one in plot.data["sentences"]] == [
        "(S (NP (A a)) (VP (B b) (NP (C c) (D d))))", None, write_line(dollars),
    ]  # fmt: skip


def test_the_sheet_grows_with_its_trees():
    low, high = lone_pictures([GOLD], ("a",), "t"), lone_pictures([GOLD, GOLD], ("a", "b"), "t")
    long = read_tree("(S" + " (A a)" * 20 + ")")
    wide = lone_pictures([GOLD, long], ("a", "b"), "t")
    sizes = [plot.figure.get_size_inches() for plot in (low, high, wide)]
    assert sizes[0][0] == sizes[1][0] < sizes[2][0] and sizes[0][1] < sizes[1][1]
    assert all(axes.get_xlim() == (-0.6, 19.6) for axes in wide.figure.axes)


def test_pictures_that_cannot_be():
    for trees in ([], [GOLD, GOLD]):
        with pytest.raises(ValueError, match=f"trees, captions: got {len(trees)} and 1"):
            lone_pictures(trees, ("a",), "")
    with pytest.raises(ValueError, match="cases: got none"):
        tree_pictures([], (), "")
    with pytest.raises(ValueError, match="3 trees for 1 names"):
        tree_pictures([CASE], ("one",), "")
