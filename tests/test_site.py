"""The site has every page and every public name; `.ci/run` builds it, and a warning is an error."""

from __future__ import annotations

import pathlib
import re

import jaxstruct

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"


def test_every_public_room_is_in_the_reference() -> None:
    rooms = {"jaxstruct", *(f"jaxstruct.{name}" for name in jaxstruct._LAZY)}
    shown = {}
    for page in DOCS.glob("api/*.md"):
        for room in re.findall(r"automodule:: (\S+)", page.read_text(encoding="utf-8")):
            shown[room] = page.stem
    assert set(shown) == rooms
    listed = re.findall(r"^\w+$", (DOCS / "api/index.md").read_text(encoding="utf-8"), flags=re.M)
    assert sorted(listed) == sorted(shown.values())


def test_every_page_can_be_reached() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", index, flags=re.S)
    listed = {line for block in blocks for line in block.splitlines() if line[:1] not in {"", ":"}}
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    pages = {page for page in pages if not page.startswith("build/")}
    assert pages - {"index"} - {page for page in pages if page.startswith("api/")} == (
        listed - {"api/index"}
    )


def test_ci_builds_the_site() -> None:
    said = "python -m sphinx -W docs docs/build"
    assert said in (DOCS / "installation.md").read_text(encoding="utf-8")
    assert said in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
