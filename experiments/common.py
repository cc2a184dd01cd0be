"""What every table script shares: flags, set-up of jax, and where its results go.

A script keeps its choices in a NamedTuple, whose field names are the names of its flags, so that a
test or `experiments.reproduce` can call its `run` without any flag.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
from absl import flags

from experiments.plots import Plot, save_figure
from experiments.record import enable_persistent_compilation_cache, run_record
from experiments.report import Table, render, write_csv, write_results
from jaxstruct import Settings
from jaxstruct.core.types import PyTree

Options = TypeVar("Options", bound=NamedTuple)


class Outcome(NamedTuple):
    """What a script hands back: its table, all its numbers, and the files that hold them."""

    table: Table
    numbers: Mapping[str, Any]
    files: tuple[Path, ...]


def define_common_flags(options: NamedTuple) -> None:
    """The flags that every table script has, with the defaults of `options`.

    They are defined when a script is started, not when it is imported, so that scripts can be
    imported together.
    """
    flags.DEFINE_string("output", options.output, "Folder of the results: JSON, CSV and PNG.")
    flags.DEFINE_integer("seed", options.seed, "Seed of every random choice.")
    flags.DEFINE_boolean(
        "x64", options.x64, "Compute in float64 (sets jax_enable_x64); needed below tolerance 1e-5."
    )
    flags.DEFINE_boolean(
        "compilation_cache", options.compilation_cache,
        "Keep compiled programs on disk, so that the next run does not compile them again.",
    )
    flags.DEFINE_boolean(
        "progress", options.progress,
        "Show progress on standard error. Default: only where that is a terminal.",
    )


def define_solver_flags(options: NamedTuple) -> None:
    """The flags of the scripts that call `fit`, with the defaults of `options`."""
    flags.DEFINE_enum(
        "variant", options.variant, ["auto", "full", "subspace"],
        "Solver: step 10a (full: all working sets) or 10b (subspace: one example's) of algorithm "
        "3; auto: full for small sets.",
    )
    flags.DEFINE_enum(
        "working_sets", options.working_sets, ["auto", "grown", "enumerated"],
        "Working sets grown by the oracle, as in algorithm 3, or holding every output from the "
        "start; auto: every output where there are few.",
    )
    flags.DEFINE_integer("capacity", options.capacity, "Cutting planes an example, at the start.")


def solver_settings(options: NamedTuple) -> Settings:
    """The settings of `fit` that the flags of `define_solver_flags` and the seed stand for."""
    return Settings(
        variant=options.variant, working_sets=options.working_sets, capacity=options.capacity,
        seed=options.seed,
    )


def options_from_flags(defaults: Options) -> Options:
    """`defaults` with every field replaced by the flag of its name."""
    return type(defaults)(*(getattr(flags.FLAGS, name) for name in defaults._fields))


def prepare(options: NamedTuple) -> str:
    """Set jax up as `options.x64` and `options.compilation_cache` say; returns the dtype to use.

    jax's notes about caches and backends are silenced; its warnings are not.
    """
    logging.getLogger("jax").setLevel(logging.WARNING)
    jax.config.update("jax_enable_x64", bool(options.x64))
    if options.compilation_cache:
        enable_persistent_compilation_cache()
    return "float64" if options.x64 else "float32"


def record(script: str, options: NamedTuple) -> dict[str, Any]:
    """The run record; its command starts the script named, from wherever it was called."""
    kept = run_record(options._asdict(), options.seed)
    program = f"python -m experiments.{script}"
    kept["command"] = re.sub(r"\bpython (-m )?\S+", lambda _: program, kept["command"], count=1)
    return kept


def save(
    script: str, options: NamedTuple, name: str, table: Table, numbers: Mapping[str, Any],
    plots: Mapping[str, Plot],
) -> Outcome:
    """Print the table and write name.json, name.csv and a picture for each plot.

    Args:
      script: the module that ran, for the command in the record.
      options: its options; `output` is the folder.
      name: of the files. numbers: all that was measured, unrounded.
      plots: file name -> Plot.
    """
    print(render(table))
    content = {"record": record(script, options), "title": table.title, "notes": table.notes}
    files = [write_results(options.output, name, content | dict(numbers))]
    files.append(write_csv(options.output, name, table))
    for picture, plot in plots.items():
        files.extend(save_figure(plot.figure, options.output, picture, plot.data))
    print("\n".join(f"wrote {path}" for path in files), flush=True)
    return Outcome(table, numbers, tuple(files))


def take_rows(tree: PyTree, index: Sequence[int]) -> PyTree:
    """The rows `index` of every array of a pytree."""
    return jax.tree.map(lambda leaf: leaf[index], tree)
