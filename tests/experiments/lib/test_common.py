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


@pytest.mark.parametrize(("count", "error"), [(0, KeyboardInterrupt), (2, ZeroDivisionError)])
def test_nothing_finished_or_another_error_leaves_no_file(tmp_path, count, error):
    with pytest.raises(error) as stop:
        stopped_after(Options(output=str(tmp_path)), count, error=error)
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
    common.save(options, Table("T", ["a"], [[1]]), {"rows": [1]}, name="numbers")
    left = {"numbers.csv", "numbers.json", "numbers.md"}  # a run that ends takes the other away
    assert {each.name for each in tmp_path.iterdir()} == left


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
