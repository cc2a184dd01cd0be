"""What JAX does not document, for speed and memory alone: it stands here, and nowhere else.

`JAXSTRUCT_PLAIN=1` leaves all of it out. An option of the compiler is tried once a process, on a
program of one number, and left out where the compiler does not know it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxstruct.core.device import runs_on_cpu

SWITCH = "JAXSTRUCT_PLAIN"
"""A variable of the environment: with 1 nothing of this file is used."""

NEWEST_TRIED = "0.12.0.1"
"""The newest JAX on which the whole suite passed."""

OPTIONS: dict[str, Any] = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_use_fusion_emitters": False,
}
"""Options of XLA on a CPU, by name."""

COMPILING = "/jax/core/compile/"
"""How the names of jax's events begin that say how long compiling took: for reports alone."""

_trim = getattr(ctypes.CDLL(None) if os.name == "posix" else None, "malloc_trim", None)


class UntriedVersion(RuntimeWarning):
    """JAX is newer than the versions that jaxstruct was tried with."""


def numbers_of(version: str) -> tuple[int, ...]:
    """(0, 12, 0, 1) of "0.12.0.1"; the first part that is no number ends it."""
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def record_of_passing() -> Path:
    """The file that says that `python -m jaxstruct` has passed with the JAX of this process."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    versions = (importlib.metadata.version(name) for name in ("jax", "jaxlib"))
    return cache / "jaxstruct" / "-".join(["passed", *versions])


@functools.cache
def warn_of_untried_version() -> None:
    """Warn once where JAX is newer than `NEWEST_TRIED` and the self-test has not passed with it."""
    version = importlib.metadata.version("jax")
    if numbers_of(version) > numbers_of(NEWEST_TRIED) and not record_of_passing().exists():
        warnings.warn(
            f"JAX {version} is newer than {NEWEST_TRIED}, the newest that jaxstruct was tried "
            "with: run python -m jaxstruct, which takes seconds; where it passes, this warning "
            "ends",
            UntriedVersion,
            stacklevel=4,
        )


def is_plain() -> bool:
    """Whether everything in this file is left out."""
    return os.environ.get(SWITCH) == "1"


def compiler_options() -> dict[str, Any] | None:
    """Those of `OPTIONS` that the compiler of this process knows; None where there are none."""
    if is_plain() or not runs_on_cpu():
        return None
    return dict(_known_options()) or None


@functools.cache
def _known_options() -> tuple[tuple[str, Any], ...]:
    return tuple(option for option in OPTIONS.items() if knows(*option))


def knows(name: str, value: Any) -> bool:
    """Whether the compiler takes an option: tried on a program of one number, 15 to 80 ms."""
    trial = jax.jit(lambda x: x + 1, compiler_options={name: value})
    try:
        trial.lower(jax.ShapeDtypeStruct((), np.float32)).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def give_back_memory() -> None:
    """Hand free pages of the C library's heap back to the system, where the library can.

    The compiler takes hundreds of megabytes, and the C library keeps what the compiler frees.
    """
    if _trim is not None and not is_plain():
        _trim(0)


def to_take_over(values: np.ndarray) -> jax.Array:
    """The same in a buffer of its own, which a program can take over.

    The second move makes the copy: the first may share NumPy's memory, whatever `may_alias` says
    (jax issue 37830), and a program takes over nothing that is shared.
    """
    if is_plain():
        return jax.device_put(values)
    return jax.device_put(jax.device_put(values), may_alias=False)
