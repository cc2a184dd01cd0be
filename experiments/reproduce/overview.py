"""What `--list` shows, how far a run of many experiments has come, and the page of what is made.

The page is HTML with its pictures inside, says in a sentence or two what the numbers of a table
say, and how to make the rest.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from experiments import command_file
from experiments.alignment import PAPER_TABLE_4, distance, mean_of
from experiments.lib.common import stopped_path
from experiments.lib.files import to_plain
from experiments.lib.kept import source_hash
from experiments.lib.options import AnyOptions
from experiments.lib.peers import DIGITS_OPTIMA
from experiments.lib.report import Table, render
from experiments.taxonomy.command import PAPER_GAINS
from jaxstruct import Status
from jaxstruct.core.files import write_file

MADE = ("done", "done before")
"""Statuses of a table whose files are there."""


def key_of(command: str, options: AnyOptions) -> str:
    """What decides a table: its options, and the Python files of jaxstruct and of the command.

    Args:
      command: the folder under `experiments`. options: of its run; where they write and what they
        show decides nothing.
    """
    deciding = {
        name: value
        for name, value in options.values().items()
        if name not in ("output", "progress", "compilation_cache", "resume")
    }
    text = json.dumps([source_hash(command), to_plain(deciding)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def rows_before(output: str | Path) -> dict[str, Mapping[str, Any]]:
    """Experiment -> its row in the summary of an earlier run, or in that of one cut short.

    A table that the last run has not made is there from one before it. A file that is none of this
    command counts for nothing.
    """
    rows: dict[str, Mapping[str, Any]] = {}
    for path in (Path(output) / "reproduce.json", stopped_path(output, "reproduce")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found = [*content["experiments"], *content.get("earlier", ())]
            rows |= {row["name"]: row for row in found}
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return rows


def still_there(
    before: Mapping[str, Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Rows of the tables that earlier runs made, but for those that this one tried to make."""
    tried = {row["name"] for row in rows if row["status"] in (*MADE, "failed")}
    return [row for name, row in before.items() if name not in tried and row.get("status") in MADE]


def is_there(row: Mapping[str, Any] | None, key: str) -> bool:
    """Whether the table of a row is done, of this key, and its file is still there."""
    if row is None or row.get("status") not in MADE or row.get("key") != key:
        return False
    return bool(row.get("file")) and Path(str(row["file"])).exists()


LINE = 100
BY_THEMSELVES = ("reproduce",)


def first_sentence(command: str) -> str:
    """What a command says of itself in its first line; it is read, not imported."""
    file = command_file(command)
    words = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) if file else None
    return words.splitlines()[0].rstrip(".") if words else ""


def overview(
    rows: Sequence[Mapping[str, Any]], here: Mapping[str, bool], others: Sequence[str]
) -> Table:
    """All experiments: corpora, time, and what they reproduce.

    Args:
      rows: "name", "corpora", "minutes" and "what", each.
      here: corpus -> whether this machine has it.
      others: commands that `reproduce` does not run.
    """
    body = []
    for row in rows:
        corpora = [name if here[name] else f"{name} (not here)" for name in row["corpora"]]
        minutes = None if row["minutes"] is None else f"{row['minutes']:g}"
        body.append([row["name"], ", ".join(corpora) or "none", minutes, row["what"]])
    body += [[name, None, None, first_sentence(name)] for name in others]
    notes = [
        "minutes: of the last run in --output, else about those of a desktop-class core in "
        "November 2026, compiling included; a machine with other work takes longer.",
        "Rows with - for a corpus are commands of their own, python -m experiments.NAME, "
        "which reproduce leaves alone: measurements of speed, and tools for data of your own.",
    ]
    return Table("Experiments", ["experiment", "corpora", "minutes", "what it makes"], body, notes)


def print_overview(table: Table) -> None:
    """The table in lines of at most 100 characters."""
    print(render(table, LINE))


class Course:
    """How far a run has come, and a forecast of the time left from typical minutes."""

    def __init__(self, minutes: Sequence[float]) -> None:
        """Start the clock.

        Args:
          minutes: what each experiment of the run takes elsewhere, in order.
        """
        self._minutes, self._start = list(minutes), time.monotonic()
        self._paces: list[tuple[float, float]] = []

    def heading(self, place: int, name: str) -> str:
        """The line above an experiment: which one, the time so far, and about how much is left.

        Args:
          place: of the experiment in the run, from 0.
        """
        spent = _duration(time.monotonic() - self._start)
        left = _duration(self.left(place))
        return f"=== {place + 1}/{len(self._minutes)} {name} ({spent} so far, about {left} left)"

    def left(self, place: int) -> float:
        """Seconds that the experiments from this one on will take about."""
        return 60 * self._pace() * sum(self._minutes[place:])

    def add(self, minutes: float, seconds: float) -> None:
        """Count an experiment that takes so many minutes elsewhere, and took so many seconds."""
        # how far one experiment is from the machine's pace: compiling, which the disk may keep,
        # decides those of less than a minute
        precision = 1 / (0.05 + 0.02 / minutes)
        self._paces.append((math.log(max(seconds, 1e-3) / 60 / minutes), precision))

    def _pace(self) -> float:
        """How slow this machine is: the mean logarithm of the ratios to typical minutes.

        Before an experiment is done machines are thought to differ by a factor of 4 (one standard
        deviation), which weighs as a ratio of 1.
        """
        weight = math.log(4) ** -2 + sum(precision for _, precision in self._paces)
        return math.exp(sum(ratio * precision for ratio, precision in self._paces) / weight)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


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


def verdict(name: str, numbers: Mapping[str, Any]) -> str:
    """Of a table that was made; nothing where its numbers say nothing of trainings.

    Args:
      name: of the experiment. numbers: its Outcome's.
    """
    return " ".join(filter(None, [VERDICTS.get(name, lambda _: "")(numbers), certified(numbers)]))


def certified(numbers: Mapping[str, Any]) -> str:
    """How many of the trainings are solved as exactly as they were to be."""
    rows = [row for row in numbers.get("rows", ()) if isinstance(row, Mapping)]
    states = [row["status"] for row in rows if row.get("status") is not None]
    if not states:
        return ""
    ended = sum(Status[str(getattr(state, "name", state))].solved for state in states)
    return f"{ended} of {len(states)} trainings ended with a proof of their optimum."


def _digits(numbers: Mapping[str, Any]) -> str:
    rows = numbers["rows"]
    above = [
        row["primal"] / DIGITS_OPTIMA[row["c_over_n"]] - 1
        for row in rows
        if row["formulation"] == "svm1" and row["c_over_n"] in DIGITS_OPTIMA
    ]
    errors = [row["test_error"] for row in rows]
    known = f"svm1 ends {100 * max(above):.3f} % above the known optimum at most; " if above else ""
    return f"{known}{min(errors):.1f} to {max(errors):.1f} % of the test images are wrong."


def _taxonomy(numbers: Mapping[str, Any]) -> str:
    """The gain of the last column over the first, as in the paper's table 1."""
    found = {}
    for size, means in numbers["sizes"].items():
        flat, *_, taxonomic = (stat.mean for stat in means["tree_loss"].values())
        found[int(size)] = 100 * (flat / taxonomic - 1)
    gains = ", ".join(
        f"{gain:+.1f} % for {size} examples a class (the paper's documents: "
        f"{PAPER_GAINS[size]['tree_loss']:+.1f} %)"
        for size, gain in found.items()
        if size in PAPER_GAINS
    )
    return f"Gain in tree loss by the taxonomy: {gains}."


def _alignment(numbers: Mapping[str, Any]) -> str:
    rows = [row for row in numbers["rows"] if row["part"] == "table"]
    sizes = sorted({row["n"] for row in rows} & set(PAPER_TABLE_4))
    apart = [
        distance(mean_of([row["test_error"] for row in rows if row["n"] == n]), PAPER_TABLE_4[n][3])
        for n in sizes
    ]
    near = sum(each <= 2 for each in apart)
    return (
        f"Test errors of SVM2 lie within two standard errors of the paper's for {near} of "
        f"{len(sizes)} sizes, {max(apart):.1f} apart at most."
    )


def _denoising(numbers: Mapping[str, Any]) -> str:
    parts = []
    for labels in dict.fromkeys(row["labels"] for row in numbers["rows"]):
        wrong = {
            row["training"]: min(row["test_errors"].values())
            for row in numbers["rows"]
            if row["labels"] == labels
        }
        if {"independent", "svm"} <= set(wrong):
            parts.append(
                f"{wrong['independent']:.1f} % of the pixels are wrong when each is labelled "
                f"alone, {wrong['svm']:.1f} % with edges ({labels} labels)"
            )
    return f"{'; '.join(parts)}." if parts else ""


VERDICTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "digits": _digits, "taxonomy_synthetic": _taxonomy, "alignment": _alignment,
    "denoising": _denoising,
}  # fmt: skip
"""Experiment -> what its own numbers say, beside their certificates."""
