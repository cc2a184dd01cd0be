"""Stores from files of every format: what is written, told and refused."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import jaxstruct as js
from experiments.make_store import command
from experiments.make_store.command import Options

CONLL = "a N\nb V\n\nc N\nd\n\nb N\na V\n"
SVM = "1 1:2 3:.5\n-1 2:1\n0 4:nan\n-1\n"
TREES = "(S (NP (DT the) (NN dog))\n  (VP (VB barks)))\n(S (NP (DT a)\n(S (NN x) (VB y))\n"


def made(path, **options):
    return command.run(Options((str(path),), f"{path}.store", progress=False, **options))


def test_columns_of_tokens(tmp_path, capsys) -> None:
    """Packed or not, one file or several, are the same store."""
    (tmp_path / "a.conll").write_text(CONLL)
    (tmp_path / "b.conll.gz").write_bytes(gzip.compress(CONLL.encode()))
    run = made(tmp_path / "a.conll", columns=("word",))
    assert (run.written.examples, run.written.bad) == (2, 1)
    report = (tmp_path / "a.conll.store.bad.tsv").read_text()
    assert report == f"{tmp_path / 'a.conll'}\t5\thas 1 columns, expected 2\n"
    assert "bad records" in capsys.readouterr().out
    store = js.open_store(run.written.folder, check=True)
    sequences = [[{"word": "a"}, {"word": "b"}], [{"word": "b"}, {"word": "a"}]]
    assert store.encoding == js.chains.prepare(sequences, [["N", "V"], ["N", "V"]]).encoding
    both = Options(
        (str(tmp_path / "a.conll"), str(tmp_path / "b.conll.gz")), str(tmp_path / "both"),
        columns=("word",), progress=False,
    )  # fmt: skip
    assert command.run(both).written.examples == 4
    assert len((tmp_path / "both.bad.tsv").read_text().splitlines()) == 2


def test_rows_of_svmlight(tmp_path) -> None:
    (tmp_path / "b.svm").write_text(SVM)
    run = made(tmp_path / "b.svm", features=6)
    store = js.open_store(run.written.folder)
    assert (len(store), run.written.bad) == (3, 1)
    assert store.encoding.features.number_of_features == 7 and store.outputs.tolist() == [1, 0, 0]


def test_bracketed_trees_are_told_of_once(tmp_path) -> None:
    (tmp_path / "c.mrg").write_text(TREES)
    for words in (False, True):
        run = made(tmp_path / "c.mrg", read_words=words)
        assert (run.written.examples, run.written.bad) == (2, 1)
        store = js.open_store(run.written.folder)
        assert (store.encoding.grammar.unknown_words is not None) == words
        np.testing.assert_array_equal(store.inputs.length, [3, 2])
        (run.written.folder).rename(tmp_path / f"done_{words}")


def test_what_does_not_fit_is_refused(tmp_path) -> None:
    (tmp_path / "a.txt").write_text(CONLL)
    (tmp_path / "a.svm").write_text("x")
    for inputs, options, match in (
        ((), {}, "name files"),
        (("a.txt",), {}, "tell no one format"),
        (("a.txt", "a.svm"), {}, "tell no one format"),
        (("a.svm",), {"output": str(tmp_path)}, "is there already"),
        (("a.svm",), {}, "the label \\['x'\\] alone"),
        (("a.svm",), {"min_count": 0}, "min_count"),
    ):
        named = tuple(str(tmp_path / name) for name in inputs)
        given = Options(named, str(tmp_path / "o"), progress=False)
        with pytest.raises(ValueError, match=match):
            command.run(given._replace(**options))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        made(tmp_path / "absent.conll")
    assert not (tmp_path / "o").exists()
