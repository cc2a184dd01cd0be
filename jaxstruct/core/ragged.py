"""The ragged store: the rows of all examples one after the other, nothing padded by length.

A `Ragged` stands where a padded array [n, T, ...] would stand: it is one leaf of a pytree. How it
is padded, and to what, is the solver's business (`core.padding`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from jaxstruct.core.checks import as_array, as_list, text_of
from jaxstruct.core.spec import array

ADVICE = "take its .rows, its .padded(which, length), or example i as it is, [i]"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Ragged:
    """n examples of any lengths; example i holds rows offsets[i] .. offsets[i + 1] - 1.

    Fields:
      rows: [R, ...] numbers, the rows of all examples, one after the other.
      offsets: [n + 1] int64, rising from 0 to R.
      fill: what padding holds: 0 for dense features, d for indices of sparse ones.

    Raises:
      ValueError: rows are no array of numbers, offsets do not rise from 0 to R, or fill is no
        number.
    """

    rows: np.ndarray
    offsets: np.ndarray
    fill: float = 0

    def __post_init__(self) -> None:
        """Check all three."""
        rows = as_array("rows", self.rows, "[R, ...] numbers")
        if not rows.ndim or rows.dtype.kind not in "biuf":
            raise ValueError(f"rows must be [R, ...] numbers, got {text_of(self.rows)}")
        if np.ndim(self.fill) or np.asarray(self.fill).dtype.kind not in "biuf":
            raise ValueError(f"fill must be one number, got {text_of(self.fill)}")
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "offsets", _checked_offsets(self.offsets, len(rows)))

    @property
    def lengths(self) -> np.ndarray:
        """[n] int64 how many rows each example has."""
        return np.diff(self.offsets)

    def lengths_of(self, which: np.ndarray) -> np.ndarray:
        """[m] how many rows each of the examples `which` has, found in O(m)."""
        return self.offsets[np.asarray(which) + 1] - self.offsets[which]

    @property
    def shape(self) -> tuple[int]:
        """(n,), the one axis that all examples share."""
        return (len(self),)

    def __len__(self) -> int:
        """The number n of examples."""
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        """[length, ...] the rows of example i."""
        if isinstance(i, bool) or not isinstance(i, (int, np.integer)):
            raise ValueError(
                f"the number of an example must be an integer, got {text_of(i)}; of several "
                "examples use jaxstruct.take"
            )
        if not -len(self) <= i < len(self):
            raise IndexError(f"there is no example {i} of {len(self)}")
        i = int(i) % len(self)
        return self.rows[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        """The rows of one example after the other."""
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        """Refused: examples of several lengths are no array."""
        raise ValueError(f"{self!r} is no array of one shape: {ADVICE}")

    def __repr__(self) -> str:
        """One line without the numbers."""
        return f"Ragged(n={len(self)}, rows {self.rows.dtype}{list(self.rows.shape)})"

    def take(self, which: np.ndarray) -> Ragged:
        """The examples `which`, in that order, and no rows but theirs.

        Args:
          which: [m] integers in 0..n-1.
        """
        offsets = np.concatenate([[0], np.cumsum(self.lengths_of(which))])
        return Ragged(self.rows[_places(self.offsets, which)], offsets, self.fill)

    def padded(self, which: np.ndarray, length: int, fill: float | None = None) -> np.ndarray:
        """The examples `which` as one array, padded on the right.

        Args:
          which: [m] integers in 0..n-1.
          length: of every example. fill: what padding holds; None for that of the store.

        Returns:
          [m, length, ...] in the dtype of the rows, or the narrowest one that holds `fill`, too.

        Raises:
          ValueError: an example has more rows than `length`.
        """
        fill = self.fill if fill is None else fill
        lengths = self.lengths_of(which)
        if lengths.max(initial=0) > length:
            longest = np.asarray(which)[lengths.argmax()]
            raise ValueError(
                f"length is {length}, but example {longest} has {lengths.max()} rows: raise it"
            )
        shape = (len(lengths), length, *self.rows.shape[1:])
        out = np.full(shape, fill, _holding(self.rows.dtype, fill))
        out[np.arange(length) < lengths[:, None]] = self.rows[_places(self.offsets, which)]
        return out


def _checked_offsets(offsets: Any, rows: int) -> np.ndarray:
    """[n + 1] int64.

    Raises:
      ValueError: they are no integers on one axis that rise from 0 to the number of rows.
    """
    found = array("offsets", offsets, "n+1").astype(np.int64)
    falls = np.flatnonzero(np.diff(found) < 0)
    if falls.size:
        i = falls[0]
        raise ValueError(
            f"offsets must rise, but offsets[{i + 1}] is {found[i + 1]} after {found[i]}"
        )
    if not found.size or found[0] != 0 or found[-1] != rows:
        raise ValueError(
            f"offsets must go from 0 to {rows}, the number of rows, got {text_of(found)}"
        )
    return found


def _places(offsets: np.ndarray, which: np.ndarray) -> np.ndarray:
    """The rows of some examples, one after the other."""
    starts = offsets[which]
    lengths = offsets[np.asarray(which) + 1] - starts
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def _holding(dtype: np.dtype, fill: float) -> np.dtype:
    """The dtype itself where it holds the value, else the narrowest one that holds both."""
    if np.array(fill).astype(dtype) == fill:
        return dtype
    if dtype.kind not in "iu" or not float(fill).is_integer():
        return np.result_type(dtype, np.min_scalar_type(fill))
    wider = map(np.dtype, (np.int16, np.int32))
    fits = (each for each in wider if np.can_cast(dtype, each) and np.iinfo(each).max >= abs(fill))
    return next(fits, np.dtype(np.int64))


def ragged(lists: Sequence[Any] | Ragged, fill: float = 0) -> Ragged:
    """A ragged store of a list of examples.

    Args:
      lists: n arrays or lists of numbers, [l_i, ...] each; all rows of one shape. Empty examples
        may be of any shape.
      fill: what padding is to hold.

    Returns:
      A Ragged; its dtype is the one that holds those of all examples.

    Raises:
      ValueError: an example is no array of numbers, or its rows have another shape than those
        before it.
    """
    if isinstance(lists, Ragged):
        return Ragged(lists.rows, lists.offsets, fill)
    expected = "[l, ...] numbers"
    examples = as_list("lists", lists, "a list of n arrays or lists of numbers")
    arrays = [as_array(f"lists[{i}]", one, expected) for i, one in enumerate(examples)]
    first: int | None = None
    for i, one in enumerate(arrays):
        if not one.ndim or one.dtype.kind not in "biuf":
            raise ValueError(f"lists[{i}] must be {expected}, got {text_of(examples[i])}")
        if not len(one):
            continue
        first = i if first is None else first
        if one.shape[1:] != arrays[first].shape[1:]:
            raise ValueError(
                f"lists[{i}] has rows of shape {one.shape[1:]}, lists[{first}] of "
                f"{arrays[first].shape[1:]}: rows must have one shape"
            )
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in arrays], dtype=np.int64)])
    filled = [one for one in arrays if len(one)] or arrays[:1] or [np.zeros(0)]
    return Ragged(np.concatenate(filled), offsets, fill)
