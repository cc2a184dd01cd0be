"""The site has every page and every public name; `.ci/run` builds it, and a warning is an error."""

from __future__ import annotations

import ast
import fnmatch
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


def _module(name: str):
    """One that stands beside the pages."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_built_site_are_checked(tmp_path) -> None:
    module = _module("check_links")
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


@pytest.fixture
def pictures():
    pytest.importorskip("matplotlib")
    return _module("pictures")


def test_every_card_has_a_picture_of_what_is_kept(pictures, tmp_path) -> None:
    pictures.draw_all(tmp_path)
    drawn = {path.stem for path in tmp_path.glob("*.png") if path.stat().st_size > 5000}
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert drawn == set(re.findall(r"^:img-top: pictures/(\w+).png", index, flags=re.M))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["classes", "strings"])
def test_what_is_kept_is_what_is_learned(pictures, name) -> None:
    """Of the two machines that compile soonest."""
    kept = json.loads(pictures.KEPT.read_text(encoding="utf-8"))[name]
    assert pictures.PICTURES[name][0]() == kept


@pytest.mark.thorough
def test_pages_state_the_errors_of_the_pictures(pictures) -> None:
    """A smaller grid than the one that is kept is read better under the graph, too."""
    wrong = pictures.train_graphs(size=10, trained=3)["wrong"]
    assert wrong["graph"] < wrong["alone"]
    kept = json.loads(pictures.KEPT.read_text(encoding="utf-8"))
    shown = {name: kept[name]["wrong"].values() for name in ("graphs", "sequences")}
    alone, graph = (f"{share * 100:.0f} %" for share in shown["graphs"])
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"cell by cell, {alone} of" in text and f"learned together, {graph} (" in text
    alone, chain = (f"{share * 100:.0f} %" for share in shown["sequences"])
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert f"read alone {alone} are wrong, in a chain {chain}." in index


def _pictures_of(source: str) -> set[str]:
    """Names that a module gives to its pictures, what varies as *: keys of dicts of `Plot`s."""
    keys: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and "dict[str, Plot]" in ast.unparse(
            node.returns or node
        ):
            inside = (one for one in ast.walk(node) if isinstance(one, ast.Return) and one.value)
            keys += [key for one in inside for key in _keys(one.value)]
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if re.search(r"\b(plots|pictures)\b", " ".join(map(ast.unparse, targets))):
                keys += [one.slice for one in targets if isinstance(one, ast.Subscript)]
                keys += _keys(node.value)
    named = {re.sub(r"\{.*?\}", "*", ast.literal_eval(ast.unparse(key).removeprefix("f")))
             for key in keys if isinstance(key, (ast.Constant, ast.JoinedStr))}  # fmt: skip
    return named


def _keys(value: ast.expr) -> list[ast.expr | None]:
    """Keys of the dict, or of each that a union is of."""
    if isinstance(value, ast.Dict):
        return value.keys
    if isinstance(value, ast.DictComp):
        return [value.key]
    if isinstance(value, ast.BinOp):
        return [*_keys(value.left), *_keys(value.right)]
    return [key for one in value.elts for key in _keys(one)] if isinstance(value, ast.Tuple) else []


def test_every_picture_of_an_experiment_is_in_the_gallery() -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"`(\w+(?:\.\d)?)`", page))
    for path in (ROOT / "experiments").rglob("*.py"):
        for name in _pictures_of(path.read_text(encoding="utf-8")):
            assert fnmatch.filter(shown, f"*{name}"), f"{path.name}: {name}"
    assert _pictures_of("plots['a'] = b\nplots |= {f'c_{d}': e for d in f}") == {"a", "c_*"}
    thumbnails = set(re.findall(r"^:img-top: gallery/(.+)$", page, flags=re.M))
    assert thumbnails == {path.name for path in (DOCS / "gallery").iterdir()}
    assert sum((DOCS / "gallery" / name).stat().st_size for name in thumbnails) < 1.5e6


EQUATIONS = _module("equations")


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
def test_an_equation_is_translated(text, latex) -> None:
    assert _tight(EQUATIONS.translated(text)) == _tight(latex)


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
def test_what_is_not_known_stays_as_it_is(text) -> None:
    assert EQUATIONS.translated(text) is None
