"""One page of the tables that are made: HTML with its pictures inside, and how to make the rest."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from experiments.lib.report import Table
from experiments.reproduce.overview import MADE
from jaxstruct.core.files import write_file

STYLE = """
body { max-width: 72em; margin: 2em auto; padding: 0 1em; font: 16px/1.5 sans-serif; color: #222 }
section { margin: 3em 0 } h1, h2 { line-height: 1.2 } img { max-width: 100%; height: auto }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 14px }
th, td { padding: .25em .7em; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
.number { text-align: right; font-variant-numeric: tabular-nums } thead th { border-color: #555 }
.verdict { font-weight: bold } code { background: #f3f3f3; overflow-wrap: anywhere }
"""
CELL_END = re.compile(r"(?<!\\)\|")
"""A pipe between two cells of a table in Markdown, not one of a text."""


def is_shown(row: Mapping[str, Any]) -> bool:
    """Whether the table of a row is made, and its files are still there."""
    if row["status"] not in MADE or "verdict" not in row:
        return False
    files = [Path(row["file"]), Path(row["file"]).with_suffix(".md"), *map(Path, row["pictures"])]
    return all(file.exists() for file in files)


def write_page(folder: str | Path, made: Sequence[Mapping[str, Any]], rest: Table) -> Path:
    """Write folder/index.html and return the path.

    Args:
      made: rows of `reproduce` that `is_shown`, with "name", "what", "verdict", "seconds", "file"
        (the JSON of the table; Markdown lies beside it) and "pictures" (PNG).
      rest: what else there is, and what it needs.
    """
    sections = [_section(row) for row in made]
    contents = "".join(
        f'<li><a href="#{escape(row["name"])}">{escape(row["name"])}</a>: {escape(row["what"])}. '
        f"{escape(row['verdict'])}</li>"
        for row in made
    )
    cells = [["" if cell is None else str(cell) for cell in row] for row in rest.rows]
    body = [
        "<h1>jaxstruct: tables and figures</h1>",
        f"<p>Made on this machine. Seconds are of the clock, compiling included.</p>"
        f"<ul>{contents}</ul>",
        *sections,
        "<section><h2>How to make the rest</h2>",
        "<p><code>python -m experiments.reproduce --all</code> makes every table for which the "
        "corpora are here, <code>--only=NAME</code> one of them, <code>--download</code> gets "
        "what has a public address. This page then shows them, too.</p>",
        _table([str(name) for name in rest.columns], [False, False, True, False], cells),
        _notes(rest.notes),
        "</section>",
    ]
    return write_file(
        Path(folder) / "index.html",
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>jaxstruct: tables and figures</title><style>{STYLE}</style></head>\n"
        "<body>\n" + "\n".join(body) + "\n</body>\n</html>\n",
    )


def _section(row: Mapping[str, Any]) -> str:
    """A table with its verdict, pictures, command and seconds."""
    file = Path(row["file"])
    content = json.loads(file.read_text(encoding="utf-8"))
    lines = file.with_suffix(".md").read_text(encoding="utf-8").splitlines()
    head, marks, *body = (_cells(line) for line in lines if line.startswith("|"))
    pictures = [
        f'<p><img alt="{escape(content["title"])}" src="data:image/png;base64,'
        f'{base64.b64encode(Path(picture).read_bytes()).decode()}"></p>'
        for picture in row["pictures"]
    ]
    return "\n".join([
        f'<section id="{escape(row["name"])}"><h2>{escape(content["title"])}</h2>',
        f'<p class="verdict">{escape(row["verdict"])}</p>',
        _table(head, [mark.strip() == "---:" for mark in marks], body),
        *pictures,
        _notes(content["notes"]),
        f"<p>{row['seconds']:.0f} s, {row['processor_seconds']:.0f} s of a processor: "
        f"<code>{escape(content['record']['command'])}</code></p>",
        f"<p>Files: {escape(file.name)}, and beside it .csv, .md, .pdf, .svg.</p></section>",
    ])  # fmt: skip


def _cells(line: str) -> list[str]:
    """Of a line of a table in Markdown."""
    return [cell.strip().replace("\\|", "|") for cell in CELL_END.split(line)[1:-1]]


def _notes(notes: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<details><summary>Notes</summary><ul>{items}</ul></details>"


def _table(head: Sequence[str], right: Sequence[bool], rows: Iterable[Sequence[str]]) -> str:
    """right: which columns are numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        kinds = [' class="number"' if numeric else "" for numeric in right]
        shown = zip(cells, kinds, strict=True)
        return "<tr>" + "".join(f"<{tag}{k}>{escape(c)}</{tag}>" for c, k in shown) + "</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return (
        f'<div class="wide"><table><thead>{line(head, "th")}</thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )
