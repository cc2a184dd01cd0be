"""What the tests of the table scripts share."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from absl import flags

from experiments.lib.options import define_flags, read_flags

SETTINGS = (
    "jax_enable_x64", "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)  # fmt: skip


@contextlib.contextmanager
def kept_settings() -> Iterator[None]:
    """Whatever a script does to jax's settings is undone."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


QUIET = {"compilation_cache": False, "progress": False}


def options_of(options: type, **given: Any) -> Any:
    """A fixture of a test file: these options, with a folder of its own for the results."""

    @pytest.fixture(scope="module")
    def made(tmp_path_factory):
        return options(**QUIET, output=str(tmp_path_factory.mktemp("results")), **given)

    return made


def parsed_options(options: type, *arguments: str) -> Any:
    """The options that a command would get from these arguments."""
    holder = flags.FlagValues()
    define_flags(options, holder)
    holder(["command", *arguments])
    return read_flags(options, holder)


def stop_after(count, row):
    """A function that gives `row` so many times, then is stopped by Ctrl-C."""
    calls = []

    def measured(*_, **__):
        calls.append(1)
        if len(calls) > count:
            raise KeyboardInterrupt
        return row

    return measured


def strict_json(path: Path) -> dict[str, Any]:
    """The file's content; nan and the infinities are refused, as JSON has none."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{path}: {name} is no JSON")

    return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=refuse)


def raising(error):
    def run(options):
        raise error

    return run
