"""What of a test a plain run leaves to thorough ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

THOROUGH = pytest.mark.thorough


def thorough_after(count: int, values: Iterable[Any]) -> list[Any]:
    """The values of a parameter, of which all but the first so many are thorough.

    A plain tuple is of several names.
    """
    return [value if n < count else _thorough(value) for n, value in enumerate(values)]


def _thorough(value: Any) -> Any:
    if hasattr(value, "marks"):  # what `pytest.param` gives
        return pytest.param(*value.values, marks=(*value.marks, THOROUGH), id=value.id)
    return pytest.param(*(value if type(value) is tuple else (value,)), marks=THOROUGH)
