"""The wall seconds of the parts of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax


def time_part(seconds: dict[str, float], name: str, run: Callable[[], Any]) -> Any:
    """What `run` returns, once it is there; its wall seconds are added under `name`."""
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
    return result
