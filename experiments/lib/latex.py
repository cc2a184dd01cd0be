"""A table as LaTeX: an environment `table` of rules of the package booktabs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%",
    "#": r"\#", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$", "−": "$-$", "·": r"$\cdot$",
    "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "×": r"$\times$", "²": "$^2$",
    "Δ": r"$\Delta$", "δ": r"$\delta$", "ε": r"$\epsilon$", "Ψ": r"$\Psi$", "ξ": r"$\xi$",
    "\n": " ",
}  # fmt: skip


def escaped(text: str) -> str:
    """Text with what LaTeX would read as a command in its own words."""
    return "".join(_ESCAPES.get(letter, letter) for letter in text)


def latex_table(
    title: str,
    heads: Sequence[tuple[str, str]],
    cells: Sequence[Sequence[str]],
    right: Sequence[bool],
    notes: Sequence[str],
) -> str:
    """The lines of a table, which needs the package booktabs.

    Args:
      title: its caption. heads: (group, name) of each column, the group "" where there is none.
      cells: rows of strings. right: columns that go to the right. notes: under the table.
    """
    marks = "".join("r" if numeric else "l" for numeric in right)
    lines = [
        "% needs \\usepackage{booktabs}", r"\begin{table}", r"\centering",
        rf"\caption{{{escaped(title)}}}", rf"\begin{{tabular}}{{{marks}}}", r"\toprule",
    ]  # fmt: skip
    if any(group for group, _ in heads):
        lines += _group_lines(heads)
    lines += [_line([name for _, name in heads]), r"\midrule", *map(_line, cells), r"\bottomrule"]
    lines.append(r"\end{tabular}")
    if notes:
        lines += ["", r"\begin{minipage}{\linewidth}\footnotesize"]
        lines += [f"{escaped(note)}\\par" for note in notes]
        lines.append(r"\end{minipage}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"


def _group_lines(heads: Sequence[tuple[str, str]]) -> list[str]:
    """The headings of groups over their columns, and the rules under them."""
    names, rules, first = [], [], 1
    for group, run in groupby(group for group, _ in heads):
        size = len(list(run))
        heading = rf"\multicolumn{{{size}}}{{c}}{{{escaped(group)}}}"
        names.append(heading if group else " & " * (size - 1))
        if group:
            rules.append(rf"\cmidrule(lr){{{first}-{first + size - 1}}}")
        first += size
    return [" & ".join(names) + r" \\", "".join(rules)]
