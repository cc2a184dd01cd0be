"""The benchmark of prediction in bulk runs, and its rates are those of its times."""

from __future__ import annotations

import pytest

from experiments.bulk_speed import command
from experiments.lib import common
from tests.experiments.scripts import kept_settings, stop_after, strict_json


def test_small_run(tmp_path) -> None:
    options = command.Options(
        sentences=0, texts=40, devices=("2",), output=str(tmp_path), progress=False,
        compilation_cache=False,
    )  # fmt: skip
    with kept_settings():
        rows = command.run(options).numbers["rows"]
    assert [(row["task"], row["records"], row["devices"], row["bad"]) for row in rows] == [
        ("texts", 10, 2, 0), ("texts", 40, 2, 0),
    ]  # fmt: skip
    for row in rows:
        assert row["rate"] == pytest.approx(row["records"] / (row["seconds"] - row["compiling"]))
        assert row["working"] > 0 and row["memory"] > 1e7
    assert strict_json(tmp_path / "bulk_speed.json")["rows"] == rows


def test_ctrl_c_keeps_the_tasks_that_are_done(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(command, "_measure", stop_after(1, [{"task": "a"}]))
    options = command.Options(output=str(tmp_path), compilation_cache=False)
    with kept_settings(), pytest.raises(common.Stopped):
        command.run(options)
    assert strict_json(tmp_path / "bulk_speed.stopped.json")["rows"] == [{"task": "a"}]
