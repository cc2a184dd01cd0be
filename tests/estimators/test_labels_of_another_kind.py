"""Labels and tokens that training did not have: an error or a warning, in every estimator."""

from __future__ import annotations

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.labels import UnseenLabels
from tests.lib.refusals import refused

E = js.estimators
ROWS = np.random.default_rng(0).normal(size=(6, 3))
SENTENCES = [[["a"], ["b"]], [["b"]]]
GRAPH = ([["a"], ["b"]], [(0, 1)])
NAMED = ({"x": ["a"], "y": ["b"]}, [("x", "y")])
TREE = "(S (NP (NN a)) (VP (VB b)))"
PAIRS = [("AC-T", "ACGT"), ("A-T", "AGT")]

OF_LABELS = {
    "classes": (E.StructuralClassifier, ROWS, lambda a, b: [a, a, b, b, a, b]),
    "named rows": (E.StructuralClassifier, [["a"], ["b"]] * 3, lambda a, b: [a, b] * 3),
    "taxonomy": (E.TaxonomyClassifier, ROWS, lambda a, b: [a, a, b, b, a, b]),
    "sequences": (E.SequenceLabeller, SENTENCES, lambda a, b: [[a, b], [b]]),
    "graphs": (E.GraphLabeller, [GRAPH], lambda a, b: [[a, b]]),
    "named nodes": (E.GraphLabeller, [NAMED], lambda a, b: [{"y": b, "x": a}]),
}
"""Estimator, X, and y of two labels."""


@pytest.mark.parametrize("case", OF_LABELS)
def test_labels_of_another_kind_are_refused_and_unseen_ones_count_as_wrong(case) -> None:
    kind, X, y = OF_LABELS[case]
    with refused("is 'N', where others are such as 0: numbers stand besi"):
        kind().fit(X, y(0, "N"))
    model = kind(C=10.0, **({"plans": True} if kind is E.GraphLabeller else {})).fit(X, y(0, 1))
    whole = model.score(X, y(0, 1))
    with refused("y has the label '0', but training had numbers such as 0"):
        model.score(X, y("0", "1"))
    with pytest.warns(UnseenLabels, match=r"1 distinct, most often 7\): none of them can be pred"):
        assert model.score(X, y(0, 7)) < whole


def test_what_is_compared_is_named_by_its_parts() -> None:
    labeller = E.GraphLabeller(C=10.0, plans=True).fit([NAMED], [[0, 1]])
    assert labeller.score([NAMED], [[0, 1]]) == labeller.score([NAMED], [{"x": 0, "y": 1}]) == 1
    refused("these are not the parts of X", labeller.score, [NAMED], [{"x": 0, "z": 1}])


def test_a_text_is_no_list_of_labels() -> None:
    message = r"\[0\] must be a list of labels \(of a text make one: text.split\(\), .* got 'NV'"
    refused("y" + message, lambda: E.SequenceLabeller().fit(SENTENCES, ["NV", "N"]))
    refused("labels" + message, js.chains.prepare, SENTENCES, ["NV", "N"])
    refused("labels" + message, js.graphs.prepare, [GRAPH], ["NV"])
    with refused("y" + message):
        E.SequenceLabeller(C=1.0).fit(SENTENCES, [["N", "V"], ["V"]]).score(SENTENCES, ["NV", "N"])


def test_a_parser_counts_the_tokens_that_it_does_not_know() -> None:
    parser = E.TreeParser(C=1.0).fit([TREE], [TREE])
    with pytest.warns(UnseenFeatures, match=r"1 in all, first 'XX' in sentences\[1\]\): 1 of 2 s"):
        found = parser.predict([["NN", "VB"], ["XX", "VB"]])
    assert found[0] is not None and found[1] is None


def test_scores_of_other_sets_and_pairs_are_refused() -> None:
    sets = E.MultiLabelClassifier(C=1.0).fit(ROWS, (ROWS > 0).astype(int))
    with refused("y has 2 columns, that of training 3"):
        sets.score(ROWS, (ROWS[:, :2] > 0).astype(int))
    refused("MultiLabelBinarizer makes it", sets.score, ROWS, [["a"]] * 6)
    aligner = E.PairAligner(C=1.0).fit(PAIRS, PAIRS)
    refused(r"y\[1\] aligns .*'ATT'", aligner.score, PAIRS, [PAIRS[0], ("ATT", "AGT")])
