"""Columns of plain text: widths, wrapped cells, headings over groups of columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

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
