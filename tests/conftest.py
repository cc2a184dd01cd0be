"""Settings and fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """A warning raised in our own package is an error."""
    config.addinivalue_line("filterwarnings", r"error:::jaxstruct(\..*)?")


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    """Operands of unequal rank never broadcast in silence: a missing axis is an error."""
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(autouse=True, scope="module")
def programs_of_one_file() -> Iterator[None]:
    """Compiled programs are dropped after each file: kept for all, they take gigabytes."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64() -> Iterator[None]:
    """float64 for one test; the library itself never flips the switch."""
    with jax.enable_x64(True):
        yield
