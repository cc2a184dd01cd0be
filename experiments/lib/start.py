"""How a command starts: `python -m experiments.NAME` reads its flags and runs it.

`experiments.NAME.command` has `Options`, and `run`, which takes them; where it has `main`, that is
called instead, and what it returns is the exit code. Ctrl-C ends the program with one line and exit
code 130.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

STOPPED = 130
"""The exit code of shells for a program that Ctrl-C stopped."""

NOTHING = "stopped: nothing was kept"

PART = "JAXSTRUCT_EXPERIMENT_PART"
"""Set in the environment of a process that works for another one, which tells of Ctrl-C itself."""


def start(name: str) -> None:
    """Run the command `name` with the options of the command line.

    What it needs is imported here and not above, so that Ctrl-C ends the program in the same way
    while it is still being imported.

    Raises:
      SystemExit: always; 0, what `main` of the command returned, or 130 after Ctrl-C.
    """
    try:
        _run(importlib.import_module(f"experiments.{name}.command"))
    except KeyboardInterrupt as stopped:
        if PART not in os.environ:
            print(str(stopped) or NOTHING, file=sys.stderr)
        raise SystemExit(STOPPED) from None


def _run(command: Any) -> None:
    from absl import app

    from experiments.lib.options import define_flags, read_flags

    sys.modules["__main__"].__doc__ = command.__doc__  # what --help prints above the flags
    define_flags(command.Options)

    def call(arguments: Sequence[str]) -> int | None:
        if len(arguments) > 1:
            raise app.UsageError(f"unexpected arguments {arguments[1:]}")
        options = read_flags(command.Options)
        if hasattr(command, "main"):
            return command.main(options)
        command.run(options)

    app.run(call)
