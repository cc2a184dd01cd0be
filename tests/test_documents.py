"""docs/documents.md: every row names files and tests that there are."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", PAGE, flags=re.M)[1:]
HOLDING = [part for part in SECTIONS if "| file | test |" in part]


def _rows(section: str) -> list[list[str]]:
    """The cells of each row of the section's table, heading and rule left out."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


ROWS = [row for section in HOLDING for row in _rows(section)]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


def test_the_page_has_every_document() -> None:
    titles = [section.splitlines()[0] for section in HOLDING]
    assert len(titles) == 6 and sum(title.startswith("Thesis") for title in titles) == 3
    assert {"Notes", "Slides"} <= set(titles) and len(ROWS) > 100
    assert {len(row) for row in ROWS} == {4}


def test_every_row_opens_files_that_exist() -> None:
    missing = []
    for row in ROWS:
        _, what, files, tests = row
        assert what and re.fullmatch(r"(`[^`]+`(, )?)+", files), row
        assert re.fullmatch(r"(`tests/[\w/]+\.py::test_\w+`(, )?)+", tests), row
        assert re.search(r"`tests/(?!truth/)", tests), f"none runs the package: {row}"
        missing += [path for path in re.findall(r"`([^`]+)`", files) if not (ROOT / path).is_file()]
    assert not missing


@pytest.mark.smoke
def test_every_test_that_is_named_exists() -> None:
    sources = {path: (ROOT / path).read_text(encoding="utf-8") for path, _ in NAMED}
    missing = [
        f"{path} has no {name}"
        for path, name in NAMED
        if not re.search(rf"^def {name}\(", sources[path], flags=re.M)
    ]
    assert len(NAMED) > 100 and not missing


def test_every_numbered_statement_has_its_row() -> None:
    """Algorithms, propositions, theorems, lemma and corollaries of the thesis."""
    cells = " ".join(row[0] for row in ROWS)
    found = set()
    for kind, first, last in re.findall(
        r"(propositions?|corollary|theorem|lemma|algorithm)s? (\d+)(?: to (\d+))?", cells
    ):
        kind = kind.removesuffix("s")
        found |= {(kind, number) for number in range(int(first), int(last or first) + 1)}
    for kind, first, last in re.findall(r"(proposition)s (\d+), (\d+)", cells):
        found |= {(kind, int(first)), (kind, int(last))}
    wanted = {("proposition", number) for number in range(1, 26)}
    wanted |= {("algorithm", number) for number in range(1, 6)}
    wanted |= {("corollary", number) for number in range(1, 5)}
    wanted |= {("theorem", number) for number in range(1, 4)} | {("lemma", 1)}
    assert wanted <= found, sorted(wanted - found)
