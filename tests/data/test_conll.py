"""CoNLL files: handmade ones of every habit, bad ones, and the round trip."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaxstruct.data.conll import Sentence, parse_conll, read_conll
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
