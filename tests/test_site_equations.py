"""Equations of docstrings, as the site translates them for a browser."""

from __future__ import annotations

import importlib.util
import pathlib
import re

import pytest

PATH = pathlib.Path(__file__).parents[1] / "docs" / "equations.py"


@pytest.fixture(scope="module")
def translated():
    spec = importlib.util.spec_from_file_location("equations", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.translated


def _tight(latex: str) -> str:
    """Without spaces that mean nothing."""
    return re.sub(r" (?![A-Za-z])|(?<![A-Za-z]) ", "", latex)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("P(w) = 1/2 |w|^2", r"P(w)=\frac{1}{2}\lvert w\rvert^{2}"),
        ("C / (sum_i v_i) sum_i v_i xi_i", r"\frac{C}{\sum_{i} v_{i}} \sum_{i} v_{i} \xi_{i}"),
        ("g = w / C + 1/|B| x", r"g=\frac{w}{C}+\frac{1}{\lvert B\rvert} x"),
        ("y = argmax_y <w, Psi(x, y)>", r"y=\operatorname*{argmax}_{y}\langle w,\Psi(x,y)\rangle"),
        ("sum_{t<l} v_{y^t y^{t+1}}", r"\sum_{t<l} v_{y^{t} y^{t+1}}"),
        ("s >= Delta(y_true, y') != -inf", r"s\ge\Delta(y_{\mathrm{true}},y')\ne-\infty"),
        ("P(y | x) = sqrt(k) E_mu_i", r"P(y \mid x)=\sqrt{k} E_{\mu_{i}}"),
        ("alpha = (K + r I)^-1 t", r"\alpha=(K+r I)^{-1} t"),
        ("F(y) = sum_e pairs[e, y_e],   edge e = (a, b)",
         r"F(y)=\sum_{e}\mathrm{pairs}[e,y_{e}],\qquad\text{ edge } e=(a,b)"),
        ("[l in y] = 1   if chosen    (4.20)", r"[l \in y]=1 \qquad\text{if chosen} \tag{4.20}"),
        ("F = a\n    + b", r"\begin{align*}F&=a\\&\quad+b\end{align*}"),
    ],
)  # fmt: skip
def test_an_equation_is_translated(translated, text, latex) -> None:
    assert _tight(translated(text)) == _tight(latex)


@pytest.mark.parametrize(
    "text",
    [
        "    data = prepare(rows)\n    solution = fit(*data, C=10.0)",
        "    solution = js.fit(problem)",
        "    random_field   l_i = log Z(x_i)",
        "Ties go to the lowest index.",
        "a, b",
        "F(y = 1",
        "x_",
        '    hinge   sum_m F_m   (2.6.1: "prevails")',
    ],
)
def test_what_is_not_known_stays_as_it_is(translated, text) -> None:
    assert translated(text) is None
