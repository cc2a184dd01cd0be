"""Files through one stream: whole or not at all, aligned with their input, done or not."""

from __future__ import annotations

import os

import pytest

from experiments.label_files.formats import Reading
from experiments.label_files.labelling import Counts, Job, is_done, label_files
from jaxstruct.data.errors import MalformedFile
from tests.experiments.label_files.cases import model_of
from tests.lib.refusals import refused

GOOD = '["word=x"]\n["word=y"]\n'


def job_of(tmp_path, name: str, content: str | bytes = GOOD) -> Job:
    source = tmp_path / name
    source.write_bytes(content if isinstance(content, bytes) else content.encode())
    key = {"model": "m", "columns": ("a",)}
    reading = Reading(model_of("multiclass"))
    return Job(str(source), tmp_path / "out" / f"{name}.labelled", "jsonl", reading, key)


def names(tmp_path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "out").glob("*"))


def test_files_of_any_size_share_a_stream(tmp_path) -> None:
    model = model_of("multiclass")
    contents = [GOOD, "", "\n\n", "[1]\n", GOOD * 20, "\n" + GOOD + "\n[", GOOD]
    jobs = [job_of(tmp_path, f"{i}", content) for i, content in enumerate(contents)]
    read, reported = [], []
    labelled = label_files(model, jobs, batch=4, read=read.append, labelled=reported.append)
    assert [job for job, _ in labelled.files] == jobs
    assert [counts for _, counts in labelled.files] == [
        Counts(2), Counts(), Counts(), Counts(1, 1), Counts(40), Counts(3, 1), Counts(2),
    ]  # fmt: skip
    one, two = (f'"{label}"' if isinstance(label, str) else str(label).lower()
                for label in model.predict([["word=x"], ["word=y"]]))  # fmt: skip
    lines = [job.target.read_text().split("\n") for job in jobs]
    assert lines[0] == [one, two, ""] and lines[1] == [""] and lines[2] == ["", "", ""]
    assert lines[3] == ["null", ""] and lines[4] == [one, two] * 20 + [""]
    assert lines[5] == ["", one, two, "", "null", ""]
    assert "5\tno JSON" in jobs[5].report.read_text() and not jobs[0].report.exists()
    assert jobs[3].report.read_text().startswith("line\treason\n1\t")
    assert sum(read) == sum(map(len, contents)) and reported == [labelled.stream]
    assert labelled.stream.count == 48 and all(map(is_done, jobs))


def test_a_file_is_done_until_it_or_the_model_or_an_option_changes(tmp_path) -> None:
    job = job_of(tmp_path, "a")
    assert not is_done(job)
    label_files(model_of("multiclass"), [job])
    assert is_done(job) and is_done(job._replace(key={"columns": ["a"], "model": "m"}))
    assert not is_done(job._replace(key={**job.key, "model": "another"}))
    os.utime(job.source, ns=(1, 1))
    assert is_done(job)  # touched, with the same content
    with open(job.source, "w") as stream:
        stream.write(GOOD.replace("x", "z"))
    assert not is_done(job)
    job_of(tmp_path, "a")
    assert is_done(job)
    whole = job.target.read_text()
    job.target.write_text(whole[:-1])
    assert not is_done(job)
    job.target.write_text(whole)
    assert is_done(job)
    job.note.write_text("[]")
    assert not is_done(job)
    os.unlink(job.source)
    assert not is_done(job)


def test_an_error_while_reading_leaves_whole_files_alone(tmp_path) -> None:
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b.gz", b"no gzip"), job_of(tmp_path, "c")]
    done: list = []
    message, model = "b.gz:1: the packed file is damaged", model_of("multiclass")
    refused(message, label_files, model, jobs, done=done, error=MalformedFile)
    assert [job for job, _ in done] == jobs[:1]
    assert names(tmp_path) == ["a.labelled", "a.labelled.done.json"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_what_is_stopped_leaves_no_half_file(tmp_path, stop) -> None:
    jobs = [job_of(tmp_path, "a"), job_of(tmp_path, "b", GOOD + "[1]\n" + GOOD * 1000)]
    label_files(model_of("multiclass"), jobs[1:])
    assert is_done(jobs[1])

    def stopped(stream) -> None:
        assert any(name.endswith(".part") for name in names(tmp_path))
        raise stop

    with pytest.raises(stop):
        label_files(model_of("multiclass"), jobs, batch=4, labelled=stopped)
    assert [name for name in names(tmp_path) if name.endswith(".part")] == []
    assert is_done(jobs[0]) and not is_done(jobs[1])
