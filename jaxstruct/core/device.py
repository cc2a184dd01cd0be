"""Which device programs run on, and arrays that NumPy makes and that are moved there.

`jnp.zeros`, `jnp.asarray` and their like compile a program for every shape and dtype, 20 to 30 ms
each; a move compiles nothing. So what is set up once is made here.
"""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def shape_on_device(shape: tuple[int, ...], dtype: DTypeLike) -> jax.ShapeDtypeStruct:
    """The shape and dtype of an array there: JAX itself warns the user where 64 bits become 32."""
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))


def on_device(values: ArrayLike | jax.Array, dtype: DTypeLike | None = None) -> jax.Array:
    """The values, of any array or nested lists, as an array of JAX's.

    Args:
      values: known numbers: under `jit` this is for constants only.
      dtype: what they are rounded to, by NumPy; None to keep theirs. 64 bits become 32 unless
        jax's x64 mode is on, as everywhere in JAX.
    """
    with np.errstate(over="ignore"):  # beyond the dtype is infinite, as in JAX
        return jax.device_put(np.asarray(values, dtype))


def zeros_on_device(shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """Zeros of that shape and dtype."""
    return jax.device_put(np.zeros(shape, dtype))


def current_device() -> Any:  # jax.Device, a variable to type checkers
    """The device that programs run on which are traced now."""
    chosen = jax.config.jax_default_device
    if chosen is None or isinstance(chosen, str):
        return jax.devices(chosen)[0]
    return chosen


def runs_on_cpu() -> bool:
    """Whether programs that are traced now will run on a CPU."""
    return current_device().platform == "cpu"


def memory_limit() -> int | None:
    """The bytes of the device's memory, of a CPU those of the machine; None where none says so."""
    limit = (current_device().memory_stats() or {}).get("bytes_limit")
    if limit is None and "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return limit
