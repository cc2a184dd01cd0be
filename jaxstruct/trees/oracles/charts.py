"""Where the cells of a chart stand, and which pairs of cells make which.

A chart is one array [rows, S, B]. A cell is a span at a level, and has one row. The level of a tree
over a span is a pair (p, m): p counts its predicted nodes, m its matched ones. Where p is not
counted it is 0. A plain chart has one level.

A span of w tokens holds few nodes, so every width w has a short list of levels of its own, in
lexicographic order. The level of two joined parts is the sum of their levels. Only m is cut at the
last value of the width, which stands for all larger ones.

The rows of single tokens come first. The rows of longer spans follow in the order in which they are
filled: by their ends, the shorter first. So a batch of short sentences needs the front rows only.

A term of a cell is a triple (split, level of the left part, level of the right part) whose joined
level is the cell's. The terms of a width are the same for every begin.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxstruct.core.types import Array


class Layout(NamedTuple):
    """The cells of the charts of sentences of at most T tokens, as numpy arrays; L is most levels.

    Fields:
      levels: [T + 1] how many levels the spans of w tokens have.
      first_rows: [T + 1, T + 1] the row of the first level of (w, begin); the others follow.
      rows: how many rows there are.
      widths, begins: [T (T - 1) / 2] the spans of two tokens and more, in the order of their rows.
      index: [T + 1, P, M] the level that is (p, m), or -1.
      counts: [T + 1, L, 2] (p, m) of a level, -1 beyond the last.
      first_terms: [T + 1, L, 2] where the terms of each cell begin and end.
      terms: [.., 3] int32: split, left level, right level; those of a cell are sorted.
    """

    levels: np.ndarray
    first_rows: np.ndarray
    rows: int
    widths: np.ndarray
    begins: np.ndarray
    index: np.ndarray
    counts: np.ndarray
    first_terms: np.ndarray
    terms: np.ndarray

    @property
    def tokens(self) -> int:
        """T."""
        return len(self.levels) - 1

    @property
    def most(self) -> int:
        """L."""
        return int(self.levels.max())

    @property
    def size(self) -> int:
        """Rows of the chart, long enough to write the L rows of any cell at once."""
        return self.rows + self.most - 1

    @property
    def most_terms(self) -> int:
        """The most terms of a cell."""
        return int((self.first_terms[..., 1] - self.first_terms[..., 0]).max())

    @property
    def most_terms_of_width(self) -> int:
        """The most terms of all cells of a span."""
        return int((self.first_terms[:, -1, 1] - self.first_terms[:, 0, 0]).max())

    def terms_of(self, width: Array, level: Array | int) -> tuple[Array, Array]:
        """(first, end) of the terms of a cell."""
        first, end = jnp.moveaxis(jnp.asarray(self.first_terms)[width, level], -1, 0)
        return first, end

    def row(self, width: Array | int, begin: Array | int, level: Array | int = 0) -> Array:
        """The row of a cell."""
        return jnp.asarray(self.first_rows)[width, begin] + level

    @property
    def whole(self) -> np.ndarray:
        """[T] the first rows of the spans of 1..T tokens that begin at 0."""
        return self.first_rows[1:, 0]


def _index(matched: tuple[int, ...], predicted: tuple[int, ...] | None) -> np.ndarray:
    """[T + 1, P, M] the levels of all widths."""
    T = len(matched)
    many = (1,) * T if predicted is None else predicted
    index = np.full((T + 1, max(many), max(matched)), -1, np.int32)
    for w in range(1, T + 1):
        p, m = np.indices((many[w - 1], matched[w - 1]))
        real = np.ones(p.shape, bool) if predicted is None else m <= p
        index[w, : many[w - 1], : matched[w - 1]][real] = np.arange(real.sum())
    return index


def _join(index: np.ndarray, lists: list[np.ndarray], w: int) -> np.ndarray:
    """[terms, 4] sorted (joined level, split, left level, right level) of spans of w tokens."""
    parts: list[np.ndarray] = [np.zeros((0, 4), np.int32)]
    last = max(m for _, m in lists[w])  # stands for all larger ones
    for k in range(1, w):
        a, b = (level.ravel() for level in np.indices((len(lists[k]), len(lists[w - k]))))
        p, m = (lists[k][a] + lists[w - k][b]).T
        real = p < index.shape[1]
        level = np.where(real, index[w, np.where(real, p, 0), np.minimum(m, last)], -1)
        rows = np.stack([level, np.full(len(a), k), a, b], 1)
        parts.append(rows[level >= 0])
    rows = np.concatenate(parts)
    return rows[np.lexsort(rows.T[::-1])]


def _laid_out(
    levels: np.ndarray, terms: list[np.ndarray], first_terms: np.ndarray, index: np.ndarray,
    counts: np.ndarray,
) -> Layout:  # fmt: skip
    """The layout of spans that have so many levels; terms by width."""
    T = len(levels) - 1
    # By their end, so that a batch stops at its longest sentence.
    spans = [(w, e - w) for e in range(2, T + 1) for w in range(2, e + 1)]
    every = np.array([(1, t) for t in range(T)] + spans, np.int32)
    stops = np.cumsum(levels[every[:, 0]])
    first_rows = np.zeros((T + 1, T + 1), np.int32)
    first_rows[tuple(every.T)] = stops - levels[every[:, 0]]
    widths, begins = every[T:].T
    joined, first_terms = np.concatenate(terms).astype(np.int32), first_terms.astype(np.int32)
    return Layout(
        levels, first_rows, int(stops[-1]), widths, begins, index, counts, first_terms, joined
    )


@cache
def layout(matched: tuple[int, ...], predicted: tuple[int, ...] | None = None) -> Layout:
    """The layout of charts with levels.

    Args:
      matched: [T] how many values m takes over w = 1..T tokens; predicted: the same of p, or None
        where it is not counted.
    """
    T = len(matched)
    index = _index(matched, predicted)
    lists = [np.argwhere(index[w] >= 0).astype(np.int32) for w in range(T + 1)]
    levels = np.array([len(found) for found in lists], np.int32)
    counts = np.full((T + 1, levels.max(), 2), -1, np.int32)
    for w in range(T + 1):
        counts[w, : levels[w]] = lists[w]
    rows = [_join(index, lists, w) if w else np.zeros((0, 4), np.int32) for w in range(T + 1)]
    starts = np.cumsum([0, *(len(found) for found in rows)])
    bounds = np.arange(levels.max() + 1)
    ends = np.stack([starts[w] + np.searchsorted(rows[w][:, 0], bounds) for w in range(T + 1)])
    first_terms = np.stack([ends[:, :-1], ends[:, 1:]], axis=2)
    return _laid_out(levels, [found[:, 1:] for found in rows], first_terms, index, counts)


def plain(tokens: int) -> Layout:
    """The layout of charts with one level, of sentences of at most T tokens."""
    return layout((1,) * tokens)


def rank_pairs(k: int) -> list[tuple[int, int]]:
    """Pairs of ranks, in order, whose sums can be among the k best of two falling lists."""
    return [(a, b) for a in range(k) for b in range(k // (a + 1))]


@cache
def ranked(tokens: int, k: int) -> Layout:
    """The layout of charts whose levels are ranks: any of a cell may be of any of its terms."""
    levels = np.full(tokens + 1, k, np.int32)
    pairs = np.array(rank_pairs(k), np.int32)
    terms = [
        np.column_stack(
            [np.repeat(np.arange(1, w), len(pairs)), np.tile(pairs, (max(w - 1, 0), 1))]
        )
        for w in range(tokens + 1)
    ]
    ends = np.cumsum([len(of_width) for of_width in terms])
    bounds = np.stack([np.append(0, ends[:-1]), ends], axis=1)
    none = np.zeros((tokens + 1, 0, 0), np.int32)
    return _laid_out(levels, terms, np.repeat(bounds[:, None], k, axis=1), none, none)
