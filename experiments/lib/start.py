"""How a command starts: `python -m experiments.NAME` reads its flags and runs it.

The module of a command has `Options`, and `run`, which takes them; where it has `main`, that is
called instead, and what it returns is the exit code. Ctrl-C and SIGTERM end the program with one
line and exit code 130 and 143; a wrong option or file with one line and exit code 2, see
`is_for_the_user`. Any other error is a bug and shows its traceback.
"""

from __future__ import annotations

import atexit
import errno
import linecache
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import command_module
from experiments.lib.interrupts import exit_code, ignored_interrupts, note_interrupts

WRONG = 2
"""The exit code after a wrong option or file."""

NOTHING = "stopped: nothing was kept"

PART = "JAXSTRUCT_EXPERIMENT_PART"
"""Set in the environment of a process that works for another one, which reports Ctrl-C itself."""


def start(name: str) -> None:
    """Run the command `name` with the options of the command line.

    What it needs is imported here and not above, so that Ctrl-C ends the program in the same way
    while it is still being imported.

    Raises:
      SystemExit: always but for a bug; 0, what `main` of the command returned, 2 after a wrong
        option or file, 130 after Ctrl-C, or 143 after SIGTERM.
    """
    note_interrupts()
    try:
        _run(command_module(name))
    except KeyboardInterrupt as stopped:
        with ignored_interrupts():
            if PART not in os.environ:
                notes = getattr(stopped, "__notes__", [])  # such as where a checkpoint is
                print("\n".join(filter(None, [str(stopped), *notes])) or NOTHING, file=sys.stderr)
        raise SystemExit(exit_code()) from None
    except subprocess.CalledProcessError as error:
        if error.returncode != WRONG:  # else its line is there
            print(f"{name}: a process of it ended with {error.returncode}", file=sys.stderr)
        raise SystemExit(WRONG if error.returncode == WRONG else 1) from None
    except Exception as error:
        if not is_for_the_user(error):
            raise
        print(f"{name}: {line_of(error)}", file=sys.stderr)
        raise SystemExit(WRONG) from None


def is_for_the_user(error: BaseException) -> bool:
    """Whether an error is of a wrong option or file; any other is a bug.

    It does where it is of flags or of the file system, and where jaxstruct or the experiments have
    raised it with `raise` as ValueError, LookupError or ImportError: that is how they refuse what
    does not fit. The same errors from within Python, NumPy or jax are bugs.
    """
    from absl import flags

    if isinstance(error, OSError | flags.Error):
        return True
    return isinstance(error, ValueError | LookupError | ImportError) and _is_raised_here(error)


def _is_raised_here(error: BaseException) -> bool:
    """Whether the innermost frame is of this project, and stands at a `raise` statement."""
    import experiments
    import jaxstruct

    at = error.__traceback__
    if at is None:
        return False
    while at.tb_next is not None:
        at = at.tb_next
    file = at.tb_frame.f_code.co_filename
    folders = (package.__path__[0] for package in (experiments, jaxstruct))
    inside = any(Path(file).is_relative_to(folder) for folder in folders)
    return inside and linecache.getline(file, at.tb_lineno).lstrip().startswith("raise ")


def line_of(error: BaseException) -> str:
    """The message of an error on one line; of a file, with the option that names it."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        path = os.fspath(error.filename)
        reason = f"{error.strerror[0].lower()}{error.strerror[1:]}"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = (
            "make room, or choose another disk" if full else "correct the path, or make it first"
        )
        return f"{_option_of(path)}{path!r}: {reason}: {advice}"
    return " ".join(str(error).split()) or type(error).__name__


def _option_of(path: str) -> str:
    """The name of the flag that holds a path, and a colon; nothing where none does."""
    from absl import flags

    values = flags.FLAGS.flag_values_dict() if flags.FLAGS.is_parsed() else {}
    for name, value in values.items():
        if path in (value if isinstance(value, list) else [value]):
            return f"{name}: "
    return ""


def _run(command: Any) -> None:
    from absl import app, flags, logging

    from experiments.lib.options import define_flags, read_flags

    # what jax does at the end of the program must not be stopped by one more Ctrl-C
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    sys.modules["__main__"].__doc__ = command.__doc__  # what --help prints above the flags
    define_flags(command.Options)

    def call(arguments: Sequence[str]) -> int | None:
        if len(arguments) > 1:
            raise flags.Error(f"unexpected arguments {arguments[1:]}")
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)  # else absl shows what libraries note
        options = read_flags(command.Options)
        if hasattr(command, "main"):
            return command.main(options)
        command.run(options)

    app.run(call, flags_parser=flags.FLAGS)
