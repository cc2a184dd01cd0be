"""A part measures one file."""

from __future__ import annotations

from experiments.bulk_speed.part import measured
from tests.experiments.label_files.cases import saved
from tests.experiments.scripts import kept_settings


def test_one_file_is_measured(tmp_path, capsys) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('["word=x"]\n{\n')
    with kept_settings():
        found = measured(saved(tmp_path, "multiclass"), str(source), str(tmp_path), 1)
    assert (found["records"], found["bad"]) == (2, 1) and found["memory"] > 1e7
    assert found["seconds"] >= found["compiling"] >= 0 and found["working"] > 0
    told = capsys.readouterr()
    assert told.out == "" and "records a second" in told.err
