"""Generated data: what was asked for, the same again, and learned by the models."""

from __future__ import annotations

import itertools
import warnings

import jaxstruct as js
from experiments.bulk_speed import data


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
