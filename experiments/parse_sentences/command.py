"""Parse tagged sentences of your own with a model that `experiments.parsing` has trained.

    python -m experiments.parse_sentences --model=results/parsing_trainings/svm2_C_0.1 \\
        --sentences=tagged.txt
    echo 'the/DT dog/NN barks/VBZ' | python -m experiments.parse_sentences --model=.. --k=3

Sentences are UTF-8 text of one of two kinds, told apart by the first line:

  slashed   a sentence a line, its tokens word/tag; the last slash of a token counts
  columns   a token a line, the word first and the tag last, blanks or a tab between them; an empty
            line ends a sentence

Where the model reads words, the tags may be left out. Every sentence gives a line: its tree in
brackets, or an empty line where there is none, and why on standard error. With --k above 1 it gives
up to k lines of four columns, separated by tabs: number of the sentence, rank, score F(x, y; w),
tree.

A model is two files, NAME.grammar.json and NAME.weights.npz.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.parsing.model import Model, Ranked, load_model, parse
from jaxstruct.core.files import write_file
from jaxstruct.data.utf8 import decoded
from jaxstruct.trees.phrases.bracketing import write_line
from jaxstruct.trees.phrases.grammar import terminals_of

FORMATS = ("auto", "slashed", "columns")
ESCAPES = {"(": "-LRB-", ")": "-RRB-"}


class Options(NamedTuple):
    """The flags of this command."""

    model: Annotated[
        str | None, flag("NAME of the model, with its folder, or one of its files.")
    ] = None
    sentences: Annotated[str, flag("Tagged sentences; - is standard input.")] = "-"
    trees: Annotated[str, flag("Where the trees go; - is standard output.")] = "-"
    format: Annotated[
        str,
        flag(
            "slashed: a sentence a line; columns: a token a line; auto: by the first line, which "
            "is slashed if every token has a slash.",
            FORMATS,
        ),
    ] = "auto"
    k: Annotated[int, flag("How many trees of each sentence, the best first.", least=1)] = 1
    x64: Annotated[bool, flag("Compute in float64, for models trained so.")] = False
    compilation_cache: fields.CompilationCache = True


class Tagged(NamedTuple):
    """A sentence: words, and as many tags, which are None where the file has none."""

    words: tuple[str, ...]
    tags: tuple[str | None, ...]


def run(options: Options) -> list[list[Ranked]]:
    """Parse all sentences and write their trees; returns what was found.

    Raises:
      FileNotFoundError: the model or the file of sentences is missing.
      ValueError: an option or a file does not fit; the message names the line.
    """
    if not options.model:
        raise ValueError("model: name one, such as results/parsing_trainings/svm2_C_0.1")
    common.prepare(options)
    model = load_model(options.model)
    name, text = _read(options.sentences)
    sentences = read_tagged(text, name, options.format)
    read = [terminals_read(model, sentence, f"{name}: sentence {number}")
            for number, sentence in enumerate(sentences, 1)]  # fmt: skip
    spoken = [[ESCAPES.get(word, word) for word in sentence.words] for sentence in sentences]
    found = parse(model, read, spoken, options.k)
    _write(options.trees, lines_of(found, options.k))
    for number, (trees, tokens) in enumerate(zip(found, read, strict=True), 1):
        if not trees:
            print(f"sentence {number}: no parse{_reason(model, tokens)}", file=sys.stderr)
    return found


def _read(path: str) -> tuple[str, str]:
    """(name for messages, content)."""
    if path == "-":
        return "standard input", sys.stdin.read()
    if not Path(path).is_file():
        raise FileNotFoundError(f"sentences: there is no file {path}")
    return path, decoded(Path(path).read_bytes(), path)


def read_tagged(text: str, name: str = "text", format: str = "auto") -> list[Tagged]:
    """The sentences of a text of one of the `FORMATS`; see the module.

    Raises:
      ValueError: there is none, or a line is not of the format; the message names it.
    """
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise ValueError(f"{name}: holds no sentence")
    if format == "auto":
        slashed = all("/" in token[1:] for token in first.split())
        format = "slashed" if slashed else "columns"
    if format == "slashed":
        return [_slashed(line, f"{name}:{number}") for number, line in _filled(lines)]
    return _columns(lines, name)


def _filled(lines: Iterable[str]) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _slashed(line: str, where: str) -> Tagged:
    """A token without a slash has no tag; one that starts with its only slash is a word."""
    words, tags = [], []
    for token in line.split():
        word, slash, tag = token.rpartition("/")
        if slash and word and not tag:
            raise ValueError(f"{where}: got {token!r}, expected word/tag")
        words.append(word if word else token)
        tags.append(tag if word else None)
    return Tagged(tuple(words), tuple(tags))


def _columns(lines: Sequence[str], name: str) -> list[Tagged]:
    sentences: list[Tagged] = []
    rows: list[tuple[str, str | None]] = []
    width = None
    for number, line in enumerate([*lines, ""], 1):
        cells = line.split()
        if not cells:
            if rows:
                sentences.append(Tagged(*zip(*rows, strict=True)))
            rows = []
            continue
        width = len(cells) if width is None else width
        if len(cells) != width:
            raise ValueError(
                f"{name}:{number}: got {len(cells)} columns, expected {width} as in the first line"
            )
        rows.append((cells[0], cells[-1] if width > 1 else None))
    return sentences


def terminals_read(model: Model, sentence: Tagged, where: str) -> tuple[str, ...]:
    """The tags or the words, whichever the model reads.

    Raises:
      ValueError: it reads tags and a token has none.
    """
    if model.grammar.unknown_words is not None:
        return sentence.words
    tags = []
    for word, tag in zip(sentence.words, sentence.tags, strict=True):
        if tag is None:
            raise ValueError(
                f"{where}: {word!r} has no tag, and the model reads tags; write word/tag, or a tag "
                "in the last column"
            )
        tags.append(tag)
    return tuple(tags)


def lines_of(found: Sequence[Sequence[Ranked]], k: int) -> list[str]:
    """What is written: a tree a line, or with k > 1 four columns."""
    if k == 1:
        return [write_line(trees[0].tree) if trees else "" for trees in found]
    return [
        f"{number}\t{rank}\t{one.score:.6g}\t{write_line(one.tree)}"
        for number, trees in enumerate(found, 1)
        for rank, one in enumerate(trees, 1)
    ]


def _write(path: str, lines: Sequence[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if path == "-":
        sys.stdout.write(text)
    else:
        write_file(path, text)


def _reason(model: Model, tokens: Sequence[str]) -> str:
    """What the grammar cannot read, in words."""
    numbers = terminals_of(model.grammar, tokens)
    unknown = sorted({token for token, at in zip(tokens, numbers, strict=True) if at < 0})
    kind = "tags" if model.grammar.unknown_words is None else "words"
    if unknown:
        return f": the grammar has not seen the {kind} {', '.join(unknown)}"
    return ": no tree of the grammar covers it"
