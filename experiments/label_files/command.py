"""Label files of any size with a model of your own, in batches, on all devices.

    python -m experiments.label_files --model=tagger.model --input=a.conll,b.conll.gz
    python -m experiments.label_files --model=topics.model --input=texts.jsonl --output=labelled
    cat new.jsonl | python -m experiments.label_files --model=topics.model --input=- --output=-

A model is what `jaxstruct.save` wrote, of any output type. Files are UTF-8, plain or .gz, of these
formats; --format=auto goes by the end of the name, else by the model (conll for sequences, words
for trees, pairs for alignments, jsonl for all others):

  jsonl      a record a line, as `model.predict` takes it, in JSON: a row of features is a list of
             names, an object name -> value, or a list of numbers; a sequence is a list of rows, a
             sentence one of words, a pair of two texts; a graph is an object of nodes, edges and
             edge_features. With --field=KEY each line is an object that holds its record there
             (.jsonl, .ndjson)
  conll      a token a line, columns between tabs or blanks, an empty line after a sentence. Columns
             are names of features, or with --columns=word,tag features "word=..", "tag=..", those
             called _ left out; with --labelled the last column is none. Lines "# .." above a
             sentence are comments, kept as they are (.conll, .iob, .bio)
  svmlight   a row a line, index:value, with a label in front or without; features of a model with
             names are called "1", "2", .. (.svm, .svmlight, .libsvm)
  words      a record a line, its words between blanks: features of a row, tokens of one feature, or
             what a grammar reads (.txt)
  brackets   a tree a line, whose leaves are read (.mrg, .ptb)
  pairs      two texts a line, a tab between them (.tsv)

NAME.EXT gives NAME.labelled.EXT, in its own folder or that of --output, under a temporary name
until it is whole: the lines of the file with a further column (conll), or a line for each line: the
prediction in JSON (with --field the object with "predicted" added), or as text, the labels of a set
between tabs. A record that cannot be read stops nothing: its place is empty (conll: _, jsonl:
null), and NAME.labelled.EXT.bad.tsv says line and reason. NAME.labelled.EXT.done.json notes of
which input, model and options the file is; --resume passes over those that are still so.

Ends with a table. The exit code is 1 where every record was bad.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from experiments.label_files.formats import FORMATS, Reading, check_writable, format_of
from experiments.label_files.labelling import Counts, Job, Labelled, is_done, label_files
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.progress import jobs_bar
from experiments.lib.reading import digest_of
from experiments.lib.report import LINE, Table, render
from jaxstruct import __version__
from jaxstruct.models import PredictionStream, TrainedModel
from jaxstruct.models.model_files import load
from jaxstruct.models.stream import Device

KEPT = ("field", "columns", "labelled", "zero_based", "x64")
"""Options that decide what is written."""


class Options(fields.Cached, fields.Progress):
    """The flags of this command."""

    model: str | None = flag(None, "File of the model, as jaxstruct.save writes it.")
    input: Sequence[str] = flag(("-",), "Files to label; - is standard input.", some=True)
    output: str | None = flag(
        None, "Folder of the labelled files; default: each beside its input. - is standard output."
    )
    format: str = flag("auto", "Format of the files, see above.", ("auto", *FORMATS))
    field: str = flag("", "jsonl: the key of an object that holds the record.")
    columns: Sequence[str] = flag(
        (), "conll: names of the columns; a column called _ is no feature."
    )
    labelled: bool = flag(False, "conll: the last column is a label, and no feature.")
    zero_based: bool = flag(False, "svmlight: the first feature is 0, not 1.")
    batch: int = flag(1024, "Records decoded together, at most.", least=1)
    devices: int = flag(0, "Devices to work on, 0 for all.", least=0)
    resume: bool = flag(
        False, "Pass over the files that are labelled, unless they or the model changed."
    )
    x64: bool = flag(False, "Compute in float64, for models trained so.")


class Run(NamedTuple):
    """What a run did.

    Fields:
      files: of each file that was labelled, Job and Counts. passed: files passed over.
      counts: of all records. seconds: of wall time, with `compiling` seconds among them.
      table: that was printed.
    """

    files: Sequence[tuple[Job, Counts]]
    passed: Sequence[Job]
    counts: Counts
    seconds: float
    compiling: float
    table: Table


def main(options: Options) -> int:
    """The exit code: 1 where there were records and every one was bad, else 0."""
    counts = run(options).counts
    return int(counts.records > 0 and counts.bad == counts.records)


def run(options: Options) -> Run:
    """Label the files and print the table.

    Raises:
      FileNotFoundError: the model or a file is missing.
      ValueError: an option, a model or a file does not fit.
      common.Stopped: Ctrl-C; the files that were finished stay.
    """
    common.prepare(options)
    if options.output not in (None, "-"):
        common.check_folder("output", options.output)
    if not options.model:
        raise ValueError("model: name the file of one, as jaxstruct.save writes it")
    if not Path(options.model).is_file():
        raise FileNotFoundError(f"model: there is no file {options.model}")
    model = load(options.model)
    jobs = jobs_of(options, model)
    passed = [job for job in jobs if options.resume and is_done(job)]
    left = [job for job in jobs if job not in passed]
    devices = _devices(options.devices)
    start = time.perf_counter()
    with _rare_collections():
        labelled = _labelled(options, model, left, devices)
    seconds = time.perf_counter() - start
    table = _table(labelled, len(passed), seconds)
    shown = sys.stderr if options.output == "-" else sys.stdout
    print(render(table, LINE), file=shown, flush=True)
    _tell_bad(labelled)
    counts = Counts(*map(sum, zip(*(each for _, each in labelled.files), strict=True)))
    return Run(labelled.files, passed, counts, seconds, labelled.stream.compile_seconds, table)


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Python looks for circles among all objects less often: records are lists without any.

    A third of the processor time of sentences went into it.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def jobs_of(options: Options, model: TrainedModel) -> list[Job]:
    """What is read and written.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: formats do not fit the model, or two files would be written to one place.
    """
    to_stdout = options.output == "-"
    if "-" in options.input and options.output is None:
        raise ValueError("output: standard input has no folder; give --output=- or --output=FOLDER")
    reading = Reading(
        model, options.field, tuple(options.columns), options.labelled, options.zero_based
    )
    sha256 = digest_of(str(options.model))
    kept = {name: getattr(options, name) for name in KEPT}
    jobs: list[Job] = []
    for source in options.input:
        if source != "-" and not Path(source).is_file():
            raise FileNotFoundError(f"input: there is no file {source}")
        format = format_of(source, model, options.format)
        check_writable(reading, format)
        key = {"model": sha256, "jaxstruct": __version__, "format": format, **kept}
        target = None if to_stdout else target_of(source, options.output, format)
        jobs.append(Job(source, target, format, reading, key))
    _check_distinct(jobs)
    return jobs


def target_of(source: str, folder: str | None, format: str) -> Path:
    """Where the labelled file goes: NAME.labelled.EXT."""
    path = Path("stdin" if source == "-" else source)
    if path.name.lower().endswith(".gz"):
        path = path.with_name(path.name[:-3])
    suffix = FORMATS[format].suffix
    if path.name.lower().endswith(FORMATS[format].ends) and format != "svmlight":
        suffix = path.suffix
    stem = path.stem if path.suffix else path.name
    return (path.parent if folder is None else Path(folder)) / f"{stem}.labelled{suffix}"


def _check_distinct(jobs: Sequence[Job]) -> None:
    """Raise ValueError where two files have one place, or one is to be written over."""
    taken: dict[Path, str] = {}
    for job in jobs:
        if job.target is None:
            continue
        place = job.target.resolve()
        if place in taken:
            raise ValueError(
                f"input: {taken[place]} and {job.source} would both be written to {job.target}: "
                "label them into different folders"
            )
        taken[place] = job.source
    for job in jobs:
        if job.source != "-" and Path(job.source).resolve() in taken:
            raise ValueError(f"input: {job.source} is the labelled file of another input")


def _devices(number: int) -> list[Device]:
    """The first so many, 0 for all.

    Raises:
      ValueError: there are not as many.
    """
    found = jax.local_devices()
    if number > len(found):
        raise ValueError(f"devices: got {number}, but jax has {len(found)} here")
    return found[: number or None]


def _labelled(
    options: Options, model: TrainedModel, jobs: Sequence[Job], devices: Sequence[Device]
) -> Labelled:
    """The files through the stream, under a bar of the bytes that are read."""
    sizes = [None if job.source == "-" else Path(job.source).stat().st_size for job in jobs]
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else None
    done: list[tuple[Job, Counts]] = []
    start = time.perf_counter()
    with jobs_bar((), "labelling", options.progress, total) as bar:
        bar.unit, bar.unit_scale = "B", True

        def show(stream: PredictionStream) -> None:
            seconds = max(time.perf_counter() - start - stream.compile_seconds, 1e-9)
            bar.set_postfix_str(
                f"{stream.count / seconds:.0f} records/s, {stream.bad} bad", refresh=False
            )

        try:
            return label_files(
                model, jobs, batch=options.batch, devices=devices, read=bar.update,
                labelled=show, done=done,
            )  # fmt: skip
        except KeyboardInterrupt:
            if not done:
                raise
            files = [job.target for job, _ in done if job.target is not None]
            raise common.Stopped(files, "--resume labels the others") from None


def _table(labelled: Labelled, passed: int, seconds: float) -> Table:
    """One row: what was done, and how fast."""
    stream = labelled.stream
    working = max(seconds - stream.compile_seconds, 1e-9)
    kinds = sorted({one.device_kind for one in stream.devices})
    columns = ["files", "passed over", "records", "bad", "seconds", "of these compiling",
               "records a second", "devices"]  # fmt: skip
    row = [
        len(labelled.files), passed, stream.count, stream.bad, round(seconds, 2),
        round(stream.compile_seconds, 2), round(stream.count / working), len(stream.devices),
    ]  # fmt: skip
    notes = [f"records a second: without compiling; devices: {', '.join(kinds)}"]
    if stream.unseen:
        notes.append(f"{stream.unseen} features that training did not have were dropped")
    return Table("Labelled", columns, [row], notes)


def _tell_bad(labelled: Labelled) -> None:
    for job, counts in labelled.files:
        if counts.bad and job.report is not None:
            message = f"{counts.bad} of {counts.records} records are bad, see {job.report}"
            print(f"{job.source}: {message}", file=sys.stderr)
