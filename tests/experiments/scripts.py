"""What the tests of the table scripts share."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
from absl import flags

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


@contextlib.contextmanager
def parsed_flags(define: Callable[[], None], *arguments: str) -> Iterator[flags.FlagValues]:
    """A script's flags, parsed from `arguments` and taken away afterwards."""
    before = set(flags.FLAGS)
    define()
    try:
        flags.FLAGS(["script", *arguments])
        yield flags.FLAGS
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
        flags.FLAGS.unparse_flags()


def strict_json(path: Path) -> dict[str, Any]:
    """The file's content; nan and the infinities are refused, as JSON has none."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{path}: {name} is no JSON")

    return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=refuse)
