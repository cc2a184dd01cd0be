"""No room's tests are thorough ones alone: what a change can break there, a plain run finds."""

from __future__ import annotations

import ast
import pathlib
from collections import defaultdict

TESTS = pathlib.Path(__file__).parent


def _marks(path: pathlib.Path) -> list[tuple[bool, bool]]:
    """(whether it is thorough, whether it is smoke) of the tests of a file, parameters apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tests = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    decorators = [{ast.unparse(each) for each in test.decorator_list} for test in tests]
    whole = "outcome" if "experiments" in path.parts else None  # its conftest marks those
    return [
        (
            "pytest.mark.thorough" in own or whole in {each.arg for each in test.args.args},
            "pytest.mark.smoke" in own,
        )
        for test, own in zip(tests, decorators, strict=True)
    ]


def test_every_room_has_tests_that_are_not_thorough() -> None:
    rooms: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for path in TESTS.rglob("test_*.py"):
        rooms[path.relative_to(TESTS).parts[0]] += _marks(path)
    assert len(rooms) > 20 and any(thorough for own in rooms.values() for thorough, _ in own)
    files = {path.name for path in TESTS.glob("test_*.py")}
    assert not [room for room, own in rooms.items() if room not in files and all(t for t, _ in own)]
    assert not [room for room, own in rooms.items() if (True, True) in own]
