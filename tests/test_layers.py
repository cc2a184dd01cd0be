"""Rooms form layers: imports go down, and no modules import one another in a circle.

Every import counts here, those under `if TYPE_CHECKING` too. Docstrings and annotations are ruff's.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import pathlib
import sys
from collections.abc import Iterable, Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]
LAYERS = (
    {"core"},
    {"evaluation", "kernels", "data"},
    {"multiclass", "chains", "trees", "dependencies", "alignments", "assignments", "graphs",
     "strings", "rankings", "solvers"},
    {"segments", "decisions"},  # tokens are those of chains, matchings those of assignments
    {"baselines", "models", "confidence", "losses", "plots"},
    {"estimators"},
)  # fmt: skip
"""Rooms of the package, the lowest first; those side by side do not see one another."""
FRONT = {"jaxstruct", "jaxstruct.__main__"}
"""What stands above all rooms."""
READERS_USE = {"jaxstruct.core.files", "jaxstruct.core.messages"}
"""What `jaxstruct.data` needs besides NumPy: it reads files on machines without jax."""


def _module(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {
    _module(path): path
    for package in ("jaxstruct", "experiments")
    for path in (ROOT / package).rglob("*.py")
}


def _room(module: str) -> str:
    return module.split(".")[1]


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield child
            yield from _outside_functions(child)


def _imported(nodes: Iterable[ast.AST], modules: Iterable[str] = FILES) -> set[str]:
    """The modules that these statements import: `from a import b` is a.b where that is one."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides its room"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else str(node.module) for name in names}
    return found


def _everywhere(module: str) -> set[str]:
    return _imported(ast.walk(_tree(module)))


def _cycle(arrows: dict[str, set[str]]) -> list[str]:
    """The nodes of one circle of arrows, none if there is none."""
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


@pytest.mark.smoke
def test_imports_go_down() -> None:
    height = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}
    up = []
    for module in FILES:
        if module.split(".")[0] == "experiments" or module in FRONT:
            continue
        used = {_room(name) for name in _everywhere(module) & FILES.keys() - FRONT}
        used -= {_room(module)}
        up += [(module, room) for room in used if height.get(room, 9) >= height[_room(module)]]
    assert not up, "each imports a room that does not lie below its own"


@pytest.mark.smoke
def test_rooms_of_the_solvers_form_layers() -> None:
    """Folders and the files beside them: no circle of imports."""
    inside = {module for module in FILES if module.startswith("jaxstruct.solvers.")}
    arrows: dict[str, set[str]] = {}
    for module in inside:
        used = {name.split(".")[2] for name in _everywhere(module) & inside}
        arrows.setdefault(module.split(".")[2], set()).update(used)
    assert not _cycle({room: used - {room} for room, used in arrows.items()})


@pytest.mark.smoke
@pytest.mark.parametrize("package", ["jaxstruct", "experiments"])
def test_no_modules_import_one_another(package: str) -> None:
    inside = {module for module in FILES if module.split(".")[0] == package}
    arrows = {module: _imported(_outside_functions(_tree(module))) & inside for module in inside}
    assert not _cycle({module: used - {module} for module, used in arrows.items()})


def test_commands_use_what_they_share_and_not_one_another() -> None:
    """But for the verdicts of `reproduce`, which imports the others by their names."""
    shared = {"lib", "tasks", "machines", "corpora"}
    rooms = {"corpora": {"corpora"}, "machines": {"machines"}, "lib": shared - {"tasks"}}
    rooms["tasks"] = shared
    rooms["reproduce"] = {*shared, "reproduce", "alignment", "taxonomy"}
    for module in FILES.keys() - {"experiments"}:
        if module.startswith("experiments."):
            used = {_room(name) for name in _everywhere(module) if name.startswith("experiments.")}
            assert used <= rooms.get(_room(module), {*shared, _room(module)}), module


def test_oracles_know_no_weights() -> None:
    """They see potentials and lengths; `structure` turns weights into these."""
    oracles = [module for module in FILES if ".oracles." in module]
    assert not [module for module in oracles if any(".structure" in n for n in _everywhere(module))]


def test_readers_need_numpy_alone() -> None:
    """No jax, no SciPy, no other room; scikit-learn in one module; nothing unpickles."""
    known = {"numpy", *sys.stdlib_module_names}
    readers = ("jaxstruct.data", "experiments.corpora")
    for module in (module for module in FILES if module.startswith(readers)):
        used = {name for name in _everywhere(module) if not name.startswith(readers)}
        others = {name for name in used if name.split(".")[0] not in known}
        wanted = READERS_USE | (
            {"sklearn.datasets"} if module == "jaxstruct.data.errors" else set()
        )
        assert others <= wanted and not used & {"pickle", "shelve", "marshal"}, module
        assert "allow_pickle=True" not in FILES[module].read_text(encoding="utf-8"), module


def test_the_library_never_flips_x64() -> None:
    for module in (module for module in FILES if module.startswith("jaxstruct")):
        calls = [node for node in ast.walk(_tree(module)) if isinstance(node, ast.Call)]
        words = [ast.unparse(call.args[0]) for call in calls if call.args]
        assert "'jax_enable_x64'" not in words, module


def test_every_room_has_smoke_tests() -> None:
    for room in (ROOT / "tests").iterdir():
        files = list(room.rglob("test_*.py"))
        marked = [file for file in files if "@pytest.mark.smoke\n" in file.read_text("utf-8")]
        assert marked or not files, room


def test_circles_and_imports_are_seen() -> None:
    source = "if CHECKED:\n  from a.b import c\nfrom a import d\ndef f():\n  import e\nimport g"
    tree = ast.parse(source)
    assert _imported(_outside_functions(tree), {"a.d"}) == {"a.b", "a.d", "g"}
    assert _imported(ast.walk(tree), {"a.b.c"}) == {"a.b.c", "a", "e", "g"}
    assert not _cycle({"a": {"b"}, "b": {"c"}, "d": {"c"}})
    assert set(_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}
