"""Lines and seconds to a first result, beside the tools that people use.

    python -m experiments.first_results
    python -m experiments.first_results --tasks=tagging --repeats=3

Each task is two programs, ours and theirs, in `scripts`: from raw data to one score on held-out
data. Their lines of code are counted (no blank lines, comments or docstrings), and each runs in
processes of its own: the first one compiles everything, the second finds the compiled programs on
disk. All seconds include starting Python and importing.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.report import rows_table

SCRIPTS = Path(__file__).parent / "scripts"
TOOLS = {
    "text_classes": ("LinearSVC", "sklearn"),
    "tagging": ("python-crfsuite", "pycrfsuite"),
    "parsing": ("NLTK's PCFG", "nltk"),
}
"""Task -> the tool beside it, and the package that it needs."""
COLUMNS = {
    "task": "task",
    "tool": "tool",
    "lines": "lines",
    ("first result, s", "processor"): lambda row: round(row["first"][0], 1),
    ("first result, s", "wall"): lambda row: round(row["first"][1], 1),
    ("again, s", "processor"): lambda row: round(row["again"][0], 1),
    ("again, s", "wall"): lambda row: round(row["again"][1], 1),
    "held-out score": lambda row: round(row["score"], 4),
}


class Options(fields.Common):
    """The flags of this command."""

    tasks: Sequence[str] = flag(tuple(TOOLS), "Tasks to measure.", list(TOOLS), some=True)
    repeats: int = flag(1, "Runs with compiled programs on disk; the shortest counts.", least=1)
    compilation_cache: bool = False


def run(options: Options) -> common.Outcome:
    """Count, run and time both programs of each task, print the table and write it.

    Raises:
      ValueError: an option does not fit.
      subprocess.CalledProcessError: a program failed; its messages are on standard error.
    """
    common.prepare(options)
    rows = common.finished_rows(options, [_measured(options)])
    notes = [
        "Lines of code without blank ones, comments and docstrings; both programs get their data "
        "from experiments.first_results.data. Seconds of a whole process; the first one has no "
        "compiled programs on disk, the second has (which concerns ours alone).",
        "score: accuracy, labels right, sets right as a whole, letters with the right partner, "
        "labelled F1.",
    ]
    table = rows_table("Lines and seconds to a first result", COLUMNS, rows, notes)
    return common.save(options, table, {"rows": rows})


def _measured(options: Options) -> Iterator[dict[str, Any]]:
    for task in options.tasks:
        tool, package = TOOLS[task]
        for side, shown in (("ours", "jaxstruct"), ("theirs", tool)):
            if side == "theirs" and importlib.util.find_spec(package) is None:
                continue
            name = f"{task}_{side}"
            with tempfile.TemporaryDirectory() as cache:
                score, *first = timed(name, cache)
                again = min(timed(name, cache)[1:] for _ in range(options.repeats))
            yield {
                "task": task, "tool": shown, "lines": lines_of_code(SCRIPTS / f"{name}.py"),
                "score": score, "first": first, "again": list(again),
            }  # fmt: skip


def lines_of_code(path: Path) -> int:
    """Lines that hold code: no blank ones, comments or docstrings."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    docstring = tree.body[0].end_lineno if ast.get_docstring(tree) else 0
    lines = text.splitlines()[docstring:]
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in lines)


def timed(name: str, cache: str) -> tuple[float, float, float]:
    """(the score that a program prints, its processor seconds, its wall seconds).

    Args:
      name: of a module of `scripts`. cache: folder of compiled programs.

    Raises:
      subprocess.CalledProcessError: it failed.
    """
    settings = {
        "JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }  # fmt: skip
    line = [sys.executable, "-m", f"experiments.first_results.scripts.{name}"]
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(
        line, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | settings
    )
    wall, after = time.perf_counter() - start, os.times()
    processor = (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )
    return float(done.stdout.split()[-1]), processor, wall
