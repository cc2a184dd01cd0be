"""Parse sentences of your own with a model that `experiments.parsing` has trained.

    python -m experiments.parse_sentences --model=results/parsing_trainings/svm2_C_0.1 \\
        --sentences=tagged.txt --picture=trees.png
    echo 'the/DT dog/NN barks/VBZ' | python -m experiments.parse_sentences --model=.. --k=3

Sentences are UTF-8 text of one of three kinds, which --format=auto distinguishes:

  slashed   a sentence a line, its tokens word/tag; the last slash of a token counts. Auto: every
            token of the first line that is not empty has a slash
  columns   a token a line, the word first and the tag last, blanks or a tab between them; an empty
            line ends a sentence. Auto: there is a tab, or each line has one token, or no last
            token of a line has a lower-case letter and some have upper-case ones, as tags have
  plain     a sentence a line, words without tags. Auto: any other text, and a single line of
            several tokens without a tab

A model that reads words (experiments.parsing --terminals=words) needs no tags, of whatever kind the
text is; one that reads tags needs them all. Every sentence gives a line: its tree in brackets, or
an empty line where there is none, and why on standard error. With --k above 1 it gives up to k
lines of four columns, separated by tabs: number of the sentence, rank, score F(x, y; w), tree.

--picture=trees.png draws the best trees, with the same as PDF and SVG and their text as
trees.plot.json beside it.

A model is two files, NAME.grammar.json and NAME.weights.npz.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import save_figure
from experiments.tasks.parser_model import Model, Ranked, load_model, parse
from experiments.tasks.tree_pictures import lone_pictures
from jaxstruct.core.files import write_file
from jaxstruct.data.utf8 import decoded
from jaxstruct.trees.phrases.bracketing import write_line
from jaxstruct.trees.phrases.grammar import terminals_of

FORMATS = ("auto", "slashed", "columns", "plain")
MOST_DRAWN, LONGEST_DRAWN = 6, 40
"""Sentences in a picture, and tokens of one of them."""
ESCAPES = {"(": "-LRB-", ")": "-RRB-"}


class Options(fields.Cached):
    """The flags of this command."""

    model: str | None = flag(None, "NAME of the model, with its folder, or one of its files.")
    sentences: str = flag("-", "File of sentences; - is standard input.")
    trees: str = flag("-", "Where the trees go; - is standard output.")
    format: str = flag(
        "auto",
        "slashed: a sentence a line, word/tag; columns: a token a line; plain: a sentence a "
        "line, without tags; auto: as above.",
        FORMATS,
    )
    picture: str | None = flag(
        None,
        f"PNG to draw the best trees in, PDF and SVG beside it: of the first {MOST_DRAWN} "
        f"sentences that have at most {LONGEST_DRAWN} tokens.",
    )
    k: int = flag(1, "Trees of each sentence, the best first.", least=1)
    x64: bool = flag(False, "Compute in float64, for models trained so.")


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
    picture = _picture_place(options.picture) if options.picture is not None else None
    if picture:
        common.check_folder("picture", picture[0])
    if options.trees != "-":
        common.check_folder("trees", Path(options.trees).parent)
    model = load_model(options.model)
    name, text = _read(options.sentences)
    format = format_of(text) if options.format == "auto" else options.format
    sentences = read_tagged(text, name, format)
    if format == "plain" and model.grammar.unknown_words is None:
        raise ValueError(
            f"{name}: plain text, a sentence a line without tags, and the model reads tags; write "
            "word/tag, or take a model that reads words (experiments.parsing --terminals=words); "
            "if there are tags in columns, say --format=columns"
        )
    drawn = _drawn(sentences, name) if picture else []
    read = [terminals_read(model, sentence, f"{name}: sentence {number}")
            for number, sentence in enumerate(sentences, 1)]  # fmt: skip
    words = [[ESCAPES.get(word, word) for word in sentence.words] for sentence in sentences]
    found = parse(model, read, words, options.k)
    _write(options.trees, lines_of(found, options.k))
    for number, (trees, tokens) in enumerate(zip(found, read, strict=True), 1):
        if not trees:
            print(f"sentence {number}: no parse{_reason(model, tokens)}", file=sys.stderr)
    if picture:
        _draw(picture, drawn, found)
    return found


def _read(path: str) -> tuple[str, str]:
    """(name for messages, content)."""
    if path == "-":
        return "standard input", sys.stdin.read()
    if not Path(path).is_file():
        raise FileNotFoundError(f"sentences: there is no file {path}")
    return path, decoded(Path(path).read_bytes(), path)


def format_of(text: str) -> str:
    """Which of the `FORMATS` a text is of, but for "auto"; see the module."""
    lines = [line for _, line in _filled(text.splitlines())]
    if lines and all("/" in token[1:] for token in lines[0].split()):
        return "slashed"
    several = [line.split() for line in lines if len(line.split()) > 1]
    if not several or any("\t" in line.strip() for line in lines):
        return "columns"
    ends = "".join(tokens[-1] for tokens in several)
    tags = any(map(str.isupper, ends)) and not any(map(str.islower, ends))
    return "columns" if tags and len(lines) > 1 else "plain"


def read_tagged(text: str, name: str = "text", format: str = "auto") -> list[Tagged]:
    """The sentences of a text of one of the `FORMATS`; see the module.

    Raises:
      ValueError: there is none, or a line is not of the format; the message names it.
    """
    lines = text.splitlines()
    if not any(map(str.strip, lines)):
        raise ValueError(f"{name}: holds no sentence")
    if format == "auto":
        format = format_of(text)
    if format == "columns":
        return _columns(lines, name)
    if format == "plain":
        return [_plain(line) for _, line in _filled(lines)]
    return [_slashed(line, f"{name}:{number}") for number, line in _filled(lines)]


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


def _plain(line: str) -> Tagged:
    words = tuple(line.split())
    return Tagged(words, (None,) * len(words))


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


def _picture_place(path: str) -> tuple[Path, str]:
    """(folder, name without its ending).

    Raises:
      ValueError: it is no name of a PNG.
    """
    place = Path(path)
    if place.suffix != ".png":
        raise ValueError(f"picture: got {path!r}, expected a name that ends in .png")
    return place.parent, place.stem


def _drawn(sentences: Sequence[Tagged], name: str) -> list[int]:
    """Which sentences go into the picture, as places from 0; says where some do not.

    Raises:
      ValueError: all are too long.
    """
    short = [i for i, of in enumerate(sentences) if len(of.words) <= LONGEST_DRAWN]
    if not short:
        raise ValueError(
            f"picture: every sentence of {name} has more than {LONGEST_DRAWN} tokens, too many to "
            "draw; leave out --picture"
        )
    if len(short[:MOST_DRAWN]) < len(sentences):
        print(
            f"picture: {len(short[:MOST_DRAWN])} of {len(sentences)} sentences are drawn, the "
            f"first {MOST_DRAWN} of at most {LONGEST_DRAWN} tokens",
            file=sys.stderr,
        )
    return short[:MOST_DRAWN]


def _draw(place: tuple[Path, str], drawn: Sequence[int], found: Sequence[Sequence[Ranked]]) -> None:
    """The best trees of these sentences as a picture."""
    best = [found[i][0] if found[i] else None for i in drawn]
    captions = [
        f"sentence {i + 1}" + (f", F = {one.score:.6g}" if one else "")
        for i, one in zip(drawn, best, strict=True)
    ]
    plot = lone_pictures([one.tree if one else None for one in best], captions, "Best trees")
    save_figure(plot.figure, *place, plot.data)


def _reason(model: Model, tokens: Sequence[str]) -> str:
    """What the grammar cannot read, in words."""
    numbers = terminals_of(model.grammar, tokens)
    unknown = sorted({token for token, at in zip(tokens, numbers, strict=True) if at < 0})
    kind = "tags" if model.grammar.unknown_words is None else "words"
    if unknown:
        return f": the grammar has not seen the {kind} {', '.join(unknown)}"
    return ": no tree of the grammar covers it"
