"""Commands that reproduce tables and figures, and what they share in `lib` and `tasks`.

`python -m experiments.NAME` starts the command NAME: the file `experiments/NAME.py`, or
`experiments/NAME/command.py` where it has parts of its own. Either has `Options` and `run`. The
finder below has Python run `experiments.lib.start` with that name, before the command is imported.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOM = Path(__file__).parent


def command_file(name: str) -> Path | None:
    """The file of a command; None where there is no such command."""
    places = ROOM / f"{name}.py", ROOM / name / "command.py"
    named = name.isidentifier() and name != "__init__"
    return next((place for place in places if named and place.is_file()), None)


def commands() -> list[str]:
    """The names of all commands."""
    names = {path.stem for path in ROOM.glob("*.py")} | {path.name for path in ROOM.iterdir()}
    return sorted(name for name in names if command_file(name))


def command_module(name: str) -> Any:
    """The module of a command, with its `Options` and `run`."""
    file = command_file(name)
    part = ".command" if file and file.parent != ROOM else ""
    return importlib.import_module(f"{__name__}.{name}{part}")


class _Loader(SourceFileLoader):
    """Imports a command as any module; `python -m` asks for its code, and gets what starts it."""

    def exec_module(self, module: ModuleType) -> None:
        code = super().get_code(module.__name__)
        assert code is not None
        exec(code, vars(module))

    def get_code(self, fullname: str) -> CodeType:
        name = fullname.split(".")[1]
        line = f"from experiments.lib.start import start\n\nstart({name!r})\n"
        return compile(line, self.path, "exec")


class _Commands(MetaPathFinder):
    """Finds `experiments.NAME` of a file, and `experiments.NAME.__main__` of a folder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        name, _, last = rest.partition(".")
        file = command_file(name) if package == __name__ else None
        if file is None or (last if file.parent == ROOM else last != "__main__"):
            return None
        shown = file if file.parent == ROOM else file.with_name("__main__.py")  # is sys.argv[0]
        return spec_from_file_location(fullname, shown, loader=_Loader(fullname, str(file)))


sys.meta_path.insert(0, _Commands())
