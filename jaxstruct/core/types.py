"""Floor 0: the plain records that every floor shares, and static options.

Options that belong to a program are part of a tree's structure, not leaves of it: under `jit` they
are known while tracing, and another value compiles anew.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, dataclass_transform

import jax

Array = jax.Array
PyTree: TypeAlias = Any

AnyArray: TypeAlias = Any
"""An array of an input or output: NumPy's while data are prepared, JAX's within a program."""


class SparseFeatures(NamedTuple):
    """One input as a padded list of its non-zero features.

    Phi(x) = sum_j values[j] e_{indices[j]}. Padding: index = number of features, value = 0
    (the index is out of range on purpose, so that a scatter drops it). Real indices are sorted
    and unique. A batch carries a leading axis on both leaves, or has `Ragged` ones.

    Fields:
      indices: [m] int32.
      values: [m] float.
    """

    indices: AnyArray
    values: AnyArray


class BinaryTree(NamedTuple):
    """One tree in Chomsky normal form over at most T >= 2 tokens, as integers; padding is -1.

    A sentence of l tokens has l pre-terminal symbols and l - 1 inner nodes, which stand in
    preorder: a parent before its children, all of the left child before the right one. The node of
    tokens begin .. end - 1 has its left child on begin .. split - 1 and its right one on split ..
    end - 1. A batch carries a leading axis on every leaf.

    Fields:
      symbols: [T] int32, the symbol right above each token.
      rules: [T - 1] int32, the number of the binary rule of each inner node.
      begins, splits, ends: [T - 1] int32.
    """

    symbols: AnyArray
    rules: AnyArray
    begins: AnyArray
    splits: AnyArray
    ends: AnyArray


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
