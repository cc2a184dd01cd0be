"""experiments.segments on a made-up corpus."""

from __future__ import annotations

from functools import partial

import pytest

from experiments import segments as command
from experiments.corpora.conll2002 import Conll2002
from jaxstruct.data.conll import Sentence
from tests.estimators.cases import SEGMENTS
from tests.experiments.scripts import QUIET, strict_json
from tests.segments.cases import names, tagged


def corpus():
    sentences, spans = names()
    return tuple(
        Sentence(tuple(token["word"] for token in one), (), tuple(labels))
        for one, labels in zip(sentences, tagged(sentences, spans), strict=True)
    )


@pytest.mark.thorough
def test_a_chain_and_segments_find_the_names(tmp_path, monkeypatch):
    """With the features of the tests of estimators, whose programs serve the segments."""
    made, prepare = Conll2002(*[corpus()] * 3), command.segments.prepare
    monkeypatch.setattr(command, "load_conll2002", lambda *_: made)
    monkeypatch.setattr(command, "token_mappings", lambda _: names()[0])
    monkeypatch.setattr(command, "PHRASES", SEGMENTS["phrases"])
    monkeypatch.setattr(command.segments, "prepare", partial(prepare, **SEGMENTS))
    methods = ("chain", "phrases")
    outcome = command.run(
        command.Options(output=str(tmp_path), methods=methods, c_over_n=0.1, **QUIET)
    )
    rows = outcome.numbers["rows"]
    assert tuple(row["method"] for row in rows) == methods
    assert all(row["testa_f1"] == row["testb_f1"] == 100 for row in rows)
    (path,) = (path for path in outcome.files if path.name == "segments.plot.json")
    shown = strict_json(path)["labels"]
    assert list(shown) == ["true", "chain", "phrases"] and shown["true"] == shown["phrases"]
    assert (tmp_path / "segments.csv").is_file() and (tmp_path / "segments.png").is_file()
