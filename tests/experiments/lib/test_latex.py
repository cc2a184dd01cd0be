"""Words as LaTeX reads them."""

from __future__ import annotations

import pytest

from experiments.lib.latex import escaped, latex_table


@pytest.mark.parametrize(
    "text, found",
    [
        ("a_b 50 % & #1", r"a\_b 50 \% \& \#1"),
        (r"\x{y}", r"\textbackslash{}x\{y\}"),
        ("5.2 ± 0.1", r"5.2 $\pm$ 0.1"),
        ("Δ ≤ 2·10^-3", r"$\Delta$ $\leq$ 2$\cdot$10\textasciicircum{}-3"),
        ("two\nlines", "two lines"),
    ],
)
def test_what_latex_would_read_as_a_command_is_escaped(text, found):
    assert escaped(text) == found


def test_groups_span_their_columns_at_either_end():
    lines = latex_table(
        "t", [([("a", "x"), ("a", "y"), ("", "z")], [["1", "2", "3"]], [True] * 3)], []
    )
    body = lines.splitlines()
    assert body[6] == r"\multicolumn{2}{c}{a} &  \\" and body[7] == r"\cmidrule(lr){1-2}"
    assert [line.count("&") for line in body if line.endswith(r"\\")] == [1, 2, 2]
    alone = latex_table("t", [([("", "x"), ("", "y"), ("b", "z")], [], [False] * 3)], ["n"])
    assert r" &  & \multicolumn{1}{c}{b} \\" in alone and r"\cmidrule(lr){3-3}" in alone
    assert "multicolumn" not in latex_table("t", [([("", "x")], [["1"]], [True])], [])
