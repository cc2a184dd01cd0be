"""The model file."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.tasks import token_model as models
from experiments.tasks.news import label_strings, sparse_corpus
from jaxstruct import predict
from jaxstruct.core import archive
from tests.experiments.named_entities.cases import FEATURES, trained


def test_a_model_round_trips_and_its_labels_keep_the_constraints(tmp_path, sentences):
    model = trained(sentences, constrained=True)
    back = models.load_model(models.save_model(tmp_path / "m", model))
    assert back._replace(weights=None) == model._replace(weights=None)
    assert all((back.weights[name] == leaf).all() for name, leaf in model.weights.items())
    labels = models.label(back, sentences)
    assert labels == models.label(model, sentences)
    for sequence in labels:
        for before, after in zip(["O", *sequence], sequence, strict=False):
            assert after[0] != "I" or (before != "O" and before[1:] == after[1:])
    problem = models.problem_of(model.index, model.names, False, "float32")
    corpus = sparse_corpus(sentences, model.names, model.index, FEATURES)
    free = predict(problem, model.weights, corpus.inputs)
    assert label_strings(free, model.names) != labels


@pytest.mark.usefixtures("x64")
def test_a_model_of_float64_keeps_every_digit(tmp_path, sentences):
    model = trained(sentences, dtype="float64")
    back = models.load_model(models.save_model(tmp_path / "m", model))
    assert back.dtype == "float64" and back.weights["emissions"].dtype == np.float64
    assert all((back.weights[name] == leaf).all() for name, leaf in model.weights.items())


@pytest.mark.parametrize(
    "change, message",
    [
        (None, "does not end in its digest"),
        ({"format": "other"}, "is of no format 'jaxstruct-token-labeller'"),
        ({"version": 3}, "is of version 3 of the format, this jaxstruct reads 2"),
        ({"labels": None}, "lacks a proper 'labels'"),
        ({"labels": ["O"]}, "does not hold together|weights of other shapes"),
        ({"features": {"colour": 1}}, "does not hold together"),
        ({"dtype": "float64"}, "are float64; start with --x64"),
        ({"dtype": "int8"}, "weights of the dtype 'int8'"),
    ],
)
def test_files_that_are_no_model_are_refused(tmp_path, sentences, change, message):
    path = models.save_model(tmp_path / "m", trained(sentences))
    if change is None:
        path.write_bytes(path.read_bytes()[:500])
    else:
        file = archive.Archive(models.SCHEMA, path)
        file.read()
        kept = {key: value for key, value in file.header.items() if key != "arrays"}
        archive.write(path, models.SCHEMA, kept | change, file.arrays)
    with pytest.raises(ValueError, match=message):
        models.load_model(path)


def test_a_failed_save_keeps_the_old_model(tmp_path, sentences, monkeypatch):
    model = trained(sentences)
    path = models.save_model(tmp_path / "m", model)
    before = path.read_bytes()
    monkeypatch.setattr(models.feature_index, "to_json", lambda index: "{")
    with pytest.raises(ValueError):
        models.save_model(path, model)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["m"]
    with pytest.raises(ValueError, match="is a folder"):
        models.save_model(tmp_path, model)
