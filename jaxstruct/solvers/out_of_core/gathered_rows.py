"""The examples of the largest gaps of all blocks, side by side in arrays of the size of a block.

Blocks of one training set pull at the same directions of w, so that ascent from block to block
needs a pass over all of them for what a sweep over all examples does, however well each block is
solved by itself. So the rows that lack most stay in memory after a visit, as many of every block,
and it is these that cached sweeps go over: examples of all blocks. (Chang and Roth keep support
vectors: Selective block minimization for faster convergence of limited memory large-scale linear
models, KDD 2011.) While rows are here, their multipliers at rest are out of date; `give_back`
brings them up to date.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from jaxstruct.core.buckets import bucket_slices, rows_of
from jaxstruct.core.types import AnyArray, PyTree
from jaxstruct.solvers.n_slack.task import Task
from jaxstruct.solvers.n_slack.working_sets import WorkingSets, is_enumerated
from jaxstruct.solvers.out_of_core.plane_cache import Amendment, PlaneCache


class AtHand(NamedTuple):
    """NumPy arrays of the shapes of a block; a place without a row has weight and gap 0."""

    task: Task
    sets: WorkingSets
    slots: np.ndarray
    gaps: np.ndarray


class _Own(NamedTuple):
    """The rows of a block. rows: in the block. places: here. counts: planes and those that carry,
    when they came."""

    rows: np.ndarray
    places: np.ndarray
    counts: np.ndarray


def _empty(task: Task, sets: WorkingSets, slots: AnyArray) -> AtHand:
    """No rows; valid numbers of some block, of weight 0, in all places."""
    task, sets = jax.tree.map(np.array, (task, sets))
    task.terms.cap[:] = 0
    sets.multipliers[:] = 0
    return AtHand(task, sets, np.array(slots), np.zeros(len(slots)))


def _of_bucket(task: Task, sets: WorkingSets, bucket: int) -> PyTree:
    """What is by bucket."""
    return task.inputs[bucket], task.outputs[bucket], sets.outputs[bucket], sets.gram[bucket]


def _of_rows(task: Task, sets: WorkingSets, slots: AnyArray, gaps: AnyArray) -> PyTree:
    """What all rows have side by side."""
    return task.terms.cap, task.terms.ridge, sets._replace(outputs=(), gram=()), slots, gaps


def _copy_rows(whole: PyTree, places: np.ndarray, part: PyTree, rows: np.ndarray) -> None:
    """Rows of a part to some places of the whole, leaf by leaf."""

    def copy(to: np.ndarray, leaf: Any) -> None:
        to[places] = np.asarray(leaf)[rows]

    jax.tree.map(copy, whole, part)


class GatheredRows:
    """Rows of the blocks that a pass has visited, each block in places of its own."""

    def __init__(self, blocks: int) -> None:
        """No rows yet; blocks: how many a pass visits."""
        self._blocks = blocks
        self._arrays: AtHand | None = None
        self._own: dict[int, _Own] = {}

    def take(
        self, number: int, task: Task, sets: WorkingSets, slots: AnyArray, gaps: np.ndarray
    ) -> None:
        """Keep rows of a block at hand, of each bucket those of the largest gaps.

        Args:
          number: of the block, which has none here. task, sets: of it.
          slots: [N, A] that its last oracle calls named. gaps: [N] of these calls.
        """
        if self._arrays is None:
            self._arrays = _empty(task, sets, slots)
        whole, found = self._arrays, []
        for bucket, own in enumerate(bucket_slices(task.outputs)):
            share = rows_of(task.outputs[bucket]) // self._blocks
            ranked = np.argsort(-gaps[own], kind="stable")[:share]
            rows = np.sort(ranked[gaps[own][ranked] > 0])
            places = len(self._own) * share + np.arange(len(rows))
            here = _of_bucket(whole.task, whole.sets, bucket)
            _copy_rows(here, places, _of_bucket(task, sets, bucket), rows)
            found.append((own.start + rows, own.start + places))
        rows, places = (np.concatenate(each) for each in zip(*found, strict=True))
        _copy_rows(_of_rows(*whole), places, _of_rows(task, sets, slots, gaps), rows)
        self._own[number] = _Own(rows, places, self._counts(whole, places))

    @property
    def at_hand(self) -> AtHand | None:
        """What sweeps may go over; None where no row lacks anything."""
        here = self._arrays
        return None if here is None or not here.gaps.any() else here

    def moved(self, sets: WorkingSets) -> None:
        """Have the multipliers that sweeps have moved."""
        assert self._arrays is not None, "only what is at hand is moved"
        new = {name: np.array(getattr(sets, name)) for name in ("multipliers", "last_used")}
        self._arrays = self._arrays._replace(sets=self._arrays.sets._replace(**new))

    def give_back(self, cache: PlaneCache) -> None:
        """Bring the multipliers at rest up to date."""
        here = self._arrays
        if here is None:
            return
        for number, own in self._own.items():
            planes, carrying = (self._counts(here, own.places) - own.counts).tolist()
            occupied, multipliers, last_used = (
                np.asarray(leaf)[own.places]
                for leaf in (here.sets.occupied, here.sets.multipliers, here.sets.last_used)
            )
            gained = planes, carrying
            cache.amend(number, Amendment(own.rows, occupied, multipliers, last_used, gained))

    @staticmethod
    def _counts(here: AtHand, places: np.ndarray) -> np.ndarray:
        """Planes in some places, and how many of them carry."""
        sets = here.sets
        held = sets.last_used > 0 if is_enumerated(sets) else sets.occupied
        carried = sets.multipliers[places, 1:] > 0
        return np.array([np.sum(held[places, 1:]), np.sum(carried)])
