"""Compiled programs that are counted: how many a run traced, without a look into jax's caches."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax

_traced: Counter[str] = Counter()


def counted_jit(function: Callable, **options: Any) -> Callable:
    """`jax.jit` of a function; `programs_traced` counts each trace of it.

    jax runs the Python body of a compiled function once for each program that it makes of it, so
    the body itself counts.

    Args:
      function: what is compiled. options: of `jax.jit`.
    """
    name = f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        _traced[name] += 1
        return function(*args, **kwargs)

    return jax.jit(traced, **options)


def programs_traced() -> int:
    """How many programs of `counted_jit` functions this process has traced so far."""
    return _traced.total()


def timed(seconds: dict[str, float], name: str, run: Callable[[], Any]) -> Any:
    """What `run` returns, once it is there; its wall seconds are added under `name`."""
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
    return result
