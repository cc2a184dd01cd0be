"""Make a store of a training set in text files: memory-mapped arrays, in bounded memory.

    python -m experiments.make_store --input=news.conll.gz --columns=word,tag --output=news.store
    python -m experiments.make_store --input=texts.svm --output=texts.store
    python -m experiments.make_store --input=wsj_02.mrg,wsj_03.mrg --output=wsj.store

Files are UTF-8 text, plain or .gz, all of one format; --format=auto goes by the end of the names:

  conll      a token a line, columns between tabs or blanks, the label last, an empty line after a
             sentence. Columns are names of features, or with --columns=word,tag features "word=..",
             "tag=..", those called _ left out: as `label_files` reads them. Lines "# .." above a
             sentence are comments (.conll, .iob, .bio)
  svmlight   a row a line, label index:value .. (.svm, .svmlight, .libsvm); a line with a qid is
             bad, since a store has no queries
  brackets   bracketed trees, over one line or several; tags are read, or with --read_words words
             (.mrg, .ptb)

Text is read once. What was read goes to the disk in numbers of its own, and these become columns
when all names are counted; memory holds the dictionary of names and some records. Trees wait in a
temporary file until the grammar is complete.

A record that cannot be read stops nothing: OUTPUT.bad.tsv says file, line and reason. The folder
appears whole or not at all. `jaxstruct.open_store` opens it, `jaxstruct.fit_in_blocks` trains on
it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import check_options, flag
from experiments.lib.progress import jobs_bar
from experiments.lib.reading import Line, cells_of, lines_of, opened
from experiments.lib.report import LINE, Table, render
from jaxstruct.core.files import write_file
from jaxstruct.data.bracketing import read_trees
from jaxstruct.data.conll import no_token
from jaxstruct.models import write_rows, write_sequences, write_trees
from jaxstruct.models.store import Written

# What the lines of a training file mean as records with their outputs.

MOST_LINES = 1 << 16
"""Of a sentence or a tree: what goes on for longer is none."""

Report = Callable[[int, str], object]


class Reading(NamedTuple):
    """How lines are read.

    Fields:
      columns: of conll, names of the columns before the label; none: entries are names.
      zero_based: of svmlight, whether the first feature is 0.
    """

    columns: tuple[str, ...] = ()
    zero_based: bool = False


def sentences(lines: Iterable[Line], reading: Reading, report: Report) -> Iterator[tuple]:
    """(first line, tokens, labels) of CoNLL columns, the label last; faults by line."""
    block: list[Line] = []
    for line in _with_end(lines):
        if line.fault is None and no_token(line.text, inside=bool(block)):
            if block:
                yield from _sentence(block, reading, report)
            block = []
        elif len(block) <= MOST_LINES:
            block.append(line)


def _with_end(lines: Iterable[Line]) -> Iterator[Line]:
    yield from lines
    yield Line(0, "")


def _sentence(block: list[Line], reading: Reading, report: Report) -> Iterator[tuple]:
    tokens, labels = [], []
    wanted = len(reading.columns) + 1 if reading.columns else None
    for line in block[:MOST_LINES]:
        cells = [cell for cell in cells_of(line.text) if cell]
        fault = line.fault
        if fault is None and wanted and len(cells) != wanted:
            fault = f"has {len(cells)} columns, expected {wanted}"
        elif fault is None and len(cells) < 2:
            fault = "has 1 column, expected features and the label"
        if fault is not None:
            report(line.number, fault)
            return
        labels.append(cells.pop())
        if wanted:
            pairs = zip(reading.columns, cells, strict=True)
            tokens.append({name: cell for name, cell in pairs if name != "_"})
        else:
            tokens.append(cells)
    if len(block) > MOST_LINES:
        report(block[0].number, f"begins a sentence of more than {MOST_LINES} tokens")
        return
    yield block[0].number, tokens, labels


def rows(lines: Iterable[Line], reading: Reading, report: Report) -> Iterator[tuple]:
    """(line, (columns, values), label) of svmlight: `label index:value .. # comment`."""
    for line in lines:
        text = line.text.split("#", 1)[0]
        if line.fault is None and not text.strip():
            continue
        try:
            if line.fault is not None:
                raise ValueError(line.fault)
            row, label = _row(text, 0 if reading.zero_based else 1)
        except ValueError as error:
            report(line.number, str(error))
            continue
        yield line.number, row, label


def _row(text: str, base: int) -> tuple[tuple[np.ndarray, np.ndarray], Any]:
    label, *cells = text.split()
    if ":" in label:
        raise ValueError(f"begins with {label!r}, expected a label")
    if cells and cells[0].startswith("qid:"):
        raise ValueError(
            "has a qid, but a store of rows has no queries: read the file by load_svmlight of "
            "jaxstruct.data.svmlight, and train DocumentRanker with groups=queries"
        )
    flat = " ".join(cells).replace(":", " ").split()
    if len(flat) != 2 * len(cells):
        wrong = next(cell for cell in cells if len(cell.replace(":", " ").split()) != 2)
        raise ValueError(f"{wrong!r} is no index:value")
    try:
        indices, values = np.array(flat[::2], np.int64), np.array(flat[1::2], np.float64)
    except (ValueError, OverflowError):
        raise ValueError("has an index that is no integer, or a value that is no number") from None
    if len(indices) and (indices[0] < base or (np.diff(indices) <= 0).any()):
        raise ValueError(f"has indices that do not rise from {base}")
    with np.errstate(over="ignore"):  # reported below
        narrow = values.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise ValueError("has a value that is not finite in float32")
    return (indices - base, narrow), _label(label)


def _label(text: str) -> Any:
    """An integer where it is one."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if math.isfinite(number) and number == int(number) else text


def trees(lines: Iterable[Line], reading: Reading, report: Report) -> Iterator[tuple]:
    """(first line, tree) of bracketed trees, each over one line or several.

    A line that begins with a bracket while a tree is open begins another; the open one is bad.
    """
    del reading
    block: list[Line] = []
    depth = 0
    for line in _with_end(lines):
        if block and line.text.startswith("("):
            yield from _tree(block, report)
            block, depth = [], 0
        if line.fault is None and not line.text.strip():
            continue
        block.append(line)
        depth += line.text.count("(") - line.text.count(")")
        if depth <= 0 or line.fault is not None or len(block) > MOST_LINES:
            yield from _tree(block, report)
            block, depth = [], 0
    if block:
        yield from _tree(block, report)


def _tree(block: list[Line], report: Report) -> Iterator[tuple]:
    first = block[0].number
    faults = [line for line in block if line.fault is not None]
    if faults:
        report(faults[0].number, str(faults[0].fault))
        return
    try:
        found = read_trees("\n".join(line.text for line in block), "the tree")
    except (ValueError, RecursionError) as error:
        report(first, " ".join(str(error).split()))
        return
    for tree in found:
        yield first, tree


ENDS = {
    "conll": (".conll", ".iob", ".iob2", ".bio"),
    "svmlight": (".svm", ".svmlight", ".libsvm"),
    "brackets": (".mrg", ".brackets", ".ptb"),
}
"""Of the names of files, by format."""


class Options(fields.Progress):
    """The flags of this command."""

    input: Sequence[str] = flag((), "Files of the training set, in this order.")
    output: str | None = flag(None, "Folder of the store; it must not be there.")
    format: str = flag("auto", "Format of the files, see above.", ("auto", *ENDS))
    columns: Sequence[str] = flag(
        (), "conll: names of the columns before the label; a column called _ is no feature."
    )
    zero_based: bool = flag(False, "svmlight: the first feature is 0, not 1.")
    features: int = flag(
        0, "svmlight: number of features; 0: up to the highest that occurs.", least=0
    )
    min_count: int = flag(1, "conll: a feature counts if so many tokens have it.", least=1)
    constant: float | None = flag(
        None, "Value of a feature that all have; default: 0 of conll, 1 of svmlight.", least=0
    )
    read_words: bool = flag(False, "brackets: sentences are words, not tags.")
    memory: int = flag(
        0, "brackets: siblings that an intermediate symbol of the binarisation remembers.", least=0
    )


class Run(NamedTuple):
    """What was made. written: of the library. seconds: of wall time. table: that was printed."""

    written: Written
    seconds: float
    table: Table


def run(options: Options) -> Run:
    """Make the store and print a table.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: an option does not fit, the folder is there, or no record is left.
    """
    check_options(options)
    format = _format_of(options)
    common.check_folder("output", Path(str(options.output)).parent)
    faults: dict[tuple[str, int], str] = {}  # of (file, line)
    start = time.perf_counter()
    sizes = [Path(name).stat().st_size for name in options.input]
    with jobs_bar((), "reading", options.progress, sum(sizes)) as bar:
        bar.unit, bar.unit_scale = "B", True
        written = _written(options, format, faults, bar.update)
    seconds = time.perf_counter() - start
    report = Path(f"{options.output}.bad.tsv")
    if faults:
        lines = (f"{file}\t{line}\t{why}\n" for (file, line), why in faults.items())
        write_file(report, "".join(lines))
    size = sum(path.stat().st_size for path in written.folder.iterdir())
    columns = ["store", "format", "examples", "bad", "MB", "seconds"]
    row = [str(written.folder), format, written.examples, len(faults), size / 1e6, seconds]
    notes = [f"bad records: {report}"] if faults else []
    table = Table("A store", columns, [row], notes)
    print(render(table, LINE), flush=True)
    return Run(written._replace(bad=len(faults)), seconds, table)


def _format_of(options: Options) -> str:
    """The format of the files.

    Raises:
      FileNotFoundError: one is missing.
      ValueError: none is named, or their names fit no format, or several.
    """
    if not options.input or not options.output:
        raise ValueError("input, output: name files, and the folder of the store")
    for name in options.input:
        if not Path(name).is_file():
            raise FileNotFoundError(f"input: there is no file {name}")
    if options.format != "auto":
        return options.format
    bare = [name.lower().removesuffix(".gz") for name in options.input]
    found = {format for format, ends in ENDS.items() if any(one.endswith(ends) for one in bare)}
    if len(found) != 1 or not all(one.endswith(ENDS[min(found)]) for one in bare):
        raise ValueError(
            f"input: the names {list(options.input)} fit no single format: give --format="
            f"{' or '.join(ENDS)}"
        )
    return found.pop()


def _written(
    options: Options, format: str, faults: dict[tuple[str, int], str], read: Callable[[int], object]
) -> Written:
    """The store, of the records of all files; a record's place is its file and line."""
    reading = Reading(tuple(options.columns), options.zero_based)
    parse = {"conll": sentences, "svmlight": rows, "brackets": trees}

    def each() -> Iterator[tuple]:
        came = False
        for name in options.input:

            def report(line: int, why: str, name: str = name) -> None:
                faults[name, line] = why

            with opened(name, read) as (_, stream):
                for line, *rest in parse[format](lines_of(stream, name), reading, report):
                    came = True
                    yield (name, line), *rest
        if not came:
            raise ValueError(_nothing(faults))

    folder, constant = str(options.output), options.constant
    if format == "conll":
        return write_sequences(
            folder, each(), min_count=options.min_count, report=faults.__setitem__,
            constant=0.0 if constant is None else constant,
        )  # fmt: skip
    if format == "svmlight":
        return write_rows(
            folder, each(), constant=1.0 if constant is None else constant,
            columns=options.features or None, report=faults.__setitem__,
        )  # fmt: skip
    return write_trees(
        folder, each(), read_words=options.read_words, memory=options.memory,
        report=faults.__setitem__,
    )  # fmt: skip


def _nothing(faults: dict[tuple[str, int], str]) -> str:
    """Why no record could be read."""
    for (file, line), why in faults.items():
        return f"input: {len(faults)} records came and all were bad; the first, {file}:{line} {why}"
    return (
        "input: no record came, since no line of the files holds one (empty lines and comments do "
        "not)"
    )
