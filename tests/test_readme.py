"""The README's commands are those of CI, and other pages list all there is; test_docs runs them."""

from __future__ import annotations

import ast
import pathlib
import re

import jaxstruct as js
from jaxstruct.solvers.objective.formulations import FORMULATIONS

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_tagger_takes_eight_lines() -> None:
    tagger = README.split("<!-- tagger -->")[1].split("```")[1]
    code = [line for line in tagger.splitlines()[1:] if line and not line.startswith("#")]
    assert tagger.startswith("python") and len(code) <= 8


def test_the_test_command_is_marked_for_ci() -> None:
    command = README.split("<!-- tests -->")[1].split("```")[1]
    assert 'pip install -e ".[test]" && python -m pytest' in command
    assert "<!-- tests -->" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def _is_data(statement: ast.stmt) -> bool:
    """Whether a statement imports, or writes down data without the library."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return True
    return not any(
        isinstance(node, ast.Name) and node.id in ("js", "data") for node in ast.walk(statement)
    )


def _lines_before_fit(block: str) -> int:
    """Lines of an example between its data and js.fit."""
    statements = ast.parse(block).body
    at = next(i for i, one in enumerate(statements) if "js.fit(" in ast.unparse(one))
    return sum(one.end_lineno - one.lineno + 1 for one in statements[:at] if not _is_data(one))


def test_own_data_takes_three_lines_before_fit_at_most() -> None:
    page = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"<!-- own data: (\w+) -->\n```python\n(.*?)```", page, flags=re.S))
    counts = {name: _lines_before_fit(block) for name, block in blocks.items()}
    assert len(counts) == 10 and all(0 < count <= 3 for count in counts.values()), counts
    assert _lines_before_fit("import jaxstruct as js\nx = [\n1]\na = js.f(\nx)\ns = js.fit(a)") == 2


def test_every_status_and_formulation_has_a_row() -> None:
    pages = {
        name: (ROOT / "docs" / f"{name}.md").read_text("utf-8")
        for name in ("tasks/convergence", "choosing")
    }
    for status in js.Status:
        assert pages["tasks/convergence"].count(f"| `{status.name}` |") == 1, status
    rows = re.findall(r"^\| (`svm.*?) \|", pages["choosing"], flags=re.M)
    named = re.findall(r"`(svm\w+)`", " ".join(rows))
    assert sorted(named) == sorted(FORMULATIONS)


def test_the_floor_plan_has_every_room() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    plan = text.split("## Floor plan")[1].split("\n## ")[0]
    rooms = {path.parent.name for path in (ROOT / "jaxstruct").glob("*/__init__.py")}
    drawn = set(re.findall(r"^      (\w+)/ ", plan, flags=re.M))
    assert drawn == rooms
    drawn = set(re.findall(r"^    (\w+)/ ?", plan, flags=re.M))
    assert drawn == {"jaxstruct", "experiments", "tests", "third_party_data", "docs"}
    assert all((ROOT / name).is_dir() for name in drawn)
