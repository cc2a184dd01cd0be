"""UAS and LAS of predicted trees."""

from __future__ import annotations

import pytest

from jaxstruct.evaluation import attachment
from tests.lib.refusals import refused


def test_shares_of_words_and_trees():
    true = [[(2, "a"), (0, "r")], [(0, "r")]]
    found = [[(2, "b"), (1, "r")], [(0, "r")]]
    scores = attachment(true, found)
    assert scores.uas == pytest.approx(2 / 3) and scores.las == pytest.approx(1 / 3)
    assert scores.whole == 0.5
    heads = attachment([[2, 0]], [[2, 1]])
    assert heads.uas == 0.5 and heads.las is None and heads.whole == 0


def test_refusals():
    refused("got 1 trees, expected 2", lambda: attachment([[0], [0]], [[0]]))
    refused(r"predicted\[0\] has 2 words, expected 1", lambda: attachment([[0]], [[0, 1]]))
    refused("must hold a word", lambda: attachment([], []))
    refused("one kind|pairs", lambda: attachment([[0]], [[(0, "r")]]))
