"""Functions as programs: compiled once a shape, counted, timed apart from running, kept on disk."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.experimental.compilation_cache import compilation_cache

from jaxstruct.core.compiler import (
    COMPILING,
    compiler_options,
    give_back_memory,
    warn_of_untried_version,
)

COMPILE = "compile"
"""The part of a run that is neither training nor certifying."""


class Elapsed(NamedTuple):
    """Seconds: `wall` by the clock, `process` of all threads' processor time together."""

    wall: float
    process: float


class _Interval(NamedTuple):
    """When it began, and its seconds."""

    start: float
    wall: float
    process: float


class CompileClock:
    """Wall and processor seconds of all compiling since the clock was made.

    jax reports the wall seconds of an interval when it ends; one within another counts once. An
    interval has as many processor seconds to a wall second as the process has had since the
    interval before it ended. A program that is read from the disk counts with what that takes.
    """

    def __init__(self) -> None:
        """Start to listen."""
        self._intervals: list[_Interval] = []
        self._sum = Elapsed(0.0, 0.0)
        self._last = Elapsed(time.perf_counter(), time.process_time())
        self._lock = threading.Lock()
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith(COMPILING):
            with self._lock:
                self._add(duration_secs)

    def _add(self, seconds: float) -> None:
        """An interval of so many seconds that ends now, in place of those within it."""
        now = Elapsed(time.perf_counter(), time.process_time())
        start, wall, process = now.wall - seconds, 0.0, 0.0
        while self._intervals and self._intervals[-1].start >= start:
            inner = self._intervals.pop()
            wall, process = wall + inner.wall, process + inner.process
        between = max(now.wall - self._last.wall, 1e-9)
        more = (seconds - wall) * (now.process - self._last.process) / between
        self._intervals.append(_Interval(start, seconds, process + more))
        self._sum = Elapsed(self._sum.wall + seconds - wall, self._sum.process + more)
        self._last = now

    def read(self) -> Elapsed:
        """The seconds so far."""
        return self._sum


@cache
def compile_clock() -> CompileClock:
    """The clock of this process, which has run since this was first called.

    There is but one: jax has no open way to take a listener away.
    """
    return CompileClock()


def time_part(seconds: dict[str, float], name: str, run: Callable[[], Any]) -> Any:
    """What `run` returns, once it is there; its wall seconds are added under `name`.

    Those of compiling are added under "compile" instead.
    """
    clock = compile_clock()
    start, compiled = time.perf_counter(), clock.read().wall
    result = jax.block_until_ready(run())
    compiling = clock.read().wall - compiled
    running = max(0.0, time.perf_counter() - start - compiling)
    seconds[name] = seconds.get(name, 0.0) + running
    if compiling:
        seconds[COMPILE] = seconds.get(COMPILE, 0.0) + compiling
    return result


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
