"""Options that belong to a program: they are part of a tree's structure, not leaves of it.

Under `jit` they are known while tracing, and another value compiles anew.
"""

from __future__ import annotations

import dataclasses
from typing import Generic, TypeVar, dataclass_transform

import jax

Record = TypeVar("Record")
Value = TypeVar("Value")


@dataclass_transform(frozen_default=True)
def static(record: type[Record]) -> type[Record]:
    """Make a class a frozen dataclass that is static; its fields must be hashable."""
    return jax.tree_util.register_static(dataclasses.dataclass(frozen=True)(record))


@static
class Static(Generic[Value]):
    """One static value, such as the dtype of a loss or the degree of a kernel."""

    value: Value
