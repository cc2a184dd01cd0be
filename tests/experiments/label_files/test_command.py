"""experiments.label_files: the command as people call it, on a file of every output type."""

from __future__ import annotations

import gzip
import io
import json
import sys

import numpy as np
import pytest

import jaxstruct as js
from experiments.label_files import command
from experiments.label_files.command import Options
from experiments.label_files.formats import plain
from experiments.lib.common import Stopped
from tests.experiments.label_files.cases import labelled, model_of, saved
from tests.lib.refusals import refused

JSON = {
    "multiclass": [{"word": "x", "n": 2.0}, ["word=y"]],
    "dense": [[1, 0, 0.5], [0, 1, 0]],
    "chain": [[["a", "b"], {"b": 2.0}], [["c"]]],
    "weighted_grammar": [["the", "dog", "sees", "her"], "(S (DT a) (NN cat))"],
    "pairwise_alignment": [["ACGT", "ACT"], ["TT", "GGT"]],
    "graph_labelling": [
        {"nodes": {"p": ["f"], "q": []}, "edges": [["p", "q"]], "edge_features": [["e"]]},
        [{"s": ["g"]}, []],
    ],
    "multi_label": [{"caps": True}, ["word=x"]],
    "candidates": [{"good": {"f": 1.0}, "bad": {"g": 1.0}}, {"z": ["h"]}],
    "segments": [[["a", "b"], ["b"]], [["b"]]],
    "dependency_parser": [[{"word": "a"}, {"word": "b"}], [{"word": "b"}]],
    "assignment": [[[["f"], ["g"]], [["g"], ["f"]]], [[["f"]]]],
    "document_ranking": [[["f"], ["g"]], [["g"]]],
    "sample_labels": [[["f"], ["g"]], [["g"]]],
}
"""Two records of each model."""


@pytest.mark.parametrize("name", JSON)
def test_json_lines_serve_every_wing(tmp_path, capsys, name: str) -> None:
    one, two = JSON[name]
    source = tmp_path / "new.jsonl"
    source.write_text("\n".join([json.dumps(one), "{", json.dumps(two), ""]))
    run = labelled(saved(tmp_path, name), source)
    found = [json.loads(line) for line in (tmp_path / "new.labelled.jsonl").open()]
    records = [tuple(one.values()) if name == "graph_labelling" else one, two]
    predicted = js.predict_stream(model_of(name), records)  # as `predict`: see `test_stream`
    wanted = [None if isinstance(one, js.models.BadRecord) else json.loads(json.dumps(plain(one)))
              for one in predicted]  # fmt: skip
    assert found == [wanted[0], None, wanted[1]]
    bad = 1 + wanted.count(None)  # those have no output
    assert (run.counts.records, run.counts.bad) == (3, bad)
    report = (tmp_path / "new.labelled.jsonl.bad.tsv").read_text().splitlines()
    reasons = dict(line.split("\t") for line in report[1:])
    assert report[0] == "line\treason" and len(reasons) == bad
    assert reasons.pop("2").startswith("no JSON")
    assert all("no output" in one for one in reasons.values())
    printed = capsys.readouterr()
    assert "records a second" in printed.out and f"{bad} of 3 records are bad" in printed.err


@pytest.fixture(scope="module")
def tagger(tmp_path_factory) -> str:
    """A model whose labels a column can hold."""
    sentences, tags = [[["dog", "low"], ["Rex"]], [["Rex"]]], [["O", "NAME"], ["NAME"]]
    data = js.chains.prepare(sentences, tags)
    w = {name: np.zeros(leaf.shape) for name, leaf in data.problem.initial_weights.items()}
    names = data.encoding.features.names
    w["emissions"][[names.index("dog"), names.index("low")], 1] = 1.0  # all others are names
    model = js.trained(data, {name: np.float32(leaf) for name, leaf in w.items()})
    return str(js.save(model, tmp_path_factory.mktemp("model") / "tagger.model"))


COLUMNS = "Rex x\ndog low\n\nRex\n\n"
TAGGED = "Rex x NAME\ndog low O\n\nRex NAME\n\n"


def test_columns_plain_and_packed_go_to_a_folder_and_are_passed_over(tmp_path, tagger) -> None:
    plain_file, packed = tmp_path / "a.conll", tmp_path / "b.bio.gz"
    plain_file.write_text(COLUMNS)
    packed.write_bytes(gzip.compress(COLUMNS.encode() * 3))
    out = str(tmp_path / "out")
    run = labelled(tagger, plain_file, packed, output=out)
    assert (tmp_path / "out" / "a.labelled.conll").read_text() == TAGGED
    assert (tmp_path / "out" / "b.labelled.bio").read_text() == TAGGED * 3
    assert run.counts == (8, 0) and not run.passed
    run = labelled(tagger, plain_file, packed, output=out, resume=True)
    assert run.counts == (0, 0) and len(run.passed) == 2
    plain_file.write_text(COLUMNS * 2)
    run = labelled(tagger, plain_file, packed, output=out, resume=True)
    assert [job.source for job in run.passed] == [str(packed)] and run.counts == (4, 0)
    run = labelled(tagger, plain_file, packed, output=out, resume=True, labelled=True)
    assert not run.passed
    assert labelled(tagger, plain_file, packed, output=out).counts.records == 10


def test_standard_input_to_standard_output(tmp_path, tagger, monkeypatch, capsysbinary) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"dog Rex\nb\xff\n\nRex\n")))
    run = labelled(tagger, "-", output="-", format="words")
    printed = capsysbinary.readouterr()
    assert printed.out == b"O NAME\n\n\nNAME\n" and run.counts == (3, 1)
    assert b"-:2: byte 0xff is not UTF-8" in printed.err and b"records a second" in printed.err


def test_other_formats_of_lines(tmp_path) -> None:
    trees, pairs = tmp_path / "t.mrg", tmp_path / "p.tsv"
    trees.write_text("(S (DT the) (NN dog))\n(S (DT the\n")
    pairs.write_text("ACGT\tACT\n")
    labelled(saved(tmp_path, "weighted_grammar"), trees)
    lines = (tmp_path / "t.labelled.mrg").read_text().split("\n")
    (tree,) = model_of("weighted_grammar").predict([["the", "dog"]])
    assert lines == [js.trees.write_line(tree) if tree else "", "", ""]
    labelled(saved(tmp_path, "pairwise_alignment"), pairs)
    (rows,) = model_of("pairwise_alignment").predict([("ACGT", "ACT")])
    assert (tmp_path / "p.labelled.tsv").read_text() == "\t".join(rows) + "\n"
    rows_file = tmp_path / "r.svm"
    rows_file.write_text("1 1:1\n0 3:1\n1 9:1\n")
    run = labelled(saved(tmp_path, "dense"), rows_file)
    one, two = model_of("dense").predict([[1.0, 0, 0], [0, 0, 1.0]])
    assert (tmp_path / "r.labelled.txt").read_text() == f"{one}\n{two}\n\n"
    assert run.counts == (3, 1)


def test_ctrl_c_keeps_whole_files_and_says_how_to_go_on(tmp_path, tagger, monkeypatch) -> None:
    first, second = tmp_path / "a.conll", tmp_path / "b.conll"
    first.write_text(COLUMNS)
    second.write_text(COLUMNS * 600)

    def pressed() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.label_files.labelling.raise_noted_interrupt", pressed)
    with pytest.raises(Stopped, match="a.labelled.conll; --resume labels the others"):
        labelled(tagger, first, second)
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob("b.labelled*"))


WRONG = {
    "would both be written to": {"input": ("a.conll", "a.conll")},
    "is the labelled file of another": {"input": ("a.conll", "a.labelled.conll")},
    "standard input has no folder; give --output=- or": {"input": ("-",)},
    "does not serve a model of chain": {"format": "pairs"},
    "devices: got 999, but jax has": {"devices": 999},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_options_are_refused(tmp_path, tagger, monkeypatch, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.conll", "a.labelled.conll"):
        (tmp_path / name).write_text(COLUMNS)
    options = {"input": ("a.conll",), **WRONG[message]}
    refused(message, labelled, tagger, *options.pop("input"), **options)
    assert (tmp_path / "a.labelled.conll").read_text() == COLUMNS


def test_the_exit_code_tells_where_every_record_was_bad(tmp_path, tagger) -> None:
    source = tmp_path / "a.jsonl"
    options = Options(model=tagger, input=(str(source),), compilation_cache=False, progress=True)
    for text, code in (("5\n{\n", 1), ('5\n[["Rex"]]\n', 0), ("", 0)):
        source.write_text(text)
        assert command.main(options) == code
