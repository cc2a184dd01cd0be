"""Compiled programs on disk, where later processes find them."""

from __future__ import annotations

import os
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache


def keep_programs(folder: str | os.PathLike | None = None) -> Path:
    """Keep compiled programs on disk from now on, where later processes find them.

    A first fit compiles for seconds; with its programs on disk it reads them in tenths of a second.
    The setting is of the whole process, so it holds for other programs of jax, too. Every program
    is kept, however small or quick to compile. Programs are for one version of jax and one kind
    of processor: machines that differ need folders that differ. Nothing is ever removed from the
    folder; delete it to start again.

    Args:
      folder: where to; None: jaxstruct under $XDG_CACHE_HOME, or under ~/.cache.

    Returns:
      The folder, made where it did not exist.

    Raises:
      OSError: nobody can write to the folder.
    """
    if folder is None:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxstruct"
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"folder: nothing can be written to {folder}, give another folder")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # else jax stays with the folder that it opened first
    return folder
