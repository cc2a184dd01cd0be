"""Segments as people hold them: triples, IOB2, phrases, what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.tables import Matrix, Ranking
from tests.lib.refusals import refused
from tests.segments.cases import names, tagged

prepare = js.segments.prepare
X, SPANS = names()
IOB2 = tagged(X, SPANS)


def test_triples_and_labels_are_the_same_codes():
    of_spans, of_labels = prepare(X, SPANS), prepare(X, IOB2)
    np.testing.assert_array_equal(of_spans.outputs.rows, of_labels.outputs.rows)
    encoding = of_spans.encoding
    assert encoding.codec.classes == ("O", "LOC", "PER")
    assert (encoding.longest, encoding.outside) == (3, True)
    # Ann Lee likes New York again: begin and inside of class 2, outside, of class 1, outside
    np.testing.assert_array_equal(of_spans.outputs[0], [5, 4, 1, 3, 2, 1])
    assert encoding.decode(of_spans.outputs) == SPANS
    empty = encoding.outputs([[], SPANS[0]], [0, 6])
    assert encoding.decode(empty) == [[], SPANS[0]]
    assert of_labels.encoding.decode(of_labels.outputs) == IOB2


def test_segments_of_all_tokens_have_no_outside():
    data = prepare([[["a"], ["b"], ["c"]], [["d"]]], [[(0, 2, 7), (2, 3, 9)], [(0, 1, 7)]])
    assert data.encoding.codec.classes == (7, 9) and not data.encoding.outside
    np.testing.assert_array_equal(data.outputs[0], [1, 0, 3])
    assert data.encoding.decode(data.outputs) == [[(0, 2, 7), (2, 3, 9)], [(0, 1, 7)]]
    plain = prepare([[["a"], ["b"], ["c"]]], [["B", "I", "B"]])
    assert plain.encoding.decode(plain.outputs) == [["B", "I", "B"]]


def test_an_inside_that_carries_nothing_on_begins_a_segment():
    """And a warning says so; none where labels are of IOB2, IOBES or BILOU."""
    words = r"segments\[0\] has the label 'I-X' at token 1, .* begins one \(2 such labels"
    with pytest.warns(UserWarning, match=words):
        data = prepare([[["a"], ["b"], ["c"]]], [["O", "I-X", "I-Y"]])
    assert data.encoding.decode(data.outputs) == [["O", "B-X", "B-Y"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = prepare([[["a"]] * 4], [["B-X", "E-X", "S-X", "U-Y"]])
    assert data.encoding.decode(data.outputs) == [["B-X", "I-X", "B-X", "B-Y"]]


def test_phrases_are_the_texts_of_segments():
    encoding = prepare(X, SPANS, phrases=["word"], phrase_count=4).encoding
    names = encoding.phrase_names
    assert names == ("word=Ann Lee", "word=Bob", "word=New York", "word=Paris",
                     "word=Rio de Janeiro")  # fmt: skip
    assert encoding.phrase_length == 3
    new = [{"word": word, "upper": True} for word in ("New", "York", "Paris")]
    (table,) = encoding.inputs([new]).phrases  # [T, M, P]
    expected = np.full((3, 3, 1), len(names))
    expected[0, 1], expected[2, 0] = names.index("word=New York"), names.index("word=Paris")
    np.testing.assert_array_equal(table, expected)
    assert len(prepare(X, SPANS, phrases=["word"], phrase_count=6).encoding.phrase_names) == 2


def test_tables_name_each_weight():
    """With a window; of all tokens of a segment, of its first and last one, of it as a whole."""
    encoding = prepare(X, SPANS, phrases=["word"], phrase_count=4).encoding
    features, phrases = encoding.features.names, encoding.phrase_names
    shapes = encoding.problem(window=1, start_stop=True).initial_weights
    w = {name: np.zeros(leaf.shape) for name, leaf in shapes.items()}
    w["tokens"][2 * len(features) + 1, 3 + 2] = 1.0  # the next token, of a first one, PER
    w["tokens"][len(features), 6 + 1], w["phrases"][3, 1], w["lengths"][2, 2] = 2.0, 3.0, 4.0
    w["stop"][0], w["transitions"][1, 0] = 5.0, 6.0
    tables = encoding.tables(w, {"window": 1}, 2)
    found = {table.title: dict(zip(table.names, table.weights.tolist(), strict=True))
             for table in tables if isinstance(table, Ranking)}  # fmt: skip
    assert {title: own for title, own in found.items() if own} == {
        "features of PER": {f"first: {features[1]} [+1]": 1}, "lengths of PER": {"3": 4},
        "features of LOC": {f"last: {features[0]}": 2}, "stop of a sequence": {"O": 5},
        "whole segments of LOC": {phrases[3]: 3},
    }  # fmt: skip
    assert len(found) == 3 + 3 + 2 + 2 and "lengths of O" not in found
    (matrix,) = (table for table in tables if isinstance(table, Matrix))
    assert matrix.values[1, 0] == 6 and matrix.rows == encoding.codec.classes


def test_refusals_name_the_place():
    refused("segments must be of n = 12 sequences, got 11", prepare, X, SPANS[1:])
    refused(r"segments\[0\] has 5 labels, but its sequence has 6", prepare, X[:1], [IOB2[0][1:]])
    refused(r"segments\[0\] is of .*IOB2", prepare, X[:1], [["B-X", "x", "O", "O", "O", "O"]])
    refused("got 'PER', .*: write B-type for the first", prepare, [[["a"]]], [["PER"]])
    refused(r"overlap: \(0, 2, 'X'\) and \(1, 3, 'Y'\)", prepare, X[:1], [[(0, 2, "X"),
            (1, 3, "Y")]])  # fmt: skip
    refused(r"segment \(5, 7, 'X'\) of a sequence of 6 tokens", prepare, X[:1], [[(5, 7, "X")]])
    refused(r"expected triples", prepare, X[:1], [[(5, 7, "X", 1)]])
    refused(r"segment \(5, 7\) of a sequence of 6 tokens", prepare, X[:1], [[(5, 7)]])
    refused('"O" is the label of tokens in no segment', prepare, X[:1], [[(0, 1, "O")]])
    refused("has no segment: there is nothing to learn", prepare, X[:1], [[]])
    refused("longest is 2: raise it", prepare, X, SPANS, longest=2)
    refused(r"has no text of that name", prepare, X, SPANS, phrases=["upper"])
    refused(r"tokens must be mappings", prepare, [[["a"]]], [[(0, 1, "X")]], phrases=["word"])
    with refused(r"segments\[0\] leaves token 1 in no segment"):
        prepare([[["a"], ["b"]]], [[(0, 1, "X")]], classes=["X"])
    encoding = prepare(X, SPANS).encoding
    with refused(r"segments\[0\]: label\[0\]: 'ORG' is none of .*have it among the classes of"):
        encoding.outputs([[(0, 1, "ORG")]], [2])
