"""TreeParser: bracketed text in, trees out."""

from __future__ import annotations

import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import jaxstruct as js
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.estimators import TreeParser
from tests.estimators.cases import reordered
from tests.lib.refusals import refused

TREES = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))))",
    "(S (NP (DT the) (NN king)) (VP (VBZ sleeps)))",
    "(S (NP (DT a) (NN man)) (VP (VBZ sees) (NP (DT the) (NN dog))))",
    "(S (NP (DT a) (NN cat)) (VP (VBZ runs)))",
] * 2
TAGS = [js.trees.tags(js.trees.read_tree(tree, "tree")) for tree in TREES]


def test_the_optimum_is_that_of_fit() -> None:
    model = TreeParser().fit(TAGS, TREES)
    solution = js.fit(*js.trees.prepare(TREES, loss="node_f1"), "svm2_margin", C=100.0)
    assert model.primal_ >= solution.dual and solution.primal >= model.dual_
    (tree,) = model.predict([["DT", "NN", "VBZ"]])
    assert js.trees.write_line(tree) == "(S (NP (DT DT) (NN NN)) (VP (VBZ VBZ)))"


def test_the_score_is_f1_and_misses_what_has_no_parse() -> None:
    model = TreeParser().fit(TAGS, TREES)
    assert model.score(TAGS, TREES) == model.score(TREES, TREES) == 1.0
    other = "(S (NP (DT the) (NN dog)) (VP (XX sees)))"
    with pytest.warns(UnseenFeatures):
        assert model.predict([["DT", "NN", "XX"]]) == [None]
        assert model.score([TREES[1], other], [TREES[1], other]) == pytest.approx(2 * 3 / (3 + 6))
        assert model.score([TREES[1], other], [TREES[1], other], [1, 0]) == 1.0


def test_a_pipeline_and_a_grid_search() -> None:
    model = make_pipeline(FunctionTransformer(list), TreeParser())
    grid = {"treeparser__C": [1.0, 100.0]}
    search = GridSearchCV(model, grid, cv=reordered(8)).fit(TAGS, TREES)
    assert search.best_score_ == 1.0


def test_errors_name_the_sentence() -> None:
    with refused(r"y\[1\] has 3 leaves, but X\[1\] has 2 tokens"):
        TreeParser().fit([TAGS[0], ["DT", "NN"]], TREES[:2])
    refused("X has 1 sentences, but y has 2", lambda: TreeParser().fit(TAGS[:1], TREES[:2]))
