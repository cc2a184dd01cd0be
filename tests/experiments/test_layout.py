"""A folder a command, each started in the same way, and its tests in a folder of the same name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import experiments

HERE = Path(__file__).parent
ROOT = Path(experiments.__path__[0])
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
COMMANDS = [name for name in FOLDERS if name != "lib"]
HELPERS = {"cases.py"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_options_and_run_and_starts_by_its_name(name):
    tree = ast.parse((ROOT / name / "command.py").read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert {"Options", "run"} <= defined and ast.get_docstring(tree)
    assert f'start("{name}")' in (ROOT / name / "__main__.py").read_text(encoding="utf-8")
    assert (HERE / name / "test_command.py").exists()


def test_every_test_is_of_a_module():
    for path in HERE.glob("*/test_*.py"):
        module = ROOT / path.parent.name / f"{path.stem.removeprefix('test_')}.py"
        assert module.exists(), path
    assert {path.parent.name for path in HERE.glob("*/__init__.py")} == set(FOLDERS)


def test_lib_imports_no_command():
    for path in (ROOT / "lib").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("experiments."):
                assert node.module.startswith("experiments.lib"), path
