"""The site has every page and every public name; `.ci/run` builds it, and a warning is an error."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re

import pytest

import jaxstruct

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"


def test_every_public_room_is_in_the_reference() -> None:
    rooms = {"jaxstruct", *(f"jaxstruct.{name}" for name in jaxstruct._LAZY)}
    shown = {}
    for page in DOCS.glob("api/*.md"):
        for room in re.findall(r"\{names of ([\w.]+)", page.read_text(encoding="utf-8")):
            shown[room] = page.stem
    assert set(shown) == rooms
    listed = re.findall(r"^\w+$", (DOCS / "api/index.md").read_text(encoding="utf-8"), flags=re.M)
    assert sorted(listed) == sorted([*shown.values(), "structural_estimator"])


def test_every_page_can_be_reached() -> None:
    """From the tables of contents of the first page and of those below it; api/ has its own."""
    listed, pages = {"index"}, set()
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("")
        if name.parts[0] not in ("build", "api"):
            pages.add(str(name))
            for block in re.findall(
                r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), flags=re.S
            ):
                listed |= {str(name.parent / line) for line in re.findall(r"(?m)^\w\S*$", block)}
    assert pages == listed - {"api/index"}


def test_ci_builds_the_site() -> None:
    said = "python -m sphinx -W docs docs/build"
    assert said in (DOCS / "installation.md").read_text(encoding="utf-8")
    assert said in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_links_of_the_built_site_are_checked(tmp_path) -> None:
    spec = importlib.util.spec_from_file_location("check_links", DOCS / "check_links.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "index.html").write_text('<p id="fit">', encoding="utf-8")
    page = tmp_path / "index.html"
    good = '<a href="api/index.html#fit">', '<a href="https://arxiv.org">', '<a href="#">'
    page.write_text("".join(good), encoding="utf-8")
    assert module.broken(tmp_path) == []
    bad = "api/none.html", "api/index.html#none", "#none"
    page.write_text("".join(f'<a href="{one}">' for one in bad), encoding="utf-8")
    assert module.broken(tmp_path) == sorted(f"{page}: {one}" for one in bad)
    page.write_text('<script src="https://cdn.example/x.js">', encoding="utf-8")
    assert module.broken(tmp_path) == [f"{page}: loads https://cdn.example/x.js"]


def test_the_front_picture_is_drawn(tmp_path) -> None:
    """On smaller grids than the one that is kept; both read what they are given."""
    pytest.importorskip("matplotlib")
    path = DOCS / "front_picture.py"
    spec = importlib.util.spec_from_file_location("front_picture", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wrong = module.draw(tmp_path / "picture.png", size=10, trained=3)
    assert wrong["under the graph"] < wrong["each cell alone"]
    assert (tmp_path / "picture.png").stat().st_size > 5000
    kept = json.loads((DOCS / "front_picture.json").read_text(encoding="utf-8"))["wrong"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"read alone, {kept['each cell alone'] * 100:.0f} % wrong" in text
    assert f"under the graph, {kept['under the graph'] * 100:.0f} % wrong" in text
