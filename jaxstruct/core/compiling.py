"""Functions as programs: compiled once a shape, counted, and reported as tracing begins."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from jaxstruct.core.compiler import (
    compiler_options,
    give_back_memory,
    warn_of_untried_version,
)

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
