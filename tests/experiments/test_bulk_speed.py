"""The benchmark of prediction in bulk runs, and its rates are those of its times."""

from __future__ import annotations

import itertools
import warnings

import pytest

import jaxstruct as js
from experiments.bulk_speed import command, data
from experiments.bulk_speed.part import measured
from tests.experiments.label_files.cases import saved
from tests.experiments.scripts import kept_settings, strict_json


def test_records_are_as_many_as_asked_for_and_the_same_again() -> None:
    for make in (data.sentences, data.texts):
        found = list(make(3, 1500))
        assert len(found) == 1500 and found == list(make(3, 1500))
        assert found[:20] != list(itertools.islice(make(4, 1500), 20))
    lengths = [len(one) for one in data.sentences(0, 1500)]
    assert min(lengths) == 5 and max(lengths) == 39
    assert {len(one) for one in data.texts(0, 10)} == {12}


def test_files_hold_what_is_generated(tmp_path) -> None:
    lines = data.write_texts(tmp_path / "t", 1, 7).read_text().splitlines()
    assert [line.split() for line in lines] == list(data.texts(1, 7))
    blocks = data.write_sentences(tmp_path / "s", 1, 7).read_text().split("\n\n")
    read = [[line.split("\t") for line in block.split("\n")] for block in blocks[:-1]]
    assert read == list(data.sentences(1, 7)) and blocks[-1] == ""


def test_a_model_learns_its_classes(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(data, "TRAINED", 100)
    model = js.load(data.write_classifier(tmp_path / "m", 0))
    new = list(data.texts(1, 300))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", js.core.feature_encoding.UnseenFeatures)
        predicted = model.predict(new)
    right = [a == data.class_of(b) for a, b in zip(predicted, new, strict=True)]
    assert sum(right) > 60  # one in twenty by chance


def test_one_file_is_measured(tmp_path, capsys) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('["word=x"]\n{\n')
    with kept_settings():
        found = measured(saved(tmp_path, "multiclass"), str(source), str(tmp_path), 1)
    assert (found["records"], found["bad"]) == (2, 1) and found["memory"] > 1e7
    assert found["seconds"] >= found["compiling"] >= 0 and found["working"] > 0
    printed = capsys.readouterr()
    assert printed.out == "" and "records a second" in printed.err


@pytest.mark.thorough
def test_small_run(tmp_path) -> None:
    options = command.Options(
        sentences=0, texts=40, devices=("2",), output=str(tmp_path), progress=False,
        compilation_cache=False,
    )  # fmt: skip
    with kept_settings():
        rows = command.run(options).numbers["rows"]
    assert [(row["task"], row["records"], row["devices"], row["bad"]) for row in rows] == [
        ("texts", 10, 2, 0), ("texts", 40, 2, 0),
    ]  # fmt: skip
    for row in rows:
        assert row["rate"] == pytest.approx(row["records"] / (row["seconds"] - row["compiling"]))
        assert row["working"] > 0 and row["memory"] > 1e7
    assert strict_json(tmp_path / "bulk_speed.json")["rows"] == rows
