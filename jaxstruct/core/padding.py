"""How ragged examples are padded: in length buckets, to rounded sizes.

A user hands over `Ragged` stores. Here they become `Buckets` of padded arrays, and what is
predicted in buckets becomes one tree in the caller's order again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from jaxstruct.core.buckets import Buckets, as_buckets
from jaxstruct.core.contract import Padding, Truth, output_of
from jaxstruct.core.device import shape_on_device
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.sizes import bucket_lengths
from jaxstruct.core.types import PyTree

NUMBERS = 1 << 23
"""Padded numbers that a further bucket must save at most, however few positions they make."""
PADDING = -1
"""What padding holds in outputs."""


class Others(NamedTuple):
    """What the examples of others, who pad theirs alike, add to buckets and padded sizes.

    Fields:
      every: [n] own sizes -> those of all examples. most: [B, L] own lengths -> the largest of all.
    """

    every: Callable[[np.ndarray], np.ndarray]
    most: Callable[[np.ndarray], np.ndarray]


NO_OTHERS = Others(lambda sizes: sizes, lambda lengths: lengths)


def ragged_leaves(tree: PyTree) -> list[Ragged]:
    """The leaves that are ragged."""
    return [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, Ragged)]


def bucketed(
    padding: Padding,
    inputs: PyTree,
    outputs: PyTree,
    others: Others = NO_OTHERS,
    completed: bool = True,
) -> tuple[Buckets, Buckets]:
    """Training examples with ragged leaves as buckets of padded arrays; plain ones as one bucket.

    A bucket holds examples whose longest leaves are of about one length. Each leaf is padded to the
    size, as the structure rounds it, of its own longest example there.

    Args:
      padding: of the structure. inputs, outputs: pytrees of n examples.
      others: whose examples count, too. A bucket that holds theirs alone has None for its part.
      completed: whether with what `Padding.complete` adds for the dual solvers.

    Raises:
      ValueError: inputs are ragged and outputs are not, or the other way round.
    """
    padding = padding if completed else dataclasses.replace(padding, complete=None)
    stores = ragged_leaves(inputs)
    if not stores:
        return _as_buckets(inputs, outputs)
    index = _index(padding, inputs, others)
    longest = others.most(np.stack([_longest(stores, own) for own in index]))
    pairs = [
        _padded(padding, inputs, outputs, own, most) if len(own) else (None, None)
        for own, most in zip(index, longest, strict=True)
    ]
    xs, ys = zip(*pairs, strict=True)
    return Buckets(xs, index), Buckets(ys, index)


def _longest(stores: list[Ragged], index: np.ndarray) -> np.ndarray:
    """[L] the length of the longest of some examples in each store; 0 of none."""
    return np.array([leaf.lengths_of(index).max(initial=0) for leaf in stores])


def _as_buckets(inputs: PyTree, outputs: PyTree) -> tuple[Buckets, Buckets]:
    """Examples without ragged inputs, which must have no ragged outputs, as one bucket."""
    if ragged_leaves(outputs):
        raise ValueError(
            "outputs are ragged and inputs are not: make a Ragged of the inputs, too (see "
            "jaxstruct.ragged), or pad both to arrays"
        )
    return as_buckets(inputs), as_buckets(outputs)


class Layout(NamedTuple):
    """The buckets of a training set, for who pads some of its examples at a time.

    Fields:
      index: one [n_b] rising a bucket, its examples.
      longest: one array a bucket, those of its examples that are longest in some leaf.
    """

    index: tuple[np.ndarray, ...]
    longest: tuple[np.ndarray, ...]


def layout_of(padding: Padding, inputs: PyTree, outputs: PyTree) -> Layout:
    """The buckets that `bucketed` would make; nothing is padded.

    Raises:
      ValueError: as `bucketed`.
    """
    stores = ragged_leaves(inputs)
    if not stores:
        (index,) = _as_buckets(inputs, outputs)[1].index
        return Layout((index,), (index[:1],))
    index = _index(padding, inputs)
    longest = ({own[leaf.lengths[own].argmax()] for leaf in stores} for own in index)
    return Layout(index, tuple(np.array(sorted(one)) for one in longest))


def padded_part(
    padding: Padding, inputs: PyTree, outputs: PyTree, which: np.ndarray, longest: np.ndarray
) -> tuple[PyTree, PyTree]:
    """(inputs, outputs) of some examples of a bucket, padded as all of it would be.

    Args:
      which: [m] of the examples of the bucket; of none the first of the longest is made.
      longest: of the bucket, see `Layout`.

    Returns:
      Arrays [max(m, 1), ...].
    """
    some, stores = which if len(which) else longest[:1], ragged_leaves(inputs)
    if not stores:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[some], (inputs, outputs))
    return _padded(padding, inputs, outputs, some, _longest(stores, longest))


def _padded(
    padding: Padding, inputs: PyTree, outputs: PyTree, index: np.ndarray, longest: np.ndarray
) -> tuple:
    """(inputs, outputs) of one bucket."""
    x = padded_inputs(padding, inputs, index, longest)
    y = _padded_outputs(padding, x, outputs, index)
    return x if padding.complete is None else padding.complete(x), y


def bucketed_inputs(padding: Padding, inputs: PyTree) -> Buckets:
    """Inputs to predict of as buckets of padded arrays, without what only training reads."""
    if not ragged_leaves(inputs):
        return as_buckets(inputs)
    index, stores = _index(padding, inputs), ragged_leaves(inputs)
    parts = (padded_inputs(padding, inputs, own, _longest(stores, own)) for own in index)
    return Buckets(tuple(parts), index)


def _index(padding: Padding, inputs: PyTree, others: Others = NO_OTHERS) -> tuple[np.ndarray, ...]:
    """The examples of each bucket; of a bucket of others none."""
    stores = ragged_leaves(inputs)
    sizes = _rounded(padding, np.max([leaf.lengths for leaf in stores], axis=0))
    ends = bucket_lengths(others.every(sizes), price=_price(padding, stores))
    places = np.searchsorted(ends, sizes)
    return tuple(np.flatnonzero(places == bucket) for bucket in range(len(ends)))


def bucket_shapes(
    padding: Padding, inputs: PyTree, outputs: PyTree
) -> list[tuple[int, PyTree, PyTree]]:
    """(examples, shapes of one input, shapes of one output) a bucket, as `bucketed` makes them.

    Only the longest examples of a bucket are padded, so nothing of the size of the data is made.

    Raises:
      ValueError: as `bucketed`.
    """
    layout = layout_of(padding, inputs, outputs)
    longest = (padded_part(padding, inputs, outputs, some, some) for some in layout.longest)
    return [(len(own), *map(_one, pair)) for own, pair in zip(layout.index, longest, strict=True)]


def _one(tree: PyTree) -> PyTree:
    """The shapes of one example."""
    return jax.tree.map(lambda leaf: shape_on_device(np.shape(leaf)[1:], leaf.dtype), tree)


def _rounded(padding: Padding, lengths: np.ndarray) -> np.ndarray:
    distinct, places = np.unique(lengths, return_inverse=True)
    return np.array([padding.size(int(length)) for length in distinct])[places]


def _price(padding: Padding, stores: list[Ragged]) -> int:
    """In positions; fewer where a position holds many numbers, such as kernel values."""
    widest = max(int(np.prod(leaf.rows.shape[1:])) for leaf in stores)
    return min(padding.price, NUMBERS // max(widest, 1))


def padded_inputs(
    padding: Padding, inputs: PyTree, index: np.ndarray, longest: np.ndarray
) -> PyTree:
    """Some examples, each ragged leaf padded to the size of its `longest` [L]."""
    rest = iter(longest)

    def of_leaf(leaf: Ragged | np.ndarray) -> np.ndarray:
        if not isinstance(leaf, Ragged):
            return np.asarray(leaf)[index]
        return leaf.padded(index, padding.size(int(next(rest))))

    return jax.tree.map(of_leaf, inputs)


def _sizes(padding: Padding, x: PyTree, outputs: PyTree) -> PyTree:
    """How many positions each leaf of the outputs has, 0 for none."""
    if padding.output_sizes is None:
        return jax.tree.map(lambda leaf: 0, outputs)
    sizes = padding.output_sizes(x)
    if isinstance(outputs, Truth) and not isinstance(sizes, Truth):
        return Truth(sizes, _sizes_beside(sizes, outputs.numbers))
    return sizes


def _sizes_beside(sizes: PyTree, numbers: PyTree) -> PyTree:
    """Numbers beside outputs are as long as the longest of these where they are ragged."""
    most = max(jax.tree.leaves(sizes))
    return jax.tree.map(lambda leaf: most if isinstance(leaf, Ragged) else 0, numbers)


def _padded_outputs(padding: Padding, x: PyTree, outputs: PyTree, index: np.ndarray) -> PyTree:
    def of_leaf(leaf: Ragged | np.ndarray, size: int) -> np.ndarray:
        if isinstance(leaf, Ragged) != bool(size):
            raise ValueError(_mismatch(leaf))
        if not isinstance(leaf, Ragged):
            return np.asarray(leaf)[index]
        lengths = leaf.lengths_of(index)
        if lengths.max() > size:
            raise ValueError(
                f"outputs[{index[lengths.argmax()]}] has {lengths.max()} positions, more than "
                f"its padded input ({size}): inputs and outputs must be of the same examples"
            )
        return leaf.padded(index, size, False if leaf.rows.dtype == bool else PADDING)

    sizes = _sizes(padding, x, outputs)
    if jax.tree.structure(sizes) != jax.tree.structure(outputs):
        raise ValueError(
            f"outputs must be a pytree like {jax.tree.structure(sizes)}, got "
            f"{jax.tree.structure(outputs)}"
        )
    return jax.tree.map(of_leaf, outputs, sizes)


def _mismatch(leaf: Ragged | np.ndarray) -> str:
    if isinstance(leaf, Ragged):
        return (
            f"outputs hold {leaf!r}, but the structure has no output of several lengths: give an "
            "array [n, ...], or Padding(output_sizes=..) to make_problem"
        )
    return (
        f"outputs hold an array of shape {np.shape(leaf)}, but inputs are ragged: make a Ragged of "
        "the outputs, too (see jaxstruct.ragged)"
    )


def restored(padding: Padding, inputs: Buckets, outputs: tuple[PyTree, ...]) -> PyTree:
    """Outputs predicted in buckets as one pytree in the caller's order.

    A leaf with positions becomes a `Ragged`, each example without its padding; any other one an
    array [n, ...].

    Args:
      padding: of the structure. inputs: padded, in buckets. outputs: predicted, one a bucket.

    Raises:
      ValueError: a leaf has several shapes, and the structure does not say why.
    """
    sizes = output_of(_sizes(padding, inputs.parts[0], outputs[0]))
    order = np.argsort(np.concatenate(inputs.index))

    def of_leaf(size: int, *leaves: np.ndarray) -> np.ndarray | Ragged:
        if size:
            return unpadded(*leaves).take(order)
        if len({leaf.shape[1:] for leaf in leaves}) > 1:
            raise ValueError(
                f"outputs have shapes {[leaf.shape for leaf in leaves]}, and the structure does "
                "not say which axis is padded: give Padding(output_sizes=..) to make_problem"
            )
        return np.concatenate(leaves)[order]

    return jax.tree.map(of_leaf, sizes, *outputs)


def unpadded(*leaves: np.ndarray) -> Ragged:
    """Rows of padded outputs [n_b, T_b, ...] up to the last one that is not -1 throughout."""
    rows, lengths = [], []
    for leaf in leaves:
        steps = np.arange(1, leaf.shape[1] + 1)
        real = np.any(leaf != PADDING, axis=tuple(range(2, leaf.ndim)))
        own = np.max(np.where(real, steps, 0), axis=1, initial=0)
        rows.append(leaf[steps <= own[:, None]])
        lengths.append(own)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths), dtype=np.int64)])
    return Ragged(np.concatenate(rows), offsets, PADDING)


def without_padding(row: np.ndarray) -> np.ndarray:
    """Up to the last entry that is not -1."""
    return row[: int(np.max(np.flatnonzero(row != PADDING), initial=-1)) + 1]


def padded(padding: Padding, inputs: PyTree, outputs: PyTree) -> tuple[PyTree, PyTree]:
    """All examples as one batch of arrays, padded to the longest, without what only `fit` reads.

    Arrays pass through where nothing is ragged.

    Args:
      padding: of the structure. inputs, outputs: of the same examples, `Ragged` leaves or arrays.

    Raises:
      ValueError: as `bucketed`.
    """
    stores = ragged_leaves(inputs)
    if not stores:
        x, y = _as_buckets(inputs, outputs)
        return x.parts[0], y.parts[0]
    index = np.arange(len(stores[0]))
    x = padded_inputs(padding, inputs, index, _longest(stores, index))
    return x, _padded_outputs(padding, x, outputs, index)
