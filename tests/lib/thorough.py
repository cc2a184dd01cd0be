"""What of a test a plain run leaves to thorough ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

THOROUGH = pytest.mark.thorough
run = {"thorough": False}
"""Of this process; `tests/conftest.py` says."""


def thorough_after(count: int, values: Iterable[Any]) -> list[Any]:
    """The values of a parameter, of which all but the first so many are thorough.

    A plain tuple is of several names.
    """
    return [value if n < count else _thorough(value) for n, value in enumerate(values)]


def _thorough(value: Any) -> Any:
    if hasattr(value, "marks"):  # what `pytest.param` gives
        return pytest.param(*value.values, marks=(*value.marks, THOROUGH), id=value.id)
    return pytest.param(*(value if type(value) is tuple else (value,)), marks=THOROUGH)


def repeats(count: int, plain: int) -> range:
    """Seeds of a test: so many in a thorough run, of which a plain one takes the first."""
    return range(count if run["thorough"] else plain)


def _values(item: pytest.Item) -> set[tuple]:
    """(names, which values) of each of its parametrisations; one of a test that has none."""
    params = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    groups = [mark.args[0] for mark in item.iter_markers("parametrize")]
    found = set()
    for names in (each.split(",") if isinstance(each, str) else each for each in groups):
        values = (params.pop(name.strip()) for name in names)
        found.add((tuple(names), *map(id, values)))  # of one value all items have one object
    return found | {(name, id(value)) for name, value in params.items()} or {()}


def first_combinations(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of every test the first of its parametrisations."""
    return {same[0] for same in _of_each_test(items)}


def _of_each_test(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    several: dict[tuple, list[pytest.Item]] = {}
    for item in items:
        several.setdefault((item.parent, getattr(item, "originalname", item.name)), []).append(item)
    return [*several.values()]


def each_value_once(items: list[pytest.Item]) -> set[pytest.Item]:
    """Of tests over several parametrisations so many that each value of each is there.

    All their combinations are for thorough runs. Values of one parametrisation go together.
    """
    kept = set()
    for same in _of_each_test(items):
        values = {item: _values(item) for item in same}
        missing = set().union(*values.values())
        while missing:
            item = max(same, key=lambda item: len(values[item] & missing))  # the first of equals
            kept.add(item)
            missing -= values[item]
    return kept
