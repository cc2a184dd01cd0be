"""The pages beside the code: what they run, run; what they name, there is."""

from __future__ import annotations

import ast
import functools
import importlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

import experiments
import jaxstruct
import jaxstruct as js
from experiments import command_module, commands
from experiments.lib.options import names
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.lib.thorough import thorough_after

ROOT = pathlib.Path(__file__).parents[1]


def _site_pages() -> list[pathlib.Path]:
    """The pages of the site, without what its build leaves."""
    docs = ROOT / "docs"
    return [page for page in docs.rglob("*.md") if "build" not in page.relative_to(docs).parts]


PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *_site_pages(), *ROOT.glob("third_party_*/*.md")])
}
HISTORY = "CHANGELOG.md"
COMMANDS = commands()


def _blocks(page: str) -> list[str]:
    """The programs of a page."""
    return re.findall(r"```python\n(.*?)```", PAGES[page], flags=re.S)


def _run_page(page: str, capsys) -> tuple[list[str], dict]:
    """(what the one program of a page prints, the names it leaves behind)."""
    (block,) = _blocks(page)
    names: dict = {}
    exec(block, names)  # noqa: S102
    return capsys.readouterr().out.splitlines(), names


@pytest.mark.thorough
def test_sets_of_labels_are_learned_and_ranked(capsys) -> None:
    (status, right, margins), _ = _run_page("docs/guide/sets_of_labels.md", capsys)
    assert status == "CONVERGED True"
    share, stated, _ = map(float, re.findall(r"\d+\.\d+", right))
    assert share > 0.6 and abs(share - stated) < 0.1
    large, small = map(float, re.findall(r"\d+\.\d+", margins))
    assert large > small + 0.2


@pytest.mark.thorough
def test_a_network_with_evidence(capsys, monkeypatch, tmp_path) -> None:
    """What the page prints is what it shows."""
    monkeypatch.chdir(tmp_path)
    page = PAGES["docs/guide/graphs.md"]
    (network,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    exec(network, {})  # noqa: S102
    (shown,) = re.findall(r"It prints\n\n```\n(.*?)```", page, flags=re.S)
    assert capsys.readouterr().out == shown
    assert (tmp_path / "alarm.png").stat().st_size > 5000


@pytest.mark.thorough
def test_losses_as_layers(capsys) -> None:
    network, potentials = _blocks("docs/tasks/networks.md")
    exec(network, {})  # noqa: S102
    assert float(capsys.readouterr().out) < 0.09
    exec(potentials, {})  # noqa: S102
    value, *slope = capsys.readouterr().out.splitlines()
    assert value == "[1.0986123 1.0986123]" and set(" ".join(slope)) <= set("[]0. ")


@pytest.mark.thorough
def test_extensions_print_what_the_page_shows(capsys) -> None:
    """The loop compiled as users' programs are: its rounds depend on how sums round."""
    loss, solver, loop = blocks = _blocks("docs/tasks/extending.md")[:3]
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    ran = subprocess.run(
        [sys.executable, "-c", loop],
        cwd=ROOT, env=env | {"JAXSTRUCT_PLAIN": "0"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for block in (loss, solver):
        exec(block, {})  # noqa: S102
    shown = [re.findall(r"^# (.*)$", block, flags=re.M) for block in blocks]
    assert (capsys.readouterr().out + ran.stdout).splitlines() == sum(shown, []) and all(shown)


def test_an_experiment_is_a_file_and_its_test(monkeypatch, tmp_path) -> None:
    """Both blocks of the page: the command stands where commands are found, its test passes."""
    command, test = _blocks("docs/tasks/extending.md")[3:]
    (tmp_path / "learning_curve.py").write_text(command, encoding="utf-8")
    monkeypatch.setattr(experiments, "ROOM", tmp_path)
    names: dict = {}
    try:
        exec(test, names)  # noqa: S102
        names["test_more_examples_err_less"](tmp_path)
    finally:
        sys.modules.pop("experiments.learning_curve", None)


def _prints(shown: list[str], printed: str) -> bool:
    """Whether all is as shown, decimals up to one in their last digit; a line ... is any lines."""
    texts = re.split(r"(\d+\.\d+)", "\n".join(shown))
    pattern = r"(\d+\.\d+)".join(map(re.escape, texts[::2])).replace(re.escape("..."), ".*")
    found = re.fullmatch(pattern, printed, flags=re.S)
    pairs = zip(found.groups() if found else (), texts[1::2], strict=False)
    units = (abs(float(one) - float(own)) * 10 ** len(own.split(".")[1]) for one, own in pairs)
    return found is not None and all(unit < 1.01 for unit in units)


def test_what_a_page_shows_is_compared_with_what_it_prints() -> None:
    assert _prints(["CONVERGED 29.9604", "...", "2 a"], "CONVERGED 29.9605\nb\nc\n2 a")
    for printed in ("CONVERGED 29.9622", "ROUNDING 29.9604", "CONVERGED", "CONVERGED 29.9604 2"):
        assert not _prints(["CONVERGED 29.9604"], printed)


APART = {"docs/guide/sets_of_labels.md", "docs/guide/graphs.md", "docs/tasks/networks.md",
         "docs/tasks/extending.md"}  # fmt: skip
"""Pages with a test of their own above."""
WITH_PROGRAMS = sorted(
    (page for page in PAGES if _blocks(page) and page not in APART),
    key=lambda page: ("".join(_blocks(page)).count("fit"), page),
)
"""Those that train least come first: a plain run takes the first one."""


@pytest.mark.parametrize("page", thorough_after(1, WITH_PROGRAMS))
def test_every_program_prints_what_its_page_shows(capsys, monkeypatch, tmp_path, page) -> None:
    """Comments at the start of a line, or beside a print, are what it prints; ... is anything."""
    monkeypatch.chdir(tmp_path)
    for block in _blocks(page):
        exec(block, {})  # noqa: S102
        shown = re.findall(r"(?:^|^ *print\(.*\)  )# ?(?!fmt|trees)(.*)$", block, flags=re.M)
        printed = capsys.readouterr().out.rstrip("\n")
        assert _prints(shown, printed), printed


def _shown(path: pathlib.Path) -> str:
    """A page, with those that it includes."""
    text = path.read_text(encoding="utf-8")
    for other in re.findall(r"^```\{include\} (\S+)$", text, flags=re.M):
        text += (path.parent / other).read_text(encoding="utf-8")
    return text


def _headings(page: str) -> set[str]:
    """The anchors of a page's headings."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page, flags=re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)]+)\)", PAGES[page])]
    for page, target in links:
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        path = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        assert path.exists(), (page, target)
        assert not anchor or anchor in _headings(_shown(path)), (page, target)


@functools.cache
def _flags(command: str) -> frozenset[str]:
    return frozenset(names(command_module(command).Options))


def test_commands_exist_with_their_flags() -> None:
    pages = re.sub(r"```(python|{code-cell})\n.*?```", "", "\n\n".join(PAGES.values()), flags=re.S)
    text = re.sub(r"\\?\n *", " ", pages)
    whole = (
        r"\bexperiments\.([a-z]\w+)(?!\w|\.\w)((?: --[a-z]\w*(?:=[^\s`),]*)?)*)"  # no module of one
    )
    calls = re.findall(whole, text)
    for command, given in calls:
        assert command in COMMANDS, command
        assert set(re.findall(r"--(\w+)", given)) <= _flags(command), (command, given)


SLURM = {"nodes", "ntasks-per-node", "cpus-per-task", "requeue", "signal", "open-mode",
         "kill-on-bad-exit"}  # fmt: skip
"""Flags of sbatch and srun, of docs/tasks/clusters.md."""


def test_flags_exist() -> None:
    fetch = (ROOT / "third_party_data" / "fetch.py").read_text(encoding="utf-8")
    known = set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', fetch)).union(*map(_flags, COMMANDS))
    known |= {"help", "version", "no-deps", "thorough", "xla_backend_extra_options"} | SLURM
    for page, text in PAGES.items():
        assert set(re.findall(r"(?<![\w-])--([a-z][\w-]*)", text)) <= known, page


def _there_is(dotted: str) -> bool:
    """Whether a name, its first part being a package, can be imported or read."""
    package, *parts = dotted.replace("js.", "jaxstruct.", 1).split(".")
    found = importlib.import_module(package)
    for count, part in enumerate(parts, 1):
        if not hasattr(found, part):
            try:
                importlib.import_module(".".join([package, *parts[:count]]))
            except ModuleNotFoundError:
                return False
        found = getattr(found, part)
    return True


def test_names_exist() -> None:
    packages = r"js|jaxstruct|(?<!tests\.)experiments\.(?:lib|tasks|machines|corpora)"
    names = set(re.findall(rf"\b(?:{packages})(?:\.[A-Za-z]\w*)+", "\n".join(PAGES.values())))
    assert {name.split(".")[0] for name in names} == {"js", "jaxstruct", "experiments"}
    assert not [name for name in names if not (name.endswith(".py") or _there_is(name))]


def test_files_exist() -> None:
    """Paths of code in backticks, from the root or the package; of the history those of now."""
    rows = (line.split("|")[2] for line in PAGES[HISTORY].splitlines() if line.count("|") == 3)
    for page, text in (PAGES | {HISTORY: "\n".join(rows)}).items():
        for path in re.findall(r"`([\w/]+\.py)`", text):
            assert (ROOT / path).exists() or (ROOT / "jaxstruct" / path).exists(), (page, path)


def test_the_citation_is_of_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, flags=re.M)[1] == jaxstruct.__version__
    assert f'version = "{jaxstruct.__version__}"' in (ROOT / "pyproject.toml").read_text()


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_tagger_takes_eight_lines() -> None:
    tagger = README.split("<!-- tagger -->")[1].split("```")[1]
    code = [line for line in tagger.splitlines()[1:] if line and not line.startswith("#")]
    assert tagger.startswith("python") and len(code) <= 8


def test_the_test_command_is_marked_for_ci() -> None:
    command = README.split("<!-- tests -->")[1].split("```")[1]
    assert 'pip install -e ".[test]" && python -m pytest' in command
    assert "<!-- tests -->" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def _is_data(statement: ast.stmt) -> bool:
    """Whether a statement imports, or writes down data without the library."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return True
    return not any(
        isinstance(node, ast.Name) and node.id in ("js", "data") for node in ast.walk(statement)
    )


def _lines_before_fit(block: str) -> int:
    """Lines of an example between its data and js.fit."""
    statements = ast.parse(block).body
    at = next(i for i, one in enumerate(statements) if "js.fit(" in ast.unparse(one))
    return sum(one.end_lineno - one.lineno + 1 for one in statements[:at] if not _is_data(one))


def test_own_data_takes_three_lines_before_fit_at_most() -> None:
    page = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"<!-- own data: (\w+) -->\n```python\n(.*?)```", page, flags=re.S))
    counts = {name: _lines_before_fit(block) for name, block in blocks.items()}
    assert len(counts) == 10 and all(0 < count <= 3 for count in counts.values()), counts
    assert _lines_before_fit("import jaxstruct as js\nx = [\n1]\na = js.f(\nx)\ns = js.fit(a)") == 2


def test_every_status_and_formulation_has_a_row() -> None:
    pages = {
        name: (ROOT / "docs" / f"{name}.md").read_text("utf-8")
        for name in ("tasks/convergence", "choosing")
    }
    for status in js.Status:
        assert pages["tasks/convergence"].count(f"| `{status.name}` |") == 1, status
    rows = re.findall(r"^\| (`svm.*?) \|", pages["choosing"], flags=re.M)
    named = re.findall(r"`(svm\w+)`", " ".join(rows))
    assert sorted(named) == sorted(FORMULATIONS)


def test_the_floor_plan_has_every_room() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    plan = text.split("## Floor plan")[1].split("\n## ")[0]
    rooms = {path.parent.name for path in (ROOT / "jaxstruct").glob("*/__init__.py")}
    drawn = set(re.findall(r"^      (\w+)/ ", plan, flags=re.M))
    assert drawn == rooms
    drawn = set(re.findall(r"^    (\w+)/ ?", plan, flags=re.M))
    assert drawn == {"jaxstruct", "experiments", "tests", "third_party_data", "docs"}
    assert all((ROOT / name).is_dir() for name in drawn)
