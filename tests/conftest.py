"""Settings and fixtures that all tests share."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Iterator

import jax
import pytest

MOST_BYTES = 2.5e9
PROGRAMS = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
"""Where compiled programs are kept: most of the time of the tests is compiling."""


def pytest_configure(config: pytest.Config) -> None:
    """A warning raised in our own package is an error; compiled programs are kept on disk."""
    config.addinivalue_line("filterwarnings", r"error:::jaxstruct(\..*)?")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(PROGRAMS / "jaxstruct" / "tests"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    """Operands of unequal rank never broadcast in silence: a missing axis is an error."""
    with jax.numpy_rank_promotion("raise"):
        yield


def _resident_bytes() -> float:
    """What this process holds in memory; infinite where the system does not tell."""
    table = pathlib.Path("/proc/self/statm")
    if not table.exists():
        return math.inf
    return float(table.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True, scope="module")
def few_compiled_programs() -> Iterator[None]:
    """Files share programs of equal shapes, but all of them together take gigabytes."""
    yield
    if _resident_bytes() > MOST_BYTES:
        jax.clear_caches()


@pytest.fixture
def x64() -> Iterator[None]:
    """float64 for one test; the library itself never flips the switch."""
    with jax.enable_x64(True):
        yield
