"""DependencyParser: sentences in, heads with labels out."""

from __future__ import annotations

import pytest
from sklearn.base import clone

import jaxstruct as js
from jaxstruct.estimators import DependencyParser
from tests.dependencies.test_encoding import english
from tests.lib.refusals import refused

X, Y = english()
OPTIONS = dict(loss="labelled_hamming", min_count=1, templates=["head.tag child.tag distance"],
               label_templates=["child.tag"])  # fmt: skip


def test_the_optimum_is_that_of_fit():
    model = DependencyParser(C=10.0, **OPTIONS).fit(X, Y)
    solution = js.fit(*js.dependencies.prepare(X, Y, **OPTIONS), C=10.0)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_
    assert model.predict(X) == Y and model.score(X, Y) == 1.0
    assert clone(model).get_params() == model.get_params()


@pytest.mark.thorough
def test_heads_alone_and_log_loss():
    heads = [[head for head, _ in tree] for tree in Y]
    model = DependencyParser(
        objective="log_loss", projective=False, min_count=1, templates=OPTIONS["templates"]
    ).fit(X, heads)
    assert model.score(X, heads) == 1.0
    wrong = [[0] * len(tree) for tree in heads]
    assert model.score(X, wrong) == pytest.approx(len(X) / sum(map(len, X)))


def test_crossing_arcs_are_refused():
    sentence = [{"word": word, "tag": "N"} for word in "abcd"]
    with refused(r"has arcs that cross: take projective=False"):
        DependencyParser().fit([sentence], [[3, 4, 0, 3]])
