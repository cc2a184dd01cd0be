"""What the lines of training files mean, and which of them are told as bad."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.label_files.reading import Line
from experiments.make_store import records
from experiments.make_store.records import Options


def read(parse, text, **options):
    told = []
    lines = [Line(i, one) for i, one in enumerate(text.split("\n"), 1)]
    found = list(parse(lines, Options(**options), lambda *pair: told.append(pair)))
    return found, told


def test_sentences_in_columns() -> None:
    text = "-DOCSTART- O\n\nMadrid NP B\nes V O\n\n\nx y\nalone\n\na\tb c\tI"
    found, told = read(records.sentences, text)
    assert found == [
        (3, [["Madrid", "NP"], ["es", "V"]], ["B", "O"]), (10, [["a", "b c"]], ["I"])
    ]  # fmt: skip
    assert told == [(8, "has 1 column, expected features and the label")]
    found, told = read(records.sentences, text, columns=("word", "_"))
    assert found == [(3, [{"word": "Madrid"}, {"word": "es"}], ["B", "O"]),
                     (10, [{"word": "a"}], ["I"])]  # fmt: skip
    assert told == [(7, "has 2 columns, expected 3")]


def test_a_sentence_without_end_is_none(monkeypatch) -> None:
    monkeypatch.setattr(records, "MOST_LINES", 3)
    found, told = read(records.sentences, "a N\n" * 9 + "\nb V\nc V\nd V")
    assert [place for place, *_ in found] == [11]
    assert told == [(1, "begins a sentence of more than 3 tokens")]


def test_rows_of_svmlight() -> None:
    text = "1 1:.5 3:2 # note\n\n-1\n+2 qid:4 2:1e-3\nspam 1:1"
    found, told = read(records.rows, text)
    assert not told and [label for *_, label in found] == [1, -1, 2, "spam"]
    assert [place for place, *_ in found] == [1, 3, 4, 5]
    columns, values = found[0][1]
    np.testing.assert_array_equal(columns, [0, 2])
    np.testing.assert_array_equal(values, np.array([0.5, 2], np.float32))
    assert read(records.rows, "1 0:1", zero_based=True)[0][0][1][0].tolist() == [0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 0:1", "indices that do not rise from 1"),
        ("1 2:1 2:1", "indices that do not rise"),
        ("1 a:1", "an index that is no integer"),
        ("1 1:1 2", "'2' is no index:value"),
        ("1 1:2:3", "'1:2:3' is no index:value"),
        ("1 1:nan", "not finite"),
        ("1 1:1e99", "not finite"),
        ("1:1 2:1", "expected a label"),
    ],
)
def test_rows_that_are_none(line, reason) -> None:
    found, ((number, told),) = read(records.rows, line)
    assert not found and number == 1 and reason in told


def test_trees_over_lines() -> None:
    text = "(S (A a)\n   (B b))\n\n( (S (A a) (B c)))\n(S (A a)\n(S (A b) (B d))\n)\n(S (A a)"
    found, told = read(records.trees, text)
    assert [place for place, _ in found] == [1, 4, 6]
    assert [place for place, _ in told] == [5, 7, 8]
    assert "ends inside" in told[0][1] and "closes nothing" in told[1][1]


def test_lines_with_faults_are_told_by_their_number() -> None:
    bad = Line(2, "b V", "byte 0xff is not UTF-8")
    for parse in (records.sentences, records.rows, records.trees):
        told = []
        assert not list(parse([bad], Options(), lambda *pair, told=told: told.append(pair)))
        assert told == [(2, "byte 0xff is not UTF-8")]
