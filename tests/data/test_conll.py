"""CoNLL files: handmade ones of every habit, bad ones, and the round trip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jaxstruct.data.conll import Sentence, parse_conll, read_conll, write_conll
from jaxstruct.data.errors import MalformedFile
from tests.lib.refusals import refused

TWO = (
    Sentence(("La", "Coruña"), (("DA", "NC"),), ("B-LOC", "I-LOC")),
    Sentence(("!",), (("F",),), ("O",)),
)
TEXT = "La DA B-LOC\nCoruña NC I-LOC\n\n! F O\n\n"


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.rstrip("\n"),
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
        TEXT.replace(" ", "\t"),
        TEXT.replace(" ", " \t  "),
        "\ufeff" + TEXT,
        "\n \n\t\n" + TEXT.replace("\n\n", "\n  \n\n\n"),
        "".join(f"  {line} \n" for line in TEXT.split("\n")),
        "-DOCSTART- -DOCSTART- O\n" + TEXT,
        "-DOCSTART-\n\nLa DA B-LOC\nCoruña NC I-LOC\n-DOCSTART- -X- -X- O\n! F O",
    ],
)
def test_habits(text: str) -> None:
    """Line ends, blanks, tabs, byte order mark, empty lines, document lines: the same sentences."""
    assert parse_conll(text.encode(), "x") == TWO


@pytest.mark.smoke
def test_columns() -> None:
    """None or several between word and label; `tags` is the first of them."""
    plain = parse_conll(b"a B\nb O\n", "x")
    assert plain == (Sentence(("a", "b"), (), ("B", "O")),) and plain[0].tags == ()
    wide = parse_conll(b"a 1 2 B\nb 3 4 O\n", "x")
    assert wide == (Sentence(("a", "b"), (("1", "3"), ("2", "4")), ("B", "O")),)
    assert wide[0].tags == ("1", "3")


def test_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "new.txt"
    path.write_bytes(b"a N\nb V\n\nc N\n")
    first, second = read_conll(path, labelled=False)
    assert first == Sentence(("a", "b"), (("N", "V"),), ()) and second.labels == ()
    assert parse_conll(b"a\nb\n", "x", labelled=False) == (Sentence(("a", "b"), (), ()),)


def test_odd_words_stay_whole() -> None:
    """Characters that Python counts as white space or line ends, but CoNLL does not."""
    words = ("New\u00a0York", "a\u2028b", "c\x85d", "#", "\u3000")
    text = "".join(f"{word} O\n" for word in words)
    assert parse_conll(text.encode(), "x") == (Sentence(words, (), ("O",) * 5),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# id 1\tdomain=en\na O\n\n# id 2\tdomain=en\n# more\nb O\n", [("a",), ("b",)]),
        ("# one\n\n# two\n-DOCSTART- O\n# three\na O\n", [("a",)]),
        ("a O\n# O\n\n#tag O\nb O\n", [("a", "#"), ("#tag", "b")]),
        ("#\tO\na\tO\n\n # O\n", [("#", "a"), ("#",)]),
    ],
)
def test_comments_stand_above_a_sentence(text: str, words: list) -> None:
    """Lines that begin with "# " there; inside a sentence, and in "#tag", # is a word's."""
    sentences = parse_conll(text.encode(), "x")
    assert [sentence.words for sentence in sentences] == words
    assert all(set(sentence.labels) == {"O"} for sentence in sentences)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "file.txt: holds no token, expected lines such as"),
        (b"\n-DOCSTART- O\n\n", "file.txt: holds no token"),
        (b"# 1 O\n\n# 2 O\n", "file.txt: holds no token, .* 2 comments"),
        (b"a O\n\nb\n", r"file.txt:3: 'b' has 1 columns, expected 2 as on line 1"),
        (b"\na X O\nb O\n", r"file.txt:3: 'b O' has 2 columns, expected 3 as on line 2"),
        (b"a O\r\nb X O\r\n", r"file.txt:2: 'b X O' has 3 columns, expected 2"),
        (b"a\nb\n", r"file.txt:1: 'a' has 1 column, expected .* labelled=False"),
        (b"a O\n\xe9 O\n", "file.txt:2: byte 0xe9 is not UTF-8"),
        ("a O\n".encode("utf-16"), "file.txt:1: byte 0xff is not UTF-8"),
    ],
)
def test_malformed(content: bytes, message: str, tmp_path: Path) -> None:
    """The file, the line, what came and what was expected."""
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    refused(message, read_conll, path, error=MalformedFile)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_conll(tmp_path / "none")


def test_write_adds_a_column(tmp_path: Path) -> None:
    """Word, columns, label, prediction; UTF-8 and plain line ends; the folder is made."""
    path = write_conll(tmp_path / "new" / "out.txt", TWO, [["B-LOC", "O"], ["O"]])
    expected = "La DA B-LOC B-LOC\nCoruña NC I-LOC O\n\n! F O O\n\n"
    assert path.read_bytes().decode() == expected
    assert [entry.name for entry in path.parent.iterdir()] == ["out.txt"]
    assert parse_conll(expected.encode(), "x")[0].columns == (("DA", "NC"), ("B-LOC", "I-LOC"))


@pytest.mark.smoke
@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize("labelled", [True, False])
def test_round_trip(columns: int, labelled: bool, tmp_path: Path) -> None:
    """What was written reads back as it was, whatever the characters."""
    rng = np.random.default_rng(columns)
    alphabet = np.array(list("aB9-.,#éß\u00a0\u2028漢"))

    def entries(n: int) -> tuple[str, ...]:
        return tuple("".join(rng.choice(alphabet, rng.integers(1, 5))) for _ in range(n))

    sentences = tuple(
        Sentence(
            entries(n), tuple(entries(n) for _ in range(columns)), entries(n) if labelled else ()
        )
        for n in rng.integers(1, 6, 40)
    )
    path = write_conll(tmp_path / "file", sentences)
    assert read_conll(path, labelled=labelled) == sentences
    predicted = [entries(len(sentence.words)) for sentence in sentences]
    back = read_conll(write_conll(path, sentences, predicted))
    assert [sentence.labels for sentence in back] == predicted


def test_a_word_that_begins_like_a_comment_is_written_as_a_word(tmp_path: Path) -> None:
    sentence = Sentence(("#", "#"), (), ("O", "B"))
    path = write_conll(tmp_path / "out.txt", [sentence])
    assert path.read_text() == "#\tO\n# B\n\n" and read_conll(path) == (sentence,)


def test_write_leaves_the_old_file_when_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("before")
    with pytest.raises(ValueError):
        write_conll(path, TWO, [["B-LOC", "O"], ["a b"]])
    path.with_name("folder").mkdir()
    with pytest.raises(OSError):
        write_conll(tmp_path / "folder", TWO)
    assert path.read_text() == "before"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "out.txt"]


def test_write_is_whole_or_not_at_all(tmp_path: Path, monkeypatch) -> None:
    """All is written elsewhere before the file of that name changes."""
    path = tmp_path / "out.txt"
    path.write_text("before")

    def fail(source: Path, target: Path) -> None:
        assert target == path and read_conll(source) == TWO
        raise OSError("no rename")

    monkeypatch.setattr("jaxstruct.core.files.os.replace", fail)
    refused("no rename", write_conll, path, TWO, error=OSError)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("sentences", "predicted", "message"),
    [
        (TWO, [["O", "O"]], "predicted: got 1 label sequences, expected 2"),
        (TWO, [["O"], ["O"]], r"sentences\[0\]: its columns have \[2, 2, 2, 1\] entries"),
        (TWO, [["O", "O"], [""]], r"sentences\[1\]: '' is empty or holds a blank"),
        (TWO, [["O", "O\n"], ["O"]], r"sentences\[0\]: 'O\\n' is empty or holds a blank"),
        ((Sentence(("a\tb",), (), ("O",)),), None, r"sentences\[0\]: 'a\\tb'"),
        ((Sentence((), (), ()),), None, r"sentences\[0\]: its columns have \[0\] entries"),
        ((*TWO, Sentence(("a",), (), ("O",))), None, r"got \[\(0, True\), \(1, True\)\]"),
        ((*TWO, TWO[0]._replace(labels=())), None, r"got \[\(1, False\), \(1, True\)\]"),
    ],
)
def test_unwritable(sentences, predicted, message: str, tmp_path: Path) -> None:
    refused(message, write_conll, tmp_path / "out.txt", sentences, predicted)
    assert not list(tmp_path.iterdir())
