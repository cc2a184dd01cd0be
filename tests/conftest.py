"""Settings and fixtures that all tests share."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Iterator

import jax
import pytest

MOST_BYTES = 2.5e9


def pytest_configure(config: pytest.Config) -> None:
    """A warning raised in our own package is an error."""
    config.addinivalue_line("filterwarnings", r"error:::jaxstruct(\..*)?")


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
