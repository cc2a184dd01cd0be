"""How much the compiler tries: four efforts, chosen a program at a time.

XLA on a CPU compiles for seconds what a small training runs for a tenth of one. Its optimiser and
its way to emit loops take most of that time (sweeps over dense classes, one core: 3.6 s, with less
effort 1.9 s, with the least 0.5 s) and pay back on long runs only: programs of less effort take
1.2 to 1.6, those of the least 5 to 11 times as long.

It takes memory, too, and the C library keeps what the compiler frees: hundreds of megabytes beside
arrays of as many. So what is free is given back after each compiling, in some tens of milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from jaxstruct.core.one_kernel import without_marks

EFFORTS: dict[str, dict[str, Any]] = {
    "quick": {
        "xla_backend_optimization_level": 0,
        "xla_cpu_use_fusion_emitters": False,
        "xla_cpu_parallel_codegen_split_count": 1,
    },
    "fair": {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False},
    "good": {"xla_cpu_use_fusion_emitters": False},
    "full": {},
}
"""Options of the compiler by effort; a compiler that does not know them compiles as usual.

Beside full effort the least one compiles in a tenth to a third of the time and runs five to
eleven times as long, the fair one in half and 1.1 to 1.9 times. The least effort makes code in
one piece: 32 pieces, made side by side, take a fifth more in all. Full effort alone emits each loop
in a context of the compiler of its own: the oracle of 8,323 sentences takes 690 MB while it is
compiled, with good effort 160. Charts of trees run 2.6 times as long without these loops, chains
and alignments as fast.
"""

_trim = getattr(ctypes.CDLL(None) if os.name == "posix" else None, "malloc_trim", None)
_traced: Counter[str] = Counter()
_listeners: list[Callable[[str], None]] = []


def give_back_memory() -> None:
    """Hand free pages of the C library's heap back to the system, where the library can."""
    if _trim is not None:
        _trim(0)


def programs_traced() -> int:
    """How many programs this process has traced so far, those of efforts and of shapes apart."""
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
    """A function that is compiled with the effort that a call asks for, and counted.

    jax runs the Python body of a compiled function once for each program that it makes of it, so
    the body itself counts. Each effort has a body of its own: jax remembers traces, and would not
    run one body for a second effort.
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
        self._name = name = f"{function.__module__}.{function.__qualname__}"
        words = function.__name__.strip("_").replace("_", " ")

        def counted(marks: Callable) -> Callable:
            @functools.wraps(function)
            def traced(*arguments: Any) -> Any:
                _traced[name] += 1
                for listener in tuple(_listeners):
                    listener(words)
                with marks():
                    return function(*arguments)

            return traced

        def compiled(effort: str, marks: Callable = contextlib.nullcontext) -> Callable:
            return jax.jit(
                counted(marks),
                static_argnums=static_argnums,
                donate_argnums=donate_argnums,
                compiler_options=EFFORTS[effort] or None,
            )

        self._compiled = {effort: compiled(effort) for effort in EFFORTS}
        self._unmarked = functools.cache(lambda effort: compiled(effort, without_marks))

    def __call__(self, *arguments: Any, effort: str = "full") -> Any:
        """The function's value, by the program of this effort.

        Args:
          arguments: of the function, by position. effort: a name of `EFFORTS`.
        """
        traced = _traced[self._name]
        try:
            return self._compiled[effort](*arguments)
        except jax.errors.JaxRuntimeError as error:
            if "UNIMPLEMENTED" in str(error):
                return self._without_kernels(effort, arguments, error)
            if "No such compile option" not in str(error) or effort == "full":
                raise
        finally:
            if _traced[self._name] > traced:
                give_back_memory()
        self._compiled[effort] = self._compiled["full"]
        return self._compiled[effort](*arguments)

    def _without_kernels(self, effort: str, arguments: tuple, error: Exception) -> Any:
        """The program compiled without marks of `one_kernel`, which XLA cannot follow."""
        text = f"{self.function.__name__} runs without kernels of its own, which takes longer: XLA"
        warnings.warn(f"{text} says {str(error).splitlines()[0]}", RuntimeWarning, stacklevel=2)
        self._compiled[effort] = self._unmarked(effort)
        return self._compiled[effort](*arguments)


def program(
    function: Callable,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Program:
    """A function as a program whose effort each call names; `programs_traced` counts its traces.

    Args:
      function: what is compiled. static_argnums, donate_argnums: of `jax.jit`.
    """
    return Program(function, static_argnums, donate_argnums)
