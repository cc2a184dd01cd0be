"""Records of a stream cut into batches whose shapes come again, so that few programs serve all.

`predict` sees all lengths and chooses its buckets by them. A stream sees some thousand records at a
time, whose longest is another one each time: left to itself it would compile for ever. Here sizes
are rounded to classes, and where a program is there that is not much too large, it is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.contract import Padding
from jaxstruct.core.padding import ragged_leaves
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.sizes import size_class
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.solvers.n_slack.task import padded_rows

LEAST_ROWS = 4
"""Rows of a batch, at least: fewer are hardly faster, and each number is a program."""

CLASS = 4 / 3
"""How much longer than its own class a program may be that is taken because it is there."""


class Shape(NamedTuple):
    """rows: of a batch. lengths: what each ragged leaf is padded to, in the order of the leaves."""

    rows: int
    lengths: tuple[int, ...]

    def holds(self, other: Shape) -> bool:
        """Whether the other one fits in and wastes little of it.

        Twice as many numbers at most, and no axis longer than by a class: charts cost the third
        power of their lengths.
        """
        if len(self.lengths) != len(other.lengths) or not other.rows <= self.rows <= 2 * other.rows:
            return False
        pairs = list(zip(self.lengths, other.lengths, strict=True))
        fits = all(own <= size <= CLASS * own for size, own in pairs)
        return fits and self.numbers <= 2 * other.numbers

    @property
    def numbers(self) -> int:
        """About how many numbers a batch has."""
        return self.rows * max(sum(self.lengths), 1)


class Shapes:
    """The shapes of one stream so far."""

    def __init__(self, padding: Padding) -> None:
        """None yet, of a structure that is padded so."""
        self._padding = padding
        self._used: set[Shape] = set()
        self._widths: set[tuple[int, int]] = set()

    def length(self, longest: int) -> int:
        """What a length is padded to: the structure's own size, in quarters of an octave."""
        size = max(self._padding.size(longest), 8)
        step = 1 << max((size - 1).bit_length() - 3, 0)
        return self._padding.size(-(-size // step) * step)

    def taken(self, rows: int, longest: tuple[int, ...]) -> Shape:
        """The shape for a batch: the smallest that is there and holds it, else a new one.

        Args:
          rows: of the batch. longest: row of each ragged leaf.
        """
        own = Shape(rows, tuple(map(self.length, longest)))
        there = [shape for shape in self._used if shape.holds(own)]
        return min(there, key=lambda shape: (shape.numbers, shape)) if there else own

    def keep(self, shape: Shape, widths: Iterable[tuple[int, int]]) -> None:
        """There is a program of this shape now, of tokens of these widths, see `widened`."""
        self._used.add(shape)
        self._widths.update(widths)

    def widened(self, inputs: PyTree) -> tuple[PyTree, list[tuple[int, int]]]:
        """Ragged sparse features with tokens of as many entries as came before, or a size class.

        A token is as wide as the one of its chunk that has the most features; padding has the
        index d and the value 0, as the stores say.

        Returns:
          (inputs, [(which part, its width), ..]).
        """
        widths: list[tuple[int, int]] = []

        def widen(part: PyTree) -> PyTree:
            if not _of_tokens(part):
                return part
            place, needed = len(widths), part.indices.rows.shape[1]
            there = [w for at, w in self._widths if at == place and needed <= w <= 2 * needed]
            width = min(there) if there else size_class(needed)
            widths.append((place, width))
            return SparseFeatures(*(_wide(leaf, width) for leaf in part))

        return jax.tree.map(widen, inputs, is_leaf=_sparse), widths


def _sparse(part: PyTree) -> bool:
    return isinstance(part, SparseFeatures)


def _of_tokens(part: PyTree) -> bool:
    """Whether it is ragged sparse features whose rows are tokens, [m] each."""
    return _sparse(part) and all(isinstance(x, Ragged) and x.rows.ndim == 2 for x in part)


def _wide(leaf: Ragged, width: int) -> Ragged:
    more = ((0, 0), (0, width - leaf.rows.shape[1]))
    return Ragged(np.pad(leaf.rows, more, constant_values=leaf.fill), leaf.offsets, leaf.fill)


def cut(shapes: Shapes, inputs: PyTree, n: int, batch: int) -> list[np.ndarray]:
    """Which records go together: those of one size, the longest first.

    A batch has `batch` rows, or a power of two that holds the rest of its size. What is free in it
    is filled with the next smaller records, which would else be rows of padding.

    Args:
      shapes: of the stream. inputs: of n records. batch: rows, at most.

    Returns:
      Arrays of positions, together 0..n-1.
    """
    stores = ragged_leaves(inputs)
    sizes, total = np.zeros(n, np.int64), np.zeros(n, np.int64)
    if stores:
        longest = np.max([leaf.lengths for leaf in stores], axis=0)
        distinct, places = np.unique(longest, return_inverse=True)
        sizes = np.array([shapes.length(int(one)) for one in distinct])[places]
        total = np.sum([leaf.lengths for leaf in stores], axis=0)
    order = np.lexsort((np.arange(n), -total, -sizes))
    ends = np.searchsorted(-sizes[order], -sizes[order], side="right")
    pieces, at = [], 0
    while at < n:
        rows = rows_of_class(int(ends[at]) - at, batch)
        pieces.append(order[at : at + rows])
        at += rows
    return pieces


def rows_of_class(rows: int, batch: int) -> int:
    """Rows rounded up to a power of two, `batch` at most, LEAST_ROWS at least."""
    return min(batch, max(1 << max(rows - 1, 0).bit_length(), LEAST_ROWS))


def longest_of(inputs: PyTree, which: np.ndarray) -> tuple[int, ...]:
    """The longest row of each ragged leaf among some records."""
    return tuple(int(leaf.lengths[which].max(initial=0)) for leaf in ragged_leaves(inputs))


def padded_batch(inputs: PyTree, which: np.ndarray, shape: Shape) -> PyTree:
    """Some records as arrays of a shape; rows that are free repeat the first."""
    lengths = iter(shape.lengths)

    def of_leaf(leaf: Ragged | np.ndarray) -> np.ndarray:
        if isinstance(leaf, Ragged):
            return leaf.padded(which, next(lengths))
        return np.asarray(leaf)[which]

    return padded_rows(jax.tree.map(of_leaf, inputs), shape.rows)
