"""Make a store of a training set in text files: memory-mapped arrays, in bounded memory.

    python -m experiments.make_store --input=news.conll.gz --columns=word,tag --output=news.store
    python -m experiments.make_store --input=texts.svm --output=texts.store
    python -m experiments.make_store --input=wsj_02.mrg,wsj_03.mrg --output=wsj.store

Files are UTF-8 text, plain or .gz, all of one format; --format=auto goes by the end of the names:

  conll      a token a line, columns between tabs or blanks, the label last, an empty line after a
             sentence. Columns are names of features, or with --columns=word,tag features "word=..",
             "tag=..", those called _ left out: as `label_files` reads them (.conll, .iob, .bio)
  svmlight   a row a line, label index:value .. (.svm, .svmlight, .libsvm)
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

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from experiments.label_files.reading import lines_of, opened
from experiments.lib import common, fields
from experiments.lib.options import check_options, flag
from experiments.lib.progress import jobs_bar
from experiments.lib.report import LINE, Table, render
from experiments.make_store import records
from jaxstruct.core.files import write_file
from jaxstruct.models import Written, write_rows, write_sequences, write_trees

ENDS = {
    "conll": (".conll", ".iob", ".iob2", ".bio"),
    "svmlight": (".svm", ".svmlight", ".libsvm"),
    "brackets": (".mrg", ".brackets", ".ptb"),
}
"""Of the names of files, by format."""


class Options(NamedTuple):
    """The flags of this command."""

    input: Annotated[Sequence[str], flag("Files of the training set, in this order.")] = ()
    output: Annotated[str | None, flag("Folder of the store; it must not be there.")] = None
    format: Annotated[str, flag("Of the files; see above.", ("auto", *ENDS))] = "auto"
    columns: Annotated[
        Sequence[str],
        flag("conll: names of the columns before the label; a column called _ is no feature."),
    ] = ()
    zero_based: Annotated[bool, flag("svmlight: the first feature is 0, not 1.")] = False
    features: Annotated[
        int, flag("svmlight: how many features there are; 0: up to the highest.", least=0)
    ] = 0
    min_count: Annotated[
        int, flag("conll: tokens that must have a feature for it to count.", least=1)
    ] = 1
    constant: Annotated[
        float | None,
        flag("Value of a feature that all have; default: 0 of conll, 1 of svmlight.", least=0),
    ] = None
    read_words: Annotated[bool, flag("brackets: sentences are words, not tags.")] = False
    memory: Annotated[
        int, flag("brackets: children that an intermediate symbol remembers.", least=0)
    ] = 0
    progress: fields.ShowProgress = None


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
      ValueError: none is named, or their names tell no format, or several.
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
            f"input: the names {list(options.input)} tell no one format: give --format="
            f"{' or '.join(ENDS)}"
        )
    return found.pop()


def _written(
    options: Options,
    format: str,
    faults: dict[tuple[str, int], str],
    read: Callable[[int], object],
) -> Written:
    """The store, of the records of all files; a record's place is its file and line."""
    reading = records.Options(tuple(options.columns), options.zero_based)
    parse = {"conll": records.sentences, "svmlight": records.rows, "brackets": records.trees}

    def each() -> Iterator[tuple]:
        for name in options.input:

            def told(line: int, why: str, name: str = name) -> None:
                faults[name, line] = why

            with opened(name, read) as (_, stream):
                for line, *rest in parse[format](lines_of(stream, name), reading, told):
                    yield (name, line), *rest

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
