"""CoNLL files: a token a line, columns between blanks or tabs, an empty line after each sentence.

A line that begins with "# " above a sentence is a comment. Inside a sentence, and where something
else than a blank follows, # is a word or its beginning: "#tag", or "#" with a tab after it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from jaxstruct.data.errors import MalformedFile, decoded

_BLANKS = re.compile(r"[ \t]+")  # str.split() would also cut at no-break spaces inside words
_DOCUMENT_START = re.compile(r"[ \t]*-DOCSTART-(?:[ \t]|$)")
_COMMENT = "# "


class Sentence(NamedTuple):
    """One sentence of T tokens, as written in the file.

    Fields:
      words: [T], the first column.
      columns: the columns between, column by column, [T] each; empty where there is none.
      labels: [T], the last column, or empty where the file has no labels.
    """

    words: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]

    @property
    def tags(self) -> tuple[str, ...]:
        """[T], the first column after the word (part-of-speech tags), or empty."""
        return self.columns[0] if self.columns else ()


def read_conll(path: Path, *, labelled: bool = True) -> tuple[Sentence, ...]:
    """Reads a CoNLL file; see `parse_conll`.

    Raises:
      FileNotFoundError: no such file.
      MalformedFile: see `parse_conll`.
    """
    return parse_conll(Path(path).read_bytes(), str(path), labelled=labelled)


def parse_conll(content: bytes, name: str, *, labelled: bool = True) -> tuple[Sentence, ...]:
    r"""Returns the sentences of a CoNLL file's content.

    Columns lie between blanks or tabs; the word comes first, the label last. A line without any
    column ends a sentence, and so does a line whose word is -DOCSTART-, which is dropped. Comments
    above a sentence, lines that begin with "# ", are dropped. Lines may end in \n, \r\n or \r; a
    byte order mark is skipped.

    Args:
      content: UTF-8 text.
      name: what error messages call the file.
      labelled: whether the last column is the label. If not, all columns after the word are
        `Sentence.columns`; nothing is guessed.

    Raises:
      MalformedFile: not UTF-8, no token, a line with another number of columns than the first
        token's line, or fewer than 2 (1 if not labelled); the message names the line.
    """
    lines = decoded(content, name).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    groups: list[list[list[str]]] = [[]]
    width, first, comments = 0, 0, 0
    for number, line in enumerate(lines, 1):
        if no_token(line, inside=bool(groups[-1])):
            comments += line.startswith(_COMMENT)
            groups.append([])
            continue
        fields = [field for field in _BLANKS.split(line) if field]
        if not width:
            width, first = _checked_width(name, number, line, len(fields), labelled), number
        if len(fields) != width:
            raise MalformedFile(
                f"{name}:{number}: {line!r} has {len(fields)} columns, expected {width} as on "
                f"line {first}"
            )
        groups[-1].append(fields)
    if not width:
        also = f" beside its {comments} comments" if comments else ""
        raise MalformedFile(f"{name}: holds no token, expected lines such as 'Madrid B-LOC'{also}")
    return tuple(_sentence(group, labelled) for group in groups if group)


def no_token(line: str, *, inside: bool) -> bool:
    """Whether a line holds no token: it is empty or -DOCSTART-, or a comment above a sentence.

    Args:
      line: without its end. inside: whether the line before it holds a token.
    """
    return (
        not line.strip(" \t")
        or _DOCUMENT_START.match(line) is not None
        or (not inside and line.startswith(_COMMENT))
    )


def _checked_width(name: str, number: int, line: str, width: int, labelled: bool) -> int:
    if labelled and width < 2:
        raise MalformedFile(
            f"{name}:{number}: {line!r} has 1 column, expected the word first and the label last; "
            "read a file without labels with labelled=False"
        )
    return width


def _sentence(rows: list[list[str]], labelled: bool) -> Sentence:
    words, *rest = zip(*rows, strict=True)
    labels = rest.pop() if labelled else ()
    return Sentence(words, tuple(rest), labels)
