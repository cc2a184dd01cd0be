"""CoNLL-U: words with part of speech, head and relation, as Universal Dependencies has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jaxstruct.core.files import write_file
from jaxstruct.data.errors import MalformedFile, decoded

_COLUMNS = 10
_NOT_A_WORD = re.compile(r"\d+-\d+|\d+\.\d+")
_UNWRITABLE = re.compile(r"[\t\r\n]|^$")


class Annotated(NamedTuple):
    """One sentence of l words.

    Fields:
      words, tags, fine_tags: [l] the columns FORM, UPOS and XPOS.
      heads: [l] integers, 0 for the root and 1..l for words. relations: [l] the column DEPREL. Both
        are empty where the file has no heads ("_").
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    fine_tags: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]

    @property
    def tokens(self) -> list[dict[str, str]]:
        """The words as `jaxstruct.dependencies.prepare` takes them: word, tag and fine_tag."""
        columns = zip(self.words, self.tags, self.fine_tags, strict=True)
        return [{"word": w, "tag": t, "fine_tag": f} for w, t, f in columns]

    @property
    def tree(self) -> list[tuple[int, str]]:
        """The tree as `jaxstruct.dependencies.prepare` takes it: pairs (head, relation).

        Raises:
          ValueError: the sentence has no heads.
        """
        if not self.heads:
            raise ValueError(
                f"the sentence {' '.join(self.words[:5])!r} .. has no heads (_ in column 7): it "
                "can be parsed, and not be trained on"
            )
        return list(zip(self.heads, self.relations, strict=True))


def read_conllu(path: Path) -> tuple[Annotated, ...]:
    """Reads a CoNLL-U file; see `parse_conllu`.

    Raises:
      FileNotFoundError: no such file.
      MalformedFile: see `parse_conllu`.
    """
    return parse_conllu(Path(path).read_bytes(), str(path))


def parse_conllu(content: bytes, name: str) -> tuple[Annotated, ...]:
    r"""Returns the sentences of a CoNLL-U file's content.

    Ten columns lie between tabs, an empty line ends a sentence. Comments, words of several tokens
    (1-2) and empty nodes (1.1) are left out. Lines may end in \n, \r\n or \r. A sentence without
    heads, which is still to be parsed, has "_" as that of every word.

    Args:
      content: UTF-8 text. name: what error messages call the file.

    Raises:
      MalformedFile: not UTF-8, no word, a line without ten columns, words that are not numbered
        1, 2, .., or a head that is no word of the sentence; the message names the line.
    """
    lines = decoded(content, name).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found: list[Annotated] = []
    rows: list[list[str]] = []
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            if not line.startswith("#"):
                rows += _row(name, number, line, len(rows) + 1)
        elif rows:
            found.append(_sentence(name, number - len(rows), rows))
            rows = []
    if not found:
        raise MalformedFile(f"{name}: holds no word, expected lines of ten columns between tabs")
    return tuple(found)


def _row(name: str, number: int, line: str, word: int) -> list[list[str]]:
    """The columns of a word; nothing of a line that is none."""
    fields = line.split("\t")
    if len(fields) != _COLUMNS:
        raise MalformedFile(
            f"{name}:{number}: {line!r} has {len(fields)} columns, expected {_COLUMNS} between tabs"
        )
    if _NOT_A_WORD.fullmatch(fields[0]):
        return []
    if fields[0] != str(word):
        raise MalformedFile(f"{name}:{number}: the word is number {fields[0]!r}, expected {word}")
    return [fields]


def _sentence(name: str, line: int, rows: list[list[str]]) -> Annotated:
    _, words, _, tags, fine, _, heads, relations, _, _ = zip(*rows, strict=True)
    if set(heads) == {"_"}:
        return Annotated(words, tags, fine, (), ())
    numbers = {str(number): number for number in range(len(rows) + 1)}
    for word, head in enumerate(heads, 1):
        if head not in numbers:
            raise MalformedFile(
                f"{name}: the sentence that begins near line {line} has {head!r} as head of word "
                f"{word}, expected 0..{len(rows)}, or _ of every word"
            )
    return Annotated(words, tags, fine, tuple(numbers[head] for head in heads), relations)


def write_conllu(path: Path, sentences: Sequence[Annotated]) -> Path:
    """Writes a CoNLL-U file, with "_" in the columns that it does not know; returns its path.

        parsed = parser.predict([sentence.tokens for sentence in sentences])
        trees = [[*zip(*tree)] for tree in parsed]
        write_conllu(path, [s._replace(heads=h, relations=r)
                            for s, (h, r) in zip(sentences, trees)])

    The file is written under a temporary name and renamed: it is whole or as it was before.

    Raises:
      ValueError: the columns of a sentence differ in length, or an entry is empty or holds a tab or
        a line end, so that the file could not be read again.
    """
    return write_file(path, "".join(_block(i, each) for i, each in enumerate(sentences)))


def _block(i: int, sentence: Annotated) -> str:
    if not sentence.heads and not sentence.relations:
        none = ("_",) * len(sentence.words)
        sentence = sentence._replace(heads=none, relations=none)
    if len(set(map(len, sentence))) != 1 or not sentence.words:
        raise ValueError(
            f"sentences[{i}]: its columns have {[*map(len, sentence)]} entries, expected equal "
            "numbers, at least 1"
        )
    lines = []
    for number, (word, tag, fine, head, relation) in enumerate(zip(*sentence, strict=True), 1):
        fields = str(number), word, "_", tag, fine, "_", str(head), relation, "_", "_"
        if any(_UNWRITABLE.search(field) for field in fields):
            raise ValueError(
                f"sentences[{i}]: an entry of {fields} is empty or holds a tab or a line end, "
                "which a CoNLL-U column cannot"
            )
        lines.append("\t".join(fields) + "\n")
    return "".join(lines) + "\n"
