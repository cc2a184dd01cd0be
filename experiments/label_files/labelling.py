"""Files through one stream of predictions: each labelled file appears whole, or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from experiments.label_files.formats import FORMATS, NOTHING, Item, Reading
from experiments.lib.files import write_results
from experiments.lib.interrupts import raise_noted_interrupt
from experiments.lib.reading import digest_of, lines_of, opened
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.files import replacing
from jaxstruct.models import BadRecord, PredictionStream, TrainedModel
from jaxstruct.models.stream import Device, predict_stream


class Job(NamedTuple):
    """A file to label.

    Fields:
      source: the file; "-" is standard input. target: the labelled file; None is standard output.
      format: of `FORMATS`. reading: how its lines are read.
      key: all that decides what is written, besides the file.
    """

    source: str
    target: Path | None
    format: str
    reading: Reading
    key: Mapping[str, Any]

    @property
    def report(self) -> Path | None:
        """Where bad records are reported: beside the labelled file."""
        return None if self.target is None else Path(f"{self.target}.bad.tsv")

    @property
    def note(self) -> Path | None:
        """Where it is noted of which file the labelled one is."""
        return None if self.target is None else Path(f"{self.target}.done.json")


class Counts(NamedTuple):
    """Of a file, or of all."""

    records: int = 0
    bad: int = 0


def is_done(job: Job) -> bool:
    """Whether its labelled file is there, by the same model and options, and the file the same."""
    if job.note is None or job.target is None or not job.note.is_file():
        return False
    try:
        noted = json.loads(job.note.read_text(encoding="utf-8"))
        there, before = noted["output"], noted["input"]
        same = noted["key"] == json.loads(json.dumps(job.key)) and (
            there["bytes"] == job.target.stat().st_size
        )
        if not same:
            return False
        now = os.stat(job.source)
        if before["bytes"] != now.st_size:
            return False
        return before["modified"] == now.st_mtime_ns or before["sha256"] == digest_of(job.source)
    except (OSError, ValueError, KeyError, TypeError):
        return False


class _Begin(NamedTuple):
    job: Job


class _End(NamedTuple):
    job: Job
    sha256: str
    size: int
    modified: int | None


class _Writer:
    """The labelled file of a job and its report, under temporary names until `finish`."""

    def __init__(self, job: Job) -> None:
        self.job, self.counts = job, Counts()
        self._stack = contextlib.ExitStack()
        self._report: BinaryIO | None = None
        self._files: list[BinaryIO] = []
        if job.target is None:
            self._out: BinaryIO = sys.stdout.buffer
        else:
            for path in (job.note, job.report):
                path.unlink(missing_ok=True)  # type: ignore[union-attr]
            self._out = self._begun(job.target)

    def _begun(self, path: Path) -> BinaryIO:
        temporary = self._stack.enter_context(replacing(path))
        self._files.append(self._stack.enter_context(open(temporary, "xb")))
        return self._files[-1]

    def add(self, item: Item, predicted: Any) -> None:
        """Write what was found of an item; of a BadRecord an empty place, and why."""
        if item.record is NOTHING:
            self._line(item.text)
            return
        bad = isinstance(predicted, BadRecord)
        self.counts = Counts(self.counts.records + 1, self.counts.bad + bad)
        if bad:
            self._tell(item, predicted.reason)
        write = FORMATS[self.job.format].write
        self._line(write(self.job.reading, item, None if bad else predicted))

    def _line(self, text: str) -> None:
        self._out.write(text.encode("utf-8", "backslashreplace") + b"\n")

    def _tell(self, item: Item, reason: str) -> None:
        if self.job.report is None:
            print(f"{self.job.source}:{item.number}: {reason}", file=sys.stderr)
            return
        if self._report is None:
            self._report = self._begun(self.job.report)
            self._report.write(b"line\treason\n")
        line = " ".join(reason.split())
        self._report.write(f"{item.number}\t{line}\n".encode("utf-8", "backslashreplace"))

    def finish(self, end: _End) -> None:
        """Have the files appear, and note what they are of."""
        for stream in self._files:
            stream.flush()
            os.fsync(stream.fileno())
        if self.job.target is None:
            self._out.flush()
        self._stack.close()
        if self.job.target is None or self.job.note is None:
            return
        content = {
            "input": {
                "path": self.job.source, "bytes": end.size, "modified": end.modified,
                "sha256": end.sha256,
            },
            "output": {"bytes": self.job.target.stat().st_size},
            "key": self.job.key, **self.counts._asdict(),
        }  # fmt: skip
        write_results(self.job.note.parent, self.job.note.name.removesuffix(".json"), content)

    def drop(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(_Dropped), self._stack:
            raise _Dropped


class _Dropped(Exception):
    """Has temporary files removed in place of renamed."""


class Labelled(NamedTuple):
    """What became of the files.

    Fields:
      files: Job and Counts of each, in the order of the jobs. stream: that predicted.
    """

    files: Sequence[tuple[Job, Counts]]
    stream: PredictionStream


def label_files(
    model: TrainedModel,
    jobs: Sequence[Job],
    *,
    batch: int = 1024,
    devices: Sequence[Device] | None = None,
    read: Callable[[int], object] = lambda count: None,
    labelled: Callable[[PredictionStream], object] = lambda stream: None,
    done: list[tuple[Job, Counts]] | None = None,
) -> Labelled:
    """Label all files, in one stream, so that small ones share batches.

    Args:
      model: that labels. jobs: the files. batch, devices: as `predict_stream`.
      read: called with the number of bytes that were read. labelled: called every thousand records.
      done: gets each file as it is finished.

    Raises:
      OSError, MalformedFile: a file cannot be read to its end, or none can be written. Files that
        were finished stay, of the others nothing.
    """
    queue: deque[_Begin | Item | _End] = deque()
    done = [] if done is None else done
    stream = predict_stream(model, _records(jobs, queue, read), batch=batch, devices=devices)
    writer: _Writer | None = None

    def write(predicted: Any) -> None:
        """What stands in the queue up to a record, which was predicted, or all that is left."""
        nonlocal writer
        while queue:
            head = queue.popleft()
            if isinstance(head, _Begin):
                writer = _Writer(head.job)
                continue
            assert writer is not None, "a file begins before its records and its end"
            if isinstance(head, _End):
                finished, writer = writer, None
                _finish(finished, head)
                done.append((head.job, finished.counts))
                continue
            writer.add(head, predicted)
            if head.record is not NOTHING:
                return

    def next_one() -> Any:
        try:
            return next(stream)
        except StopIteration:
            return _END
        except Exception:  # of reading: all records before it are written, so files may be whole
            write(None)
            raise

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenFeatures)  # the table counts them
            while (predicted := next_one()) is not _END:
                write(predicted)
                if stream.count % 1000 == 0:
                    labelled(stream)
                    raise_noted_interrupt()
            write(None)
        labelled(stream)
    finally:
        stream.close()
        if writer is not None:
            writer.drop()
    return Labelled(done, stream)


_END = object()


def _finish(writer: _Writer, end: _End) -> None:
    try:
        writer.finish(end)
    except BaseException:
        writer.drop()
        raise


def _records(
    jobs: Sequence[Job], queue: deque[_Begin | Item | _End], read: Callable[[int], object]
) -> Iterator[Any]:
    """The records of all files; the queue gets them too, with all that lies between."""
    for job in jobs:
        modified = None if job.source == "-" else os.stat(job.source).st_mtime_ns
        with opened(job.source, read) as (source, content):
            queue.append(_Begin(job))
            for item in FORMATS[job.format].read(job.reading, lines_of(content, job.source)):
                queue.append(item)
                if item.record is not NOTHING:
                    yield item.record
        queue.append(_End(job, source.sha256, source.count, modified))
