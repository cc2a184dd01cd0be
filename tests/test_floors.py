"""Imports go down a floor only, and the data wing stands apart.

Every public name is documented, every public function typed.
"""

from __future__ import annotations

import ast
import functools
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "jaxstruct"
FLOORS = {
    "core": 0,
    "evaluation": 1,
    "kernels": 1,
    "multiclass": 2,
    "chains": 2,
    "trees": 2,
    "alignments": 2,
    "graphs": 2,
    "strings": 2,
    "solvers": 2,
    "baselines": 3,
    "models": 3,
    "confidence": 3,
    "losses": 3,
    "plots": 3,
    "estimators": 4,
}
FILES = sorted(PACKAGE.rglob("*.py"))
TYPED = [
    *FILES,
    *(
        path
        for path in sorted((ROOT / "experiments").rglob("*.py"))
        if path.parent.name != "scripts"
    ),
]
"""What is annotated: all but the programs of `first_results`, which are as users write them."""


def _room(path: pathlib.Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


ROOMS = {_room(file) for file in FILES} - {"__init__"}


@functools.cache
def _imports(path: pathlib.Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return names


def _rooms_used(path: pathlib.Path) -> set[str]:
    parts = [name.split(".") for name in _imports(path)]
    rooms = {part[1] for part in parts if part[0] == "jaxstruct" and len(part) > 1}
    return rooms & ROOMS


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path: pathlib.Path) -> None:
    room, used = _room(path), _rooms_used(path)
    if room == "__init__":
        assert "data" not in used
        return
    if room == "data":
        assert used <= {"data", "core"}
        # of core, the parts that import no jax
        allowed = {"jaxstruct.core.files", "jaxstruct.core.feature_index"}
        of_core = {".".join(n.split(".")[:3]) for n in _imports(path) if "jaxstruct.core" in n}
        assert of_core <= allowed
        return
    assert "data" not in used
    assert all(FLOORS[other] < FLOORS[room] for other in used - {room}), (room, used)


def _public_definitions(path: pathlib.Path) -> list[ast.AST]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    body = ast.parse(path.read_text()).body
    return [node for node in body if isinstance(node, kinds) and not node.name.startswith("_")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_names_are_documented(path: pathlib.Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "the module has no docstring"
    bare = [node.name for node in _public_definitions(path) if not ast.get_docstring(node)]
    assert not bare, f"no docstring: {bare}"


def _functions(body: list[ast.stmt]) -> list[ast.FunctionDef]:
    """Public functions, those of public classes among them."""
    named = [node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    public = [node for node in named if not node.name.startswith("_")]
    found = [node for node in public if isinstance(node, ast.FunctionDef)]
    classes = (node for node in public if isinstance(node, ast.ClassDef))
    return found + [node for each in classes for node in _functions(each.body)]


def _untyped(function: ast.FunctionDef) -> list[str]:
    """The parameters without an annotation, and "return" where that has none."""
    given = function.args
    stars = [star for star in (given.vararg, given.kwarg) if star is not None]
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *stars]
    names = [one.arg for one in every if one.annotation is None and one.arg not in ("self", "cls")]
    return names if function.returns is not None else [*names, "return"]


@pytest.mark.parametrize("path", TYPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_functions_are_typed(path: pathlib.Path) -> None:
    functions = _functions(ast.parse(path.read_text()).body)
    bare = {function.name: _untyped(function) for function in functions if _untyped(function)}
    assert not bare, f"without an annotation: {bare}"


def test_a_function_without_annotations_is_seen() -> None:
    source = "class A:\n  def f(self, a: int, *b, c=1, **d): pass\ndef _g(x): pass"
    (function,) = _functions(ast.parse(source).body)
    assert _untyped(function) == ["c", "b", "d", "return"]


def test_the_library_never_flips_x64_and_never_prints() -> None:
    for path in FILES:
        tree = ast.parse(path.read_text())
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        printed = [
            call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"
        ]
        assert not printed or path.name == "__main__.py", f"{path} prints"
        strings = [
            call.args[0].value
            for call in calls
            if call.args and isinstance(call.args[0], ast.Constant)
        ]
        assert "jax_enable_x64" not in strings, f"{path} flips x64"


def _module(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_imports_are_at_most_eight_deep() -> None:
    """The longest chain of modules that import one another, package doors left out."""
    names = {_module(path): path for path in FILES if path.name != "__init__.py"}
    below = {name: set(_imports(path)) & set(names) - {name} for name, path in names.items()}
    depths: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in depths:
            depths[name] = 1 + max(map(depth, below[name]), default=0)
        return depths[name]

    deepest = max(names, key=depth)
    assert depth(deepest) <= 8, (deepest, depth(deepest))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_oracles_know_no_weights_and_solvers_no_wing(path: pathlib.Path) -> None:
    """Oracles see potentials and lengths; solvers see a problem; wings do not see each other."""
    parts, used = path.relative_to(PACKAGE).parts, _imports(path)
    wings = {"multiclass", "chains", "trees", "alignments", "graphs", "strings"}
    if "oracles" in parts[:-1]:
        assert not [name for name in used if ".structure" in name or ".solvers" in name]
    if parts[0] == "solvers":
        assert not _rooms_used(path) & wings
    if parts[0] in wings:
        assert not _rooms_used(path) & (wings - {parts[0]} | {"solvers", "baselines"})
