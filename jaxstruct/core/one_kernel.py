"""Small functions as one kernel: on a CPU an operation by itself costs more than what it computes.

XLA's CPU runtime calls a kernel for every operation (or fusion of some), a tenth of a microsecond
and more each, and a loop over small arrays is mostly these calls. A function that is marked here
becomes one kernel, loops and all: ten pairwise steps of 16 blocks of 24 slots take 11 us for 19.
Products of larger matrices are better left outside, and what such a kernel cannot hold at all must
be: scatters, sorts and calls of libraries. A loop that writes rows with `dynamic_update_slice` is a
scatter that it can hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.experimental.xla_metadata import set_xla_metadata


def one_kernel(function: Callable) -> Callable:
    """The same function, compiled as one kernel where the program runs on a CPU.

    The mark is one that XLA itself puts on small loops; a compiler that does not know it compiles
    the function as any other. Values are the same.

    Args:
      function: of arrays by position, without scatters, sorts and calls of libraries; it may be
        under `vmap` and inside loops.
    """
    compiled = jax.jit(function)

    @functools.wraps(function)
    def marked(*arguments: Any) -> Any:
        found = compiled(*arguments)
        if jax.default_backend() != "cpu":
            return found
        return set_xla_metadata(found, xla_cpu_small_call="true", inlineable="false")

    return marked
