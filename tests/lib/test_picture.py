"""What a run cost beside the last commit's, what is missing for it, and what it leaves out."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest
from tests.lib.thorough import THOROUGH, each_value_once, first_combinations, thorough_after

ROOT = Path(__file__).parents[2]
RUN = {"seconds": {"chains": 8.0, "trees": 30.5}, "slowest": {"tests/a.py::b": 9.5},
       "programs": 40, "peak": 900, "passed": 7}  # fmt: skip


@pytest.fixture
def picture(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("picture", ROOT / ".ci" / "picture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "KEPT", tmp_path / "pictures.json")
    return module


def test_a_run_stands_beside_that_of_the_last_commit(picture, monkeypatch, tmp_path, capsys):
    (tmp_path / "run").write_text(json.dumps(RUN))

    def shown(commit: str) -> str:
        done = SimpleNamespace(stdout=f"{commit}\n")
        monkeypatch.setattr(picture.subprocess, "run", lambda *_, **__: done)
        picture.main(str(tmp_path / "run"), "tests=60", "site=9")
        return capsys.readouterr().out

    first = shown("a")
    assert "has no run of another commit" in first and "9.5 s  tests/a.py::b" in first
    assert first.index("trees (s)") < first.index("chains (s)")
    (tmp_path / "run").write_text(json.dumps(RUN | {"programs": 50}))
    for commit in ("b", "b"):  # beside a both times
        lines = [line.split() for line in shown(commit).splitlines()]
        assert ["programs", "compiled", "50", "40", "+25%"] in lines and lines[0] == ["now", "a"]
        assert ["step", "tests", "(s)", "60", "60", "+0%"] in lines


def test_packages_that_are_not_installed_are_named(monkeypatch):
    assert conftest._missing() == []
    monkeypatch.setattr(conftest.importlib.metadata, "distributions", lambda **_: [])
    assert {"jax", "pytest-xdist", "absl-py", "scikit-learn", "tqdm"} <= set(conftest._missing())


def test_all_values_but_the_first_are_thorough():
    first, second, third = thorough_after(1, [1, (2, 3), pytest.param(4, id="four")])
    assert first == 1 and second.values == (2, 3) and third.values == (4,)
    assert third.id == "four" and [*second.marks] == [*third.marks] == [THOROUGH]


def test_slow_files_are_there_and_the_first_combination_is_taken(request):
    assert [name for name in conftest.EARLY if not (ROOT / "tests" / name).exists()] == []
    items = request.session.items
    first = first_combinations(items)
    assert [item for item in items if item in first][:1] == items[:1]
    assert len(first) == len({item.nodeid.partition("[")[0] for item in items})


@pytest.mark.parametrize("letter", "ab")
@pytest.mark.parametrize(("number", "other"), [(1, 0), (2, 0), (3, 0)])
def test_a_plain_run_takes_each_value_once(request, letter, number, other):
    """Three of these six, and all of them with --thorough or by their name."""
    name = request.node.originalname
    own = {item for item in request.session.items if getattr(item, "originalname", "") == name}
    assert len(each_value_once(list(own))) == min(3, len(own))
    named = any("::" in argument for argument in request.config.args)
    assert len(own) in (1, 6 if named or request.config.option.thorough else 3)
