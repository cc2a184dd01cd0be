"""Programs that run once or twice: compiled with little effort, whatever that costs at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Options of the compiler; a compiler that does not know them compiles as usual."""


class QuickProgram:
    """A compiled function that was compiled with little effort."""

    def __init__(self, function: Callable, static_argnums: int | Sequence[int]) -> None:
        """Wrap the function; nothing compiles yet."""
        self._quick = jax.jit(function, static_argnums=static_argnums, compiler_options=QUICK)
        self._plain = jax.jit(function, static_argnums=static_argnums)
        self._refused = False

    def __call__(self, *arguments: Any) -> Any:
        """The function's value."""
        if not self._refused:
            try:
                return self._quick(*arguments)
            except jax.errors.JaxRuntimeError as error:
                if "No such compile option" not in str(error):
                    raise
                self._refused = True
        return self._plain(*arguments)


def quick_program(function: Callable, static_argnums: int | Sequence[int] = ()) -> QuickProgram:
    """A function compiled with `QUICK` options where the compiler knows them."""
    return QuickProgram(function, static_argnums)
