"""Commands that reproduce tables and figures, a folder each, and what they share in `lib`.

`python -m experiments.NAME` runs `experiments/NAME/command.py`. Python looks for a module
`experiments.NAME.__main__`; this one finder stands for such a file in every folder.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


class _Mains(MetaPathFinder, InspectLoader):
    """Finds `experiments.NAME.__main__` where the folder NAME has a command, and starts that."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        first, _, rest = fullname.partition(".")
        name, _, last = rest.partition(".")
        folder = Path(__file__).parent / name
        if (first, last) != (__name__, "__main__") or not (folder / "command.py").is_file():
            return None
        return ModuleSpec(fullname, self, origin=str(folder / "__main__.py"))  # is sys.argv[0]

    def get_source(self, fullname: str) -> str:
        name = fullname.split(".")[1]
        return f"from experiments.lib.start import start\n\nstart({name!r})\n"


sys.meta_path.append(_Mains())
