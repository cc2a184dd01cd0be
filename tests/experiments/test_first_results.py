"""experiments.first_results: the table, and what is counted."""

from __future__ import annotations

import ast

import pytest

from experiments.first_results import command as first_results
from experiments.first_results.command import SCRIPTS, TOOLS, Options, lines_of_code
from tests.experiments.scripts import strict_json


def test_ours_are_no_longer_than_theirs_and_print_one_score() -> None:
    for task in TOOLS:
        ours, theirs = (SCRIPTS / f"{task}_{side}.py" for side in ("ours", "theirs"))
        assert 4 < lines_of_code(ours) <= lines_of_code(theirs)
        for path in (ours, theirs):
            body = ast.parse(path.read_text(encoding="utf-8")).body
            calls = [ast.unparse(node) for node in body if isinstance(node, ast.Expr)]
            assert sum(call.startswith("print(") for call in calls) == 1


def test_lines_are_lines_of_code(tmp_path) -> None:
    path = tmp_path / "program.py"
    path.write_text('"""One\n\nthing."""\n\n# a comment\nx = 1\n\nprint(\n    x\n)\n')
    assert lines_of_code(path) == 4


@pytest.mark.thorough
def test_both_programs_run_apart(tmp_path, monkeypatch) -> None:
    found = iter([0.9, 0.9, 0.8, 0.8])
    called = []

    def fake(name, cache):
        called.append(name)
        return next(found), 2.0 - len(called) / 10, 3.0

    monkeypatch.setattr(first_results, "timed", fake)
    options = Options(tasks=("parsing",), output=str(tmp_path), progress=False)
    outcome = first_results.run(options)
    ours, theirs = strict_json(tmp_path / "first_results.json")["rows"]
    assert called == ["parsing_ours"] * 2 + ["parsing_theirs"] * 2
    assert ours["score"] == 0.9 and theirs["score"] == 0.8 and ours["first"] == [1.9, 3.0]
    assert theirs["tool"] == "NLTK's PCFG" and len(outcome.table.rows) == 2
