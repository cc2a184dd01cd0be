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
    blocks: Sequence[tuple[Sequence[tuple[str, str]], Sequence[Sequence[str]], Sequence[bool]]],
    notes: Sequence[str],
) -> str:
    """The lines of a table, which needs the package booktabs.

    Args:
      title: its caption. notes: under the table.
      blocks: of columns, one below the other: (group, name) of each column, the group "" where
        there is none; rows of strings; whether a column goes to the right.
    """
    lines = [
        "% needs \\usepackage{booktabs}", r"\begin{table}", r"\centering",
        rf"\caption{{{escaped(title)}}}",
    ]  # fmt: skip
    for number, (heads, cells, right) in enumerate(blocks):
        marks = "".join("r" if numeric else "l" for numeric in right)
        lines += [r"\par\medskip"] * (number > 0) + [rf"\begin{{tabular}}{{{marks}}}", r"\toprule"]
        if any(group for group, _ in heads):
            lines += _group_lines(heads)
        lines += [_line([name for _, name in heads]), r"\midrule", *map(_line, cells)]
        lines += [r"\bottomrule", r"\end{tabular}"]
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
