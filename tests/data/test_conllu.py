"""CoNLL-U files, read, written and refused."""

from __future__ import annotations

import pytest

from jaxstruct.data.conllu import Annotated, parse_conllu, read_conllu, write_conllu
from jaxstruct.data.errors import MalformedFile
from tests.lib.refusals import refused

ROWS = ("1\tIt\tit\tPRON\tPRP\t_\t3\tnsubj\t_\t_", "2\t's\tbe\tAUX\tVBZ\t_\t3\tcop\t_\t_",
        "3\tso\tso\tADV\tRB\t_\t0\troot\t_\t_")  # fmt: skip
TEXT = "\n".join(["# text = It's so", "1-2\tIt's" + "\t_" * 8, *ROWS, "3.1\tx" + "\t_" * 8, "", ""])
SENTENCE = Annotated(
    ("It", "'s", "so"), ("PRON", "AUX", "ADV"), ("PRP", "VBZ", "RB"), (3, 3, 0),
    ("nsubj", "cop", "root"),
)  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_comments_and_other_lines_are_left_out(end):
    content = (TEXT + TEXT).replace("\n", end).encode()
    assert parse_conllu(content, "it") == (SENTENCE, SENTENCE)
    assert SENTENCE.tokens[1] == {"word": "'s", "tag": "AUX", "fine_tag": "VBZ"}
    assert SENTENCE.tree[2] == (0, "root")


def test_there_and_back(tmp_path):
    path = write_conllu(tmp_path / "a.conllu", [SENTENCE, SENTENCE])
    assert read_conllu(path) == (SENTENCE, SENTENCE)


def test_a_file_without_heads_is_read_parsed_and_written(tmp_path):
    """As after tagging: the words and tags are there, and the trees that were found go in."""
    bare = SENTENCE._replace(heads=(), relations=())
    path = write_conllu(tmp_path / "tagged.conllu", [bare, SENTENCE])
    assert read_conllu(path) == (bare, SENTENCE) and bare.tokens == SENTENCE.tokens
    with refused("the sentence .*so.* has no heads .* it can be parsed, and not be trained on"):
        _ = bare.tree
    heads, relations = zip(*SENTENCE.tree, strict=True)
    write_conllu(path, [bare._replace(heads=heads, relations=relations)])
    assert read_conllu(path) == (SENTENCE,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no word"),
        ("1\tIt\n", "it:1: .* has 2 columns, expected 10"),
        (ROWS[1] + "\n", "the word is number '2', expected 1"),
        (ROWS[0] + "\n", "has '3' as head of word 1, expected 0..1, or _ of every word"),
        ("\n".join([*ROWS[:2], ROWS[2].replace("0", "_")]), "has '_' as head of word 3"),
    ],
)
def test_damaged_files(text, message):
    with pytest.raises(MalformedFile, match=message):
        parse_conllu(text.encode(), "it")


def test_what_could_not_be_read_is_not_written(tmp_path):
    path = tmp_path / "a.conllu"
    refused(
        r"sentences\[0\]: its columns", lambda: write_conllu(path, [SENTENCE._replace(heads=())])
    )
    broken = SENTENCE._replace(words=("It", "", "so"))
    refused("is empty or holds a tab", lambda: write_conllu(path, [broken]))
    assert not path.exists()
