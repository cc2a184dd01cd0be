"""Symbols of the International Patent Classification, as paths of its tree."""

from __future__ import annotations

import re

_SYMBOL = re.compile(
    r"(?P<section>[A-H])(?:(?P<number>\d\d)(?:(?P<letter>[A-Z])(?P<group>.+)?)?)?", re.ASCII
)
_GROUP_WITH_SLASH = re.compile(r"(\d{1,4})/\d{2,6}", re.ASCII)
_GROUP_OF_DIGITS = re.compile(r"(\d{3})(?:\d{2,4})?|(\d\d)", re.ASCII)


def ipc_ancestors(symbol: str) -> tuple[str, ...]:
    """Returns the path from the section down to the symbol's node, the node last.

    'D01D001' gives ('D', 'D01', 'D01D', 'D01D001'): section, class, subclass, main group. The
    tree ends at main groups, the leaves of table 1 of Tsochantaridis et al. 2005, so a subgroup
    is cut off. Accepted, with blanks anywhere:

      D01D001            main group, three digits
      D01D 001/00, 1/04  with a subgroup behind a slash; the main group is padded to three
      D01D00104          with a subgroup of two to four digits behind the three of the main group
      D01D00             a main group cut to two digits, which stays as it is
      D, D01, D01D       inner nodes, whose path is shorter

    Raises:
      ValueError: anything else.
    """
    match = _SYMBOL.fullmatch("".join(symbol.split()))
    group = match and match["group"] and _main_group(match["group"])
    if match is None or (match["group"] and group is None):
        raise ValueError(f"symbol: got {symbol!r}, expected an IPC symbol such as 'D01D 001/00'")
    path = [match["section"]]
    for part in (match["number"], match["letter"], group):
        if part is not None:
            path.append(path[-1] + part)
    return tuple(path)


def _main_group(text: str) -> str | None:
    """Returns the digits of the main group, or None if the text is no group."""
    if match := _GROUP_WITH_SLASH.fullmatch(text):
        return match[1].zfill(3)
    match = _GROUP_OF_DIGITS.fullmatch(text)
    return (match[1] or match[2]) if match else None
