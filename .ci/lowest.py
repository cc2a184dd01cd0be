"""Prints what pyproject names, each with its lowest version, for pip: `python .ci/lowest.py test`.

The argument is an extra; extras of jaxstruct itself that it names are followed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def lowest(extra: str) -> list[str]:
    """Requirements `name==version` of the library and of an extra."""
    with Path("pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras, open_extras = project["optional-dependencies"], [extra]
    wanted = list(project["dependencies"])
    while open_extras:
        for line in extras[open_extras.pop()]:
            own = re.fullmatch(r"jaxstruct\[(.*)\]", line)
            if own:
                open_extras += own[1].split(",")
            else:
                wanted.append(line)
    return sorted({line.replace(">=", "==") for line in wanted})


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1])))
