"""The data wing stands alone: NumPy, the standard library, two parts of core, and itself."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "jaxstruct" / "data"
ALLOWED = {"numpy", *sys.stdlib_module_names}


def _imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the floor"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_imports_stay_in_the_wing(path) -> None:
    """No jax, no SciPy, no other wing; scikit-learn behind its one door; nothing unpickles."""
    imported = _imported(path)
    outside = {
        name
        for name in imported
        if name.split(".")[0] not in ALLOWED
        and not name.startswith("jaxstruct.data")
        and name not in ("jaxstruct.core.files", "jaxstruct.core.feature_index")
    }
    assert outside == ({"sklearn.datasets"} if path.stem == "optional" else set())
    assert not imported & {"pickle", "shelve", "marshal", "dill"}
    assert "allow_pickle=True" not in path.read_text(encoding="utf-8")
    assert "print(" not in path.read_text(encoding="utf-8")
