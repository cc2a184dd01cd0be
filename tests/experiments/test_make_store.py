"""Stores from files of every format: what is written, reported and refused."""

from __future__ import annotations

import gzip

import numpy as np

import jaxstruct as js
from experiments import make_store as command
from experiments.lib.reading import Line
from experiments.make_store import Options, Reading
from tests.lib.refusals import refused


def read(parse, text, **options):
    reported = []
    lines = [Line(i, one) for i, one in enumerate(text.split("\n"), 1)]
    found = list(parse(lines, Reading(**options), lambda *pair: reported.append(pair)))
    return found, reported


def test_sentences_in_columns() -> None:
    text = "-DOCSTART- O\n\nMadrid NP B\nes V O\n\n\nx y\nalone\n\na\tb c\tI"
    found, reported = read(command.sentences, text)
    assert found == [
        (3, [["Madrid", "NP"], ["es", "V"]], ["B", "O"]), (10, [["a", "b c"]], ["I"])
    ]  # fmt: skip
    assert reported == [(8, "has 1 column, expected features and the label")]
    found, reported = read(command.sentences, text, columns=("word", "_"))
    assert found == [(3, [{"word": "Madrid"}, {"word": "es"}], ["B", "O"]),
                     (10, [{"word": "a"}], ["I"])]  # fmt: skip
    assert reported == [(7, "has 2 columns, expected 3")]


def test_a_sentence_without_end_is_none(monkeypatch) -> None:
    monkeypatch.setattr(command, "MOST_LINES", 3)
    found, reported = read(command.sentences, "a N\n" * 9 + "\nb V\nc V\nd V")
    assert [place for place, *_ in found] == [11]
    assert reported == [(1, "begins a sentence of more than 3 tokens")]


def test_lines_of_svmlight() -> None:
    text = "1 1:.5 3:2 # note\n\n-1\n+2 2:1e-3\nspam 1:1"
    found, reported = read(command.rows, text)
    assert not reported and [label for *_, label in found] == [1, -1, 2, "spam"]
    assert [place for place, *_ in found] == [1, 3, 4, 5]
    columns, values = found[0][1]
    np.testing.assert_array_equal(columns, [0, 2])
    np.testing.assert_array_equal(values, np.array([0.5, 2], np.float32))
    assert read(command.rows, "1 0:1", zero_based=True)[0][0][1][0].tolist() == [0]


def test_rows_that_are_none() -> None:
    for line, reason in (
        ("1 0:1", "indices that do not rise from 1"), ("1 2:1 2:1", "indices that do not rise"),
        ("1 a:1", "an index that is no integer"), ("1 1:1 2", "'2' is no index:value"),
        ("1 1:2:3", "'1:2:3' is no index:value"), ("1 1:nan", "not finite"),
        ("1 1:1e99", "not finite"), ("1:1 2:1", "expected a label"),
        ("1 qid:4 2:1", "has a qid, but a store of rows has no queries"),
    ):  # fmt: skip
        found, ((number, reported),) = read(command.rows, line)
        assert not found and number == 1 and reason in reported


def test_trees_over_lines() -> None:
    text = "(S (A a)\n   (B b))\n\n( (S (A a) (B c)))\n(S (A a)\n(S (A b) (B d))\n)\n(S (A a)"
    found, reported = read(command.trees, text)
    assert [place for place, _ in found] == [1, 4, 6]
    assert [place for place, _ in reported] == [5, 7, 8]
    assert "ends inside" in reported[0][1] and "closes nothing" in reported[1][1]


CONLL = "a N\nb V\n\nc N\nd\n\nb N\na V\n"
SVM = "1 1:2 3:.5\n-1 2:1\n0 4:nan\n-1\n"
TREES = "(S (NP (DT the) (NN dog))\n  (VP (VB barks)))\n(S (NP (DT a)\n(S (NN x) (VB y))\n"


def made(*paths, **options):
    given = {"input": tuple(map(str, paths)), "output": f"{paths[0]}.store", "progress": False}
    return command.run(Options(**(given | options)))


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
    paths, both = (tmp_path / "a.conll", tmp_path / "b.conll.gz"), str(tmp_path / "both")
    assert made(*paths, output=both, columns=("word",)).written.examples == 4
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
    files = {"a.txt": CONLL, "a.svm": "x", "empty.svm": "\n", "bad.conll": "a\n\nb\n"}
    files["comments.conll"] = "# a O\n\n# b O\n"
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for inputs, options, match in (
        ((), {}, "name files"),
        (("a.txt",), {}, "fit no single format"),
        (("a.txt", "a.svm"), {}, "fit no single format"),
        (("a.svm",), {"output": str(tmp_path)}, "is there already"),
        (("a.svm",), {}, "the label \\['x'\\] alone"),
        (("a.svm",), {"min_count": 0}, "min_count"),
        (("empty.svm",), {}, "no record came, .*no line of the files holds one"),
        (("comments.conll",), {}, "no record came, .*no line of the files holds one"),
        (("bad.conll",), {}, "2 records came and all were bad; .*bad.conll:1 has 1 column"),
    ):
        named = tuple(str(tmp_path / name) for name in inputs)
        given = Options(input=named, output=str(tmp_path / "o"), progress=False)
        refused(match, command.run, given.replace(**options))
    refused("there is no file", made, tmp_path / "absent.conll", error=FileNotFoundError)
    assert not (tmp_path / "o").exists()
