"""What the commands share: set-up of jax, and where their results go.

A command keeps its choices in a record (see `experiments.lib.options`), so that a test or
`experiments.reproduce` can call its `run` without any flag.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from experiments.lib.interrupts import ignored_interrupts
from experiments.lib.options import AnyOptions, check_options, flag_fields
from experiments.lib.plots import Plot, save_figure
from experiments.lib.record import run_record
from experiments.lib.report import LINE, Table, render, write_results, write_table
from jaxstruct.core.compiling import keep_programs
from jaxstruct.core.types import PyTree

Row: TypeAlias = dict[str, Any]
"""What was measured once: name -> number or text."""


class Outcome(NamedTuple):
    """What a script hands back: its table, all its numbers, and the files that hold them.

    Beside a table's CSV lie the same as Markdown, beside a picture the same as PDF and
    SVG, which `files` does not name.
    """

    table: Table
    numbers: Mapping[str, Any]
    files: tuple[Path, ...]


def prepare(options: AnyOptions) -> str:
    """Check the options, and set jax up as `x64` and `compilation_cache` say.

    Folders of results are made and tried, before anything is computed.

    Returns:
      The dtype to use.

    Raises:
      ValueError: a value that its field does not allow.
      OSError: no file can be written to a folder of results.
    """
    check_options(options)
    for name, (_, about) in flag_fields(type(options)).items():
        if about.folder:
            check_folder(name, getattr(options, name))
    jax.config.update("jax_enable_x64", bool(options.x64))
    if options.compilation_cache:
        keep_programs()
    return "float64" if options.x64 else "float32"


def check_folder(name: str, folder: str | Path) -> None:
    """Make a folder for files to be written later, and try to write a mebibyte there.

    Args:
      name: of the option.

    Raises:
      OSError: the message names the option, the folder and what is wrong.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(bytes(1 << 20))
    except OSError as error:
        raise OSError(
            f"{name}: {str(folder)!r} is no folder that files can be written to: {error.strerror}"
        ) from None


def record(options: AnyOptions) -> dict[str, Any]:
    """The run record; its command starts that of the options, from wherever it was called."""
    kept = run_record(options.values(), options.seed)
    program = f"python -m experiments.{options.command}"
    kept["command"] = re.sub(r"\bpython (-m )?\S+", lambda _: program, kept["command"], count=1)
    return kept


def save(
    options: AnyOptions,
    table: Table,
    numbers: Mapping[str, Any],
    plots: Mapping[str, Plot] = MappingProxyType({}),
    name: str = "",
) -> Outcome:
    """Print the table and write name.json, name.csv (.md), and each plot (.png, .pdf, .svg).

    Args:
      options: of the command that ran; `output` is the folder.
      numbers: all that was measured, unrounded. plots: file name -> Plot.
      name: of the files; the command's where there is none.
    """
    name = name or options.command
    print(render(table, LINE))
    content = {"record": record(options), "title": table.title, "notes": table.notes}
    files = [write_results(options.output, name, content | dict(numbers))]
    stopped_path(options.output, name).unlink(missing_ok=True)
    files.append(write_table(options.output, name, table))
    for picture, plot in plots.items():
        files.extend(save_figure(plot.figure, options.output, picture, plot.data))
    print("\n".join(f"wrote {path}" for path in files), flush=True)
    return Outcome(table, numbers, tuple(files))


class Stopped(KeyboardInterrupt):
    """Ctrl-C, after what was finished had been written; its text is the line to show.

    Attributes:
      paths: of the files written.
    """

    def __init__(self, paths: Sequence[Path], advice: str = "") -> None:
        """`advice`: how to go on."""
        self.paths = tuple(paths)
        line = f"stopped: what was finished is in {', '.join(map(str, self.paths))}"
        super().__init__(f"{line}; {advice}" if advice else line)


@contextlib.contextmanager
def kept_if_stopped(
    options: AnyOptions, numbers: Mapping[str, Any], advice: str = "", name: str = ""
) -> Iterator[None]:
    """Where Ctrl-C stops what is done within, write OUTPUT/name.stopped.json.

        rows = []
        with kept_if_stopped(options, {"rows": rows}):
            for name in names:
                rows.append(measure(name))

    The file holds "stopped": true, the record of the run and the numbers; `save` of the same name,
    in a later run that comes to its end, takes it away.

    Args:
      options, name: as for `save`.
      numbers: name -> list or mapping that is filled within. Where all are empty, no file.
      advice: a sentence on how to go on.

    Raises:
      Stopped: instead of the KeyboardInterrupt, where a file was written.
    """
    try:
        yield
    except KeyboardInterrupt as stopped:
        if not any(numbers.values()):
            raise
        path = stopped_path(options.output, name or options.command)
        with ignored_interrupts():
            content = {"stopped": True, "record": record(options)} | dict(numbers)
            write_results(path.parent, path.stem, content)
        inner = stopped.paths if isinstance(stopped, Stopped) else ()
        raise Stopped([path, *inner], advice) from None


def finished_rows(
    options: AnyOptions, groups: Iterable[Iterable[Row]], name: str = ""
) -> list[Row]:
    """All rows of all groups, measured one group after the other under `kept_if_stopped`.

    Args:
      options, name: as for `save`. groups: measures while it is iterated.

    Raises:
      Stopped: Ctrl-C, after the rows of the groups that had ended were written.
    """
    rows: list[Row] = []
    with kept_if_stopped(options, {"rows": rows}, name=name):
        for group in groups:
            rows.extend(group)
    return rows


def held_out_parts(options: AnyOptions, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(held out, the rest) of the places 0 .. n - 1 in random order, the share `options.held_out`.

    Raises:
      ValueError: it leaves nothing to train or to compare.
    """
    count = round(options.held_out * n)
    if not 0 < count < n:
        raise ValueError(
            f"held_out: got {options.held_out}, which holds out {count} of {n} examples; expected "
            "a share that leaves some on both sides"
        )
    order = np.random.default_rng(options.seed).permutation(n)
    return order[:count], order[count:]


def stopped_path(output: str | Path, name: str) -> Path:
    """The file of what a run had finished that would have written OUTPUT/NAME.json."""
    return Path(output) / f"{name}.stopped.json"


def take_rows(tree: PyTree, index: Sequence[int] | np.ndarray) -> PyTree:
    """The rows `index` of every array of a pytree."""
    return jax.tree.map(lambda leaf: leaf[index], tree)
