"""What the commands share: what Ctrl-C leaves, and what a run that ends takes away."""

from __future__ import annotations

import pytest

from experiments.lib import common, fields
from experiments.lib.report import Table
from tests.experiments.scripts import strict_json


class Options(fields.Common):
    pass


def stopped_after(options, count, advice="", error=KeyboardInterrupt):
    rows = []
    with common.kept_if_stopped(options, {"rows": rows}, advice, "numbers"):
        for number in range(count):
            rows.append({"number": number})
        raise error


def test_what_is_finished_is_kept_and_marked(tmp_path):
    options = Options(output=str(tmp_path))
    with pytest.raises(common.Stopped) as stop:
        stopped_after(options, 2, "go on")
    path = tmp_path / "numbers.stopped.json"
    assert str(stop.value) == f"stopped: what was finished is in {path}; go on"
    content = strict_json(path)
    assert content["stopped"] is True and content["rows"] == [{"number": 0}, {"number": 1}]
    assert "python -m experiments.experiments " in content["record"]["command"]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_nothing_finished_leaves_no_file(tmp_path):
    with pytest.raises(KeyboardInterrupt) as stop:
        stopped_after(Options(output=str(tmp_path)), 0)
    assert not isinstance(stop.value, common.Stopped) and not list(tmp_path.iterdir())


def test_what_a_part_kept_is_told_in_the_same_line(tmp_path):
    options, inner = Options(output=str(tmp_path)), common.Stopped(["part.stopped.json"])
    with pytest.raises(common.Stopped) as stop:
        stopped_after(options, 0, error=inner)
    assert str(stop.value) == "stopped: what was finished is in part.stopped.json"
    with pytest.raises(common.Stopped) as stop:
        stopped_after(options, 2, error=inner)
    own = tmp_path / "numbers.stopped.json"
    assert str(stop.value) == f"stopped: what was finished is in {own}, part.stopped.json"
    assert own.exists()


def test_a_run_that_ends_takes_the_stopped_file_away(tmp_path, capsys):
    options = Options(output=str(tmp_path))
    with pytest.raises(common.Stopped):
        stopped_after(options, 1)
    common.save(options, Table("T", ["a"], [[1]]), {"rows": [1]}, name="numbers")
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "numbers.csv", "numbers.json", "numbers.md",
    ]  # fmt: skip


def test_rows_of_groups_that_ended_are_kept(tmp_path):
    options = Options(output=str(tmp_path))

    def groups():
        yield [{"a": 1}, {"a": 2}]
        yield [{"a": 3}]
        if stopping:
            raise KeyboardInterrupt

    stopping = False
    assert common.finished_rows(options, groups(), "x") == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert not list(tmp_path.iterdir())
    stopping = True
    with pytest.raises(common.Stopped, match="x.stopped.json"):
        common.finished_rows(options, groups(), "x")
    assert strict_json(tmp_path / "x.stopped.json")["rows"] == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_other_errors_pass(tmp_path):
    with pytest.raises(ZeroDivisionError):
        stopped_after(Options(output=str(tmp_path)), 2, error=ZeroDivisionError)
    assert not list(tmp_path.iterdir())
