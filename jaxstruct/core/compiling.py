"""Functions as programs: compiled once a shape, counted, reported, and kept on disk if wanted."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from jaxstruct.core.compiler import compiler_options, give_back_memory, warn_of_untried_version

MAPS, MOST_MAPS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
SCARCE = 0.7
"""A share of the memory maps that Linux allows a process. A fit takes 160 to 360 of 65,530 for its
programs, and XLA ends the process (SIGSEGV) where a new program gets none: after some 200 fits."""
EVERY = 16
"""Maps are counted once in so many programs: 20 ms where there are 50,000."""

_traced: Counter[str] = Counter()
_listeners: list[Callable[[str], None]] = []


def programs_traced() -> int:
    """How many programs this process has traced so far, those of shapes apart."""
    return _traced.total()


@contextlib.contextmanager
def report_compiling_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Within, `listener` is called with the name of each program, in words, as tracing begins.

    A program that is there already says nothing.
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def maps_are_scarce(share: float = SCARCE) -> bool:
    """Whether the memory maps of this process are more than a share of what the system allows."""
    if not (MAPS.exists() and MOST_MAPS.exists()):
        return False
    with MAPS.open("rb") as file:
        return sum(1 for _ in file) > share * int(MOST_MAPS.read_text())


def _let_programs_go() -> None:
    """Before the next one finds no room; those that are called again compile again."""
    warnings.warn(
        "this process has compiled so many programs of different shapes that the system's memory "
        "maps run short (vm.max_map_count): all are let go (jax.clear_caches), and what is called "
        "again compiles again; pad inputs to fewer shapes to avoid it",
        RuntimeWarning,
        stacklevel=4,
    )
    jax.clear_caches()
    gc.collect()


class Program:
    """A function that is compiled, and counted.

    jax runs the Python body of a compiled function once for each program that it makes of it, so
    the body itself counts.
    """

    def __init__(
        self,
        function: Callable,
        static_argnums: int | Sequence[int],
        donate_argnums: int | Sequence[int],
    ) -> None:
        """Wrap the function; nothing compiles yet."""
        functools.update_wrapper(self, function)
        self.function = function
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._static, self._donated = static_argnums, donate_argnums

    @functools.cached_property
    def _compiled(self) -> Any:
        function, words = self.function, self.function.__name__.strip("_").replace("_", " ")

        @functools.wraps(function)
        def traced(*arguments: Any) -> Any:
            _traced[self._name] += 1
            for listener in tuple(_listeners):
                listener(words)
            return function(*arguments)

        return jax.jit(
            traced, static_argnums=self._static, donate_argnums=self._donated,
            compiler_options=compiler_options(),
        )  # fmt: skip

    def __call__(self, *arguments: Any) -> Any:
        """The function's value.

        Args:
          arguments: of the function, by position.
        """
        warn_of_untried_version()
        traced = _traced[self._name]
        try:
            return self._compiled(*arguments)
        finally:
            if _traced[self._name] > traced:
                give_back_memory()
                if _traced.total() % EVERY == 0 and maps_are_scarce():
                    _let_programs_go()

    def peak_bytes(self, *arguments: Any) -> int | None:
        """Bytes of the results and of all that is computed on the way, as the compiler says.

        The program is compiled and not run; a call compiles nothing again.

        Args:
          arguments: of the function; arrays or `jax.ShapeDtypeStruct`s.

        Returns:
          None where the compiler of this device does not say.
        """
        found = self._compiled.lower(*arguments).compile().memory_analysis()
        if found is None:
            return None
        return found.temp_size_in_bytes + found.output_size_in_bytes


def program(
    function: Callable,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Program:
    """A function as a program; `programs_traced` counts its traces.

    Args:
      function: what is compiled. static_argnums, donate_argnums: of `jax.jit`.
    """
    return Program(function, static_argnums, donate_argnums)


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
