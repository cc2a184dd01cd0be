"""Tables of results for terminals and documents: widths, wrapped cells, headings over columns."""

from __future__ import annotations

import csv
import enum
import functools
import io
import math
import operator
import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from experiments.lib.files import file_in, write_results
from jaxstruct.core.files import write_file
from jaxstruct.evaluation.metrics import mean_and_deviation

GAP = 2
"""Spaces between two columns."""


def column_widths(
    cells: Sequence[Sequence[str]],
    heads: Sequence[tuple[str, str]],
    right: Sequence[bool],
    limit: int | None,
) -> list[int]:
    """The natural width of each column, the widest first cut down until a line fits `limit`.

    Args:
      cells: rows of strings.
      heads: (group, name) of each column, the group "" where there is none.
      right: whether a column holds numbers, whose cells are never wrapped.
      limit: characters a line, or None. No word is cut, so the result may be wider.
    """
    widths, floors = [], []
    for j, (_, name) in enumerate(heads):
        column = [row[j] for row in cells]
        solid = column if right[j] else [word for cell in column for word in cell.split()]
        widths.append(max(map(len, [name, *column])))
        floors.append(max(map(len, [*name.split(), *solid]), default=1))
    while limit is not None and sum(widths) + GAP * (len(widths) - 1) > limit:
        spare = [j for j in range(len(widths)) if widths[j] > floors[j]]
        if not spare:
            break
        widths[max(spare, key=lambda j: widths[j])] -= 1
    for group, span in _spans(heads):
        least = len(group) if limit is None else max(map(len, group.split()), default=0)
        widths[span[-1]] += max(0, least - _room(widths, span))
    return widths


def _room(widths: Sequence[int], span: Sequence[int]) -> int:
    return sum(widths[j] for j in span) + GAP * (len(span) - 1)


def _spans(heads: Sequence[tuple[str, str]]) -> list[tuple[str, list[int]]]:
    """Runs of neighbours under one group heading; columns without a group stand alone."""
    runs = groupby(range(len(heads)), key=lambda j: heads[j][0] or j)
    return [(heads[span[0]][0], span) for span in (list(run) for _, run in runs)]


def group_lines(heads: Sequence[tuple[str, str]], widths: Sequence[int]) -> list[str]:
    """Group headings, wrapped and centred over their columns, each with a rule below."""
    spans = _spans(heads)
    rooms = [_room(widths, span) for _, span in spans]
    names = _stack([group for group, _ in spans], rooms, low=True)
    rules = [
        "─" * room if group else " " * room for (group, _), room in zip(spans, rooms, strict=True)
    ]
    centred = [
        [cell.center(room) for cell, room in zip(line, rooms, strict=True)] for line in names
    ]
    return [(" " * GAP).join(line) for line in [*centred, rules]]


def _stack(row: Sequence[str], widths: Sequence[int], low: bool) -> list[tuple[str, ...]]:
    """The lines of a row whose cells wrap; `low` aligns them at the bottom."""
    wrapped = [
        textwrap.wrap(cell, width, break_on_hyphens=False) or [""]
        for cell, width in zip(row, widths, strict=True)
    ]
    height = max(map(len, wrapped), default=0)
    pads = [[""] * (height - len(lines)) for lines in wrapped]
    full = [pad + lines if low else lines + pad for pad, lines in zip(pads, wrapped, strict=True)]
    return list(zip(*full, strict=True))


def row_lines(
    row: Sequence[str], widths: Sequence[int], right: Sequence[bool], low: bool = False
) -> list[str]:
    """One row as one line or, where cells wrap, several; `low` aligns cells at the bottom."""
    return [
        (" " * GAP).join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right, strict=True)
        )
        for line in _stack(row, widths, low)
    ]


__all__ = [
    "Columns",
    "Row",
    "Table",
    "mean_text",
    "render",
    "rows_table",
    "spread_text",
    "to_markdown",
    "write_csv",
    "write_results",
    "write_table",
]

MISSING = "-"
LINE = 100
"""Characters of a line in a terminal."""
MAX_DECIMALS = 6
POWERS = ".2e"
_NUMBER = r"[+\-−]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+\-]?\d+)?"
_SPREAD = re.compile(rf"\s*({_NUMBER})\s*±\s*({_NUMBER})\s*")
_PLAIN = re.compile(rf"\s*({_NUMBER})\s*")
_NUMBER_LIKE = re.compile(
    r"[<>~≈≤≥]?\s*[+\-−]?(\d[\d.,]*|\.\d+)(e[+\-]?\d+)?\s*(%|[±(].*)?", re.IGNORECASE
)


class Table(NamedTuple):
    """A table of results; numbers stay numbers until they are shown.

    Fields:
      title: one line.
      columns: names; a pair (group, name) puts `name` under a heading that neighbours of the same
        group share, such as ("C = 1", "paper") and ("C = 1", "measured").
      rows: one sequence of cells a row: strings, numbers, None or nan for a missing value.
      notes: lines under the table: settings, sources, what a mark means.
    """

    title: str
    columns: Sequence[str | tuple[str, str]]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()


Row: TypeAlias = Mapping[str, Any]
"""What was measured once: name -> number, text, or numbers by their own names."""

Columns: TypeAlias = Mapping[str | tuple[str, str], str | Callable[[Row], Any]]
"""Heading, as in `Table` -> the cell: "name" of the value, "name.part" of a value by names,
"name:.2f" with its format, or a function from the row."""


def rows_table(
    title: str, columns: Columns, rows: Sequence[Row], notes: Sequence[str] = ()
) -> Table:
    """A table of one row a measurement; `title` and `notes` as in `Table`.

    Raises:
      KeyError: a row without a value that a column names.
    """
    cells = [[_cell(row, column) for column in columns.values()] for row in rows]
    return Table(title, list(columns), cells, notes)


def _cell(row: Row, column: str | Callable[[Row], Any]) -> Any:
    """A missing value stays None; an enumeration's member is its name."""
    if callable(column):
        value = column(row)
    else:
        path, _, style = column.partition(":")
        value = functools.reduce(operator.getitem, path.split("."), row)
        value = format(value, style) if style and value is not None else value
    return value.name if isinstance(value, enum.Enum) else value


def render(table: Table, width: int | None = None) -> str:
    """The table as aligned plain text, numbers to the right.

    Floats of a column share their number of decimals: about four significant digits of the
    largest, less what would be zeros everywhere. A missing value is shown as "-".

    Args:
      table: what to show.
      width: characters a line; a wider table wraps its headings, text columns and notes, and
        where that is not enough goes on below, with its first columns again. Numbers and words
        are never cut, so a very long one may stay wider. None: no limit.

    Raises:
      ValueError: a row with another number of cells than there are columns.
    """
    cells, right = _show(table)
    heads = _heads(table)
    parts = _parts(cells, heads, right, width)
    blocks = [_block(cells, heads, right, width, part) for part in parts]
    text_width = width or max(len(blocks[0][0]), 60)
    lines = [*textwrap.wrap(table.title, text_width), *blocks[0]]
    for block in blocks[1:]:
        lines += ["", *block]
    for note in table.notes:
        lines += textwrap.wrap(note, text_width, subsequent_indent="  ")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _heads(table: Table) -> list[tuple[str, str]]:
    """(group, name) of each column."""
    return [("", head) if isinstance(head, str) else (head[0], head[1]) for head in table.columns]


def _taken(rows: Sequence[Sequence[Any]], part: Sequence[int]) -> list[list[Any]]:
    return [[row[j] for j in part] for row in rows]


def _parts(
    cells: Sequence[Sequence[str]],
    heads: Sequence[tuple[str, str]],
    right: Sequence[bool],
    width: int | None,
) -> list[list[int]]:
    """The columns of each block: all in one, or as many as fit beside those that name a row."""
    every = list(range(len(heads)))
    named = next((k for k in every if len({tuple(r[:k]) for r in cells}) == len(cells)), 1)
    key = every[: max(1, min(named, 3))]

    def fits(part: list[int]) -> bool:
        heads_of, right_of = [heads[j] for j in part], [right[j] for j in part]
        widths = column_widths(_taken(cells, part), heads_of, right_of, width)
        return width is None or sum(widths) + GAP * (len(widths) - 1) <= width

    if fits(every):
        return [every]
    parts = [list(key)]
    runs = groupby(every[len(key) :], key=lambda j: heads[j][0] or j)
    for run in (list(own) for _, own in runs):
        together = fits([*key, *run])  # a group stays in one block where it can
        for piece in [run] if together else [[j] for j in run]:
            if len(parts[-1]) > len(key) and not fits([*parts[-1], *piece]):
                parts.append(list(key))
            parts[-1] += piece
    return parts


def _block(
    cells: Sequence[Sequence[str]],
    heads: Sequence[tuple[str, str]],
    right: Sequence[bool],
    width: int | None,
    part: Sequence[int],
) -> list[str]:
    """Headings and rows of some columns, between rules."""
    own, names, numeric = _taken(cells, part), [heads[j] for j in part], [right[j] for j in part]
    widths = column_widths(own, names, numeric, width)
    rule = "─" * (sum(widths) + GAP * (len(widths) - 1))
    lines = [rule]
    if any(group for group, _ in names):
        lines += group_lines(names, widths)
    lines += [*row_lines([name for _, name in names], widths, numeric, low=True), rule]
    for row in own:
        lines += row_lines(row, widths, numeric)
    return [*lines, rule]


def to_markdown(table: Table) -> str:
    """The table in Markdown (pipes), numbers to the right, notes as a list below.

    A pair (group, name) becomes one heading "group: name".

    Raises:
      ValueError: a row with another number of cells than there are columns.
    """
    cells, right = _show(table)

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"

    marks = "| " + " | ".join("---:" if numeric else ":---" for numeric in right) + " |"
    lines = [f"**{table.title}**", "", line(_flat_names(table)), marks, *map(line, cells)]
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def write_csv(folder: str | os.PathLike, name: str, table: Table) -> Path:
    """Write the cells of `table`, unrounded, as folder/name.csv and return the path.

    Missing values are empty cells; title and notes are left out; (group, name) becomes
    "group: name". A text such as "5.2 ± 0.1" becomes two numbers: the second one stands in a column
    of its own, "group: name (deviation)". Written under a temporary name, then renamed.

    Raises:
      ValueError: a row of another length than the columns, or a path separator in `name`.
    """
    rows = [[_python(cell) for cell in row] for row in _checked_rows(table)]
    columns: list[tuple[str, list[Any]]] = []
    for j, head in enumerate(_flat_names(table)):
        columns += _numbers_apart(head, [row[j] for row in rows])

    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow([name for name, _ in columns])
    lines = zip(*(cells for _, cells in columns), strict=True)
    out.writerows(["" if _is_missing(cell) else cell for cell in line] for line in lines)
    return write_file(file_in(folder, f"{name}.csv"), text.getvalue())


def write_table(folder: str | os.PathLike, name: str, table: Table) -> Path:
    """Write folder/name.csv and the same as .md; the path is that of the first.

    Raises:
      ValueError: a row of another length than the columns, or a path separator in `name`.
    """
    path = write_csv(folder, name, table)
    write_file(file_in(folder, f"{name}.md"), to_markdown(table))
    return path


def _numbers_apart(name: str, column: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """A column as it is, or its numbers and, where any has one, their deviations beside them."""
    spreads = [_SPREAD.fullmatch(cell) if isinstance(cell, str) else None for cell in column]
    means = [
        _digits(spread[1]) if spread else _digits(cell) if _is_number(cell) else cell
        for cell, spread in zip(column, spreads, strict=True)
    ]
    if not any(spreads):
        return [(name, means)]
    deviations = [_digits(spread[2]) if spread else None for spread in spreads]
    return [(name, means), (f"{name} (deviation)", deviations)]


def mean_text(mean: float, deviation: float, decimals: int = 2, sign: str = "") -> str:
    """ "mean ± deviation" as a cell; the mean alone where the deviation is nan, as of one value."""
    spread = "" if math.isnan(deviation) else f" ± {deviation:.{decimals}f}"
    return f"{mean:{sign}.{decimals}f}{spread}"


def spread_text(values: Sequence[float | None], decimals: int = 2) -> str | None:
    """Mean and sample deviation of values as a cell; None where there is none or one is missing."""
    known = [float(value) for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return mean_text(*mean_and_deviation(known), decimals)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, str) and _PLAIN.fullmatch(cell) is not None


def _digits(text: str) -> str:
    """A number as programs read it: no spaces, no commas between thousands, a plain minus."""
    return text.strip().replace(",", "").replace("−", "-")


def _flat_names(table: Table) -> list[str]:
    return [name if isinstance(name, str) else ": ".join(filter(None, name)) for name in table[1]]


def _checked_rows(table: Table) -> Sequence[Sequence[Any]]:
    for i, row in enumerate(table.rows):
        if isinstance(row, str) or len(row) != len(table.columns):
            raise ValueError(
                f"rows[{i}] of table {table.title!r}: got {row!r}, expected a cell for each of the "
                f"{len(table.columns)} columns; use None for a missing value."
            )
    return table.rows


def _python(cell: Any) -> Any:
    """numpy and jax scalars as Python's; a float32 keeps its own short decimals."""
    if not (hasattr(cell, "item") and np.ndim(cell) == 0):
        return cell
    value = np.asarray(cell)[()]
    return float(str(value)) if isinstance(value, np.floating) else value.item()


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _show(table: Table) -> tuple[list[list[str]], list[bool]]:
    """Cells as strings, row by row, and for each column whether it goes to the right."""
    rows = [[_python(cell) for cell in row] for row in _checked_rows(table)]
    columns = [[row[j] for row in rows] for j in range(len(table.columns))]
    shown = [_show_column(column) for column in columns]
    right = [
        any(cell != MISSING for cell in column)
        and all(cell == MISSING or bool(_NUMBER_LIKE.fullmatch(cell)) for cell in column)
        for column in shown
    ]
    return [list(row) for row in zip(*shown, strict=True)], right


def _show_column(column: Sequence[Any]) -> list[str]:
    numbers = [c for c in column if isinstance(c, int | float) and not isinstance(c, bool)]
    style = _number_style([n for n in numbers if math.isfinite(n)])

    def show(cell: Any) -> str:
        if _is_missing(cell):
            return MISSING
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        if not isinstance(cell, int | float):
            return str(cell)
        return format(cell, style) if cell or style != POWERS else "0"

    return [show(cell) for cell in column]


def _number_style(numbers: Sequence[float]) -> str:
    """One format for a column: integers as they are, few decimals, or powers of ten."""
    sizes = [abs(number) for number in numbers if number]
    if not sizes or all(isinstance(number, int) for number in numbers):
        return "d" if numbers and all(isinstance(n, int) for n in numbers) else ".0f"
    decimals = max(0, 3 - math.floor(math.log10(max(sizes))))
    if decimals > MAX_DECIMALS or max(sizes) >= 1e7 or min(sizes) < 0.5 * 10.0**-decimals:
        return POWERS
    while decimals and all(round(n, decimals) == round(n, decimals - 1) for n in numbers):
        decimals -= 1
    return f".{decimals}f"
