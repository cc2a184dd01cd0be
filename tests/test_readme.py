"""The examples of the README run; its commands are those of CI."""

from __future__ import annotations

import ast
import io
import itertools
import pathlib
import re
import sys
import tokenize

import jaxstruct as js
from jaxstruct.solvers.objective.formulations import FORMULATIONS

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)
"""Its examples; those of the site's pages are executed by its build or by `test_docs`."""


def _block(part: str) -> str:
    """The one example that holds this text."""
    found = [block for block in BLOCKS if part in block]
    assert len(found) == 1, f"{part!r} stands in {len(found)} examples"
    return found[0]


def _run(part: str) -> dict:
    """The names that an example leaves behind; it starts from nothing, and prints what it shows."""
    block, lines = _block(part), {}

    def note(*values: object) -> None:
        print(*values)
        lines.setdefault(sys._getframe(1).f_lineno, []).extend(" ".join(map(str, values)).split())

    names: dict = {"print": note}
    exec(block, names)  # noqa: S102
    for begin, end, shown in _shown(block):
        printed = [word for line in range(begin, end + 1) for word in lines.get(line, [])]
        assert _are_same(printed, shown.split()), f"shown is {shown!r}, printed {printed}"
    return names


def _shown(block: str) -> list[tuple[int, int, str]]:
    """(first line, last line, what the comment at its end or below it shows) of every print."""
    tokens = tokenize.generate_tokens(io.StringIO(block).readline)
    comments = {token.start: token.string[1:] for token in tokens if token.type == tokenize.COMMENT}
    beside = {line: text for (line, column), text in comments.items() if column}
    below = {line: text for (line, column), text in comments.items() if not column}
    found = []
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            lines = itertools.takewhile(below.__contains__, itertools.count(node.end_lineno + 1))
            shown = [beside.get(node.end_lineno, ""), *(below[line] for line in lines)]
            found.append((node.lineno, node.end_lineno, " ".join(shown)))
    return [one for one in found if one[2].strip()]


def _are_same(printed: list[str], shown: list[str]) -> bool:
    """Whether words are equal, decimal fractions up to one in the last digit shown."""

    def agree(one: str, other: str) -> bool:
        if not re.fullmatch(r"\d+\.\d+,?", other):
            return one == other
        unit = 10.0 ** -len(other.rstrip(",").split(".")[1])
        return abs(float(one.rstrip(",")) - float(other.rstrip(","))) <= unit

    return len(printed) == len(shown) and all(map(agree, printed, shown))


def test_what_an_example_shows_is_compared_with_what_it_prints() -> None:
    block = 'print(2, "a")  # 2 a\nfor i in (1, 2):\n    print(\n        i\n    )\n# 0.33 0.67\n'
    assert [(a, b, text.split()) for a, b, text in _shown(block)] == [
        (1, 1, ["2", "a"]), (3, 5, ["0.33", "0.67"]),
    ]  # fmt: skip
    assert sum(len(_shown(block)) for block in BLOCKS) >= 2
    assert _are_same(["CONVERGED", "29.9604089"], ["CONVERGED", "29.9604"])
    for printed in (["CONVERGED", "29.9622"], ["ROUNDING", "29.9604"], ["CONVERGED"]):
        assert not _are_same(printed, ["CONVERGED", "29.9604"])


def test_every_example_has_a_test() -> None:
    tests = pathlib.Path(__file__).read_text(encoding="utf-8")
    parts = re.findall(r'_run\("(.*?)"\)', tests)
    assert sorted(BLOCKS) == sorted(_block(part) for part in parts)


def test_the_way_in_by_functions_ranks_too() -> None:
    assert _run("model.on(sentences)")["solution"].status.solved


def test_a_tagger_takes_eight_lines_and_prints_its_certificate(capsys) -> None:
    assert len(_block("js.estimators").strip().splitlines()) == 8
    tagger = _run("js.estimators")["tagger"]
    assert capsys.readouterr().out.startswith("CONVERGED")
    assert 0 <= tagger.primal_ - tagger.dual_ <= 1e-3 * tagger.primal_


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
    assert len(counts) == 7 and all(0 < count <= 3 for count in counts.values()), counts
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
