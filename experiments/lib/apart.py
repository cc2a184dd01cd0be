"""A part of a command in a process of its own, so that its peak memory is its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from experiments.lib import common, interrupts
from experiments.lib.common import Stopped, stopped_path
from experiments.lib.options import AnyOptions
from experiments.lib.record import flag_arguments
from experiments.lib.report import write_results
from experiments.lib.start import PART

GRACE = 10.0
"""Seconds that a process which Ctrl-C has stopped may take to write what it has finished."""


def run_apart(
    options: AnyOptions, name: str, environment: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """The rows that the command of these options writes, with them, to OUTPUT/NAME.json.

    Args:
      environment: variables of the process beside those of this one.

    Raises:
      Stopped: Ctrl-C, after the process had written what it had finished.
      subprocess.CalledProcessError: it failed; its messages are on standard error.
    """
    arguments = flag_arguments(options.values())
    line = [sys.executable, "-m", f"experiments.{options.command}", *arguments]
    own = {**os.environ, **environment, PART: "1"}
    part = stopped_path(options.output, name)
    part.unlink(missing_ok=True)
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, env=own) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            _wait_or_kill(process)
            if part.exists():
                raise Stopped([part]) from None
            raise
    if code:
        raise subprocess.CalledProcessError(code, line)
    path = Path(options.output) / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


def _wait_or_kill(process: subprocess.Popen) -> None:
    """Ctrl-C on a terminal reaches both processes, SIGTERM is sent on; the other one ends by
    itself, or is ended."""
    if interrupts.terminated():
        process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()


def run_parts(
    options: AnyOptions, parts: Iterable[AnyOptions], name_of: Callable[[Any], str],
    rows_of: Callable[[Any], list[dict[str, Any]]],
) -> Iterator[list[dict[str, Any]]]:  # fmt: skip
    """The rows of each part of a command: in a process of its own, or here without `apart`.

    Args:
      options: of the command, with `fields.Apart`. parts: the options of each part.
      name_of: the name of the file that a part writes. rows_of: what it measures.
    """
    for own in parts:
        yield run_apart(own.replace(part=True), name_of(own)) if options.apart else rows_of(own)


def write_part(options: AnyOptions, name: str, rows_of: Callable[[Any], list[Any]]) -> None:
    """Measure one part, and write what `run_apart` reads."""
    common.prepare(options)
    write_results(options.output, name, {"rows": rows_of(options)})
