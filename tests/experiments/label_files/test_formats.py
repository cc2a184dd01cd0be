"""What lines mean as records of each output type, and what is written in their place."""

from __future__ import annotations

import json

import numpy as np

from experiments.label_files import formats
from experiments.label_files.formats import FORMATS, NOTHING, Item, Reading
from experiments.lib.reading import Line
from jaxstruct.data.bracketing import read_tree
from jaxstruct.models import BadRecord
from tests.experiments.label_files.cases import model_of
from tests.lib.refusals import refused


def read(format: str, text: str, output_type: str = "multiclass", **options) -> list[Item]:
    lines = [Line(i, one) for i, one in enumerate(text.split("\n"), 1)]
    return list(FORMATS[format].read(Reading(model_of(output_type), **options), lines))


def written(format: str, item: Item, predicted, output_type: str = "multiclass", **options) -> str:
    return FORMATS[format].write(Reading(model_of(output_type), **options), item, predicted)


def reasons(items: list[Item]) -> list[str | None]:
    return [one.record.reason if isinstance(one.record, BadRecord) else None for one in items]


def test_json_lines_are_records_as_they_stand() -> None:
    items = read("jsonl", '["a", "b"]\n\n{"n": 1.5}\n[1\nnull\n' + "[" * 100_000)
    assert [one.record for one in items[:3]] == [["a", "b"], NOTHING, {"n": 1.5}]
    assert [one.number for one in items] == [1, 2, 3, 4, 5, 6]
    assert reasons(items)[3].startswith("no JSON: ") and "null" in reasons(items)[4]
    assert reasons(items)[5]


def test_json_may_hold_the_record_in_a_field() -> None:
    text = '{"id": 7, "row": ["a"]}\n{"id": 8}\n[1]'
    items = read("jsonl", text, field="row")
    assert items[0].record == ["a"] and all("the field 'row'" in one for one in reasons(items)[1:])
    shown = [written("jsonl", item, label, field="row")
             for item, label in zip(items, ["u", None, None], strict=True)]  # fmt: skip
    assert list(map(json.loads, shown)) == [
        {"id": 7, "row": ["a"], "predicted": "u"}, {"id": 8, "predicted": None},
        {"predicted": None},
    ]  # fmt: skip


def test_json_graphs_are_objects_or_lists() -> None:
    text = '{"nodes": {"p": ["f"]}, "edges": []}\n[{"p": ["f"]}, [["p", "p"]]]\n{"nodes": 1}'
    items = read("jsonl", text, "graph_labelling")
    assert items[0].record == ({"p": ["f"]}, [], None)
    assert items[1].record == [{"p": ["f"]}, [["p", "p"]]]
    assert "expected nodes, edges" in reasons(items)[2]


CONLL = "Rex NN\nbarks VB\n\n-DOCSTART- X\ncats\tNN\n\n"


def test_columns_are_sentences_and_what_stands_between() -> None:
    items = read("conll", CONLL, "chain")
    assert [one.record for one in items] == [
        [["Rex", "NN"], ["barks", "VB"]], NOTHING, NOTHING, [["cats", "NN"]], NOTHING, NOTHING,
    ]  # fmt: skip
    assert [one.number for one in items] == [1, 3, 4, 5, 6, 7]
    assert "\n".join(one.text for one in items) == CONLL
    assert written("conll", items[0], ["A", "B"], "chain") == "Rex NN A\nbarks VB B"
    assert written("conll", items[3], ["A"], "chain") == "cats\tNN\tA"
    assert written("conll", items[0], None, "chain") == "Rex NN _\nbarks VB _"


def test_columns_may_have_names_and_a_label() -> None:
    items = read("conll", "Rex x NN B\n\nRex x NN", "chain", columns=("word", "_", "tag"),
                 labelled=True)  # fmt: skip
    assert items[0].record == [{"word": "Rex", "tag": "NN"}]
    assert reasons(items)[2] == "line 3 has 3 columns, expected 4"
    assert read("conll", "Rex x O", "chain", labelled=True)[0].record == [["Rex", "x"]]


def test_a_file_of_one_sentence_is_not_held(monkeypatch) -> None:
    monkeypatch.setattr(formats, "MOST_TOKENS", 3)
    text = "a\nb\nc\nd\n\ne\nf"
    items = read("conll", text, "chain")
    assert [one.text for one in items] == ["a\nb\nc", "d", "", "e\nf"]
    assert [reason is None for reason in reasons(items)] == [False, False, True, True]


def test_lines_that_cannot_be_read_make_their_sentence_bad() -> None:
    lines = [Line(1, "a"), Line(2, "b", "is odd"), Line(3, ""), Line(4, "c")]
    items = list(FORMATS["conll"].read(Reading(model_of("chain")), lines))
    assert reasons(items) == ["line 2 is odd", None, None] and items[0].text == "a\nb"
    items = list(FORMATS["jsonl"].read(Reading(model_of("chain")), lines[1:2]))
    assert reasons(items) == ["is odd"]


def test_svmlight_rows_are_of_the_models_kind() -> None:
    text = "1 1:0.5 3:2 # c\n2:1\n-1 qid:3\n1 0:1\n1 2:1 2:1\n1 x\n1 1:nan"
    named = read("svmlight", text)
    assert [one.record for one in named[:3]] == [{"1": 0.5, "3": 2.0}, {"2": 1.0}, {}]
    assert [reason is None for reason in reasons(named)] == [True] * 3 + [False] * 4
    dense = read("svmlight", text + "\n1 4:1", "dense")
    np.testing.assert_array_equal(dense[0].record, np.array([0.5, 0, 2], np.float32))
    assert dense[0].record.dtype == np.float32 and "the model has 3 columns" in reasons(dense)[-1]
    zero = read("svmlight", "1 0:1", "dense", zero_based=True)
    np.testing.assert_array_equal(zero[0].record, [1, 0, 0])


def test_words_pairs_and_brackets() -> None:
    assert read("words", "a  b\n")[0].record == ["a", "b"]
    assert read("words", "a b", "chain")[0].record == [["a"], ["b"]]
    assert read("brackets", "(S (A a))", "weighted_grammar")[0].record == "(S (A a))"
    pairs = read("pairs", "AC\tGT\nAC", "pairwise_alignment")
    assert pairs[0].record == ("AC", "GT") and "expected 2" in reasons(pairs)[1]


def test_lines_are_labels_trees_or_rows() -> None:
    item = Item(1, "x", None)
    assert written("words", item, "u") == "u" and written("words", item, None) == ""
    assert written("words", item, ["A", "B"], "chain") == "A B"
    assert written("words", item, {"v", "u"}, "multi_label") == "u\tv"
    assert written("pairs", item, ("A-", "AC"), "pairwise_alignment") == "A-\tAC"
    tree = read_tree("(S (A a) (B b))")
    assert written("brackets", item, tree, "weighted_grammar") == "(S (A a) (B b))"


def test_a_format_is_told_by_the_end_of_a_name_or_by_the_model() -> None:
    chain, rows, pairs = map(model_of, ("chain", "multiclass", "pairwise_alignment"))
    for name, model, asked, found in (
        ("A.CONLL.gz", chain, "auto", "conll"), ("-", chain, "auto", "conll"),
        ("a.svm", rows, "auto", "svmlight"), ("a.x", rows, "auto", "jsonl"),
        ("a", pairs, "auto", "pairs"), ("a.svm", rows, "words", "words"),
    ):  # fmt: skip
        assert formats.format_of(name, model, asked) == found
    wrong = "a.svm is read as svmlight.*--format=conll or jsonl or w"
    refused(wrong, formats.format_of, "a.svm", chain, "auto")
    wrong = "read as conll, which does not serve a model of multicl"
    refused(wrong, formats.format_of, "a.conll", rows, "auto")


def test_labels_that_lines_cannot_hold_are_refused() -> None:
    formats.check_writable(Reading(model_of("chain")), "jsonl")
    wrong = r"label \('B', 1\) of the model cannot be written as con"
    refused(wrong, formats.check_writable, Reading(model_of("chain")), "conll")
    formats.check_writable(Reading(model_of("multi_label")), "words")
