"""Examples of several processes, which threads stand for, in buckets of the same shapes."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.core.buckets import rows_of
from jaxstruct.core.processes import ALONE, Processes, RefusedElsewhere
from jaxstruct.core.ragged import Ragged
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.prepare import joint_buckets

PROBLEM = chain(4, 3)
PROBLEM = PROBLEM._replace(padding=dataclasses.replace(PROBLEM.padding, price=1))


class Thread(Processes):
    """A thread in place of a process."""

    def __init__(self, here, count, barrier, messages):
        super().__init__()
        self.numbers, self.here = tuple(range(count)), here
        self._barrier, self._messages = barrier, messages

    def _gather(self, own):
        self._messages[self.here] = own
        self._barrier.wait(20)
        found = np.stack(self._messages)
        self._barrier.wait(20)
        return found


def together(*acts):
    """What each of the functions of a Processes returns or raises, run side by side."""
    barrier, messages = threading.Barrier(len(acts)), [None] * len(acts)

    def run(here):
        try:
            return acts[here](Thread(here, len(acts), barrier, messages))
        except ValueError as error:
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, range(len(acts))))


def sequences(lengths, seed=0):
    random = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = random.integers(0, 3, offsets[-1]).astype(np.int32)
    features = random.normal(size=(offsets[-1], 4)).astype(np.float32)
    return chain_inputs(Ragged(features, offsets)), Ragged(labels, offsets, -1)


def buckets_of(lengths, seed=0):
    return lambda processes: joint_buckets(PROBLEM, *sequences(lengths, seed), None, processes)


def test_shapes_are_of_all_and_a_missing_bucket_is_borrowed():
    lengths = [[3, 5, 4], [4, 40, 3, 39], [2, 41]]
    found = together(*(buckets_of(own, seed) for seed, own in enumerate(lengths)))
    whole = joint_buckets(PROBLEM, *sequences(sum(lengths, [])), None, ALONE)
    for own, (x, y, counts) in zip(lengths, found, strict=True):
        assert counts.tolist() == [[3, 0], [2, 2], [1, 1]]
        assert whole[2].tolist() == [[6, 3]]
        for bucket in (0, 1):
            for mine, other in ((x, whole[0]), (y, whole[1])):
                shapes = [
                    [leaf.shape[1:] for leaf in jax.tree.leaves(each.parts[bucket])]
                    for each in (mine, other)
                ]
                assert shapes[0] == shapes[1]
        assert np.sort(np.concatenate(y.index)).tolist() == list(range(len(own)))
    borrowed, lender = found[0], found[1]
    assert len(borrowed[1].index[1]) == 0 and rows_of(borrowed[1].parts[1]) == 1
    for side in (0, 1):
        both = (jax.tree.leaves(each[side].parts[1]) for each in (borrowed, lender))
        for one, other in zip(*both, strict=True):
            np.testing.assert_array_equal(one, other[:1])


def test_what_one_refuses_all_do():
    def wrong(processes):
        x, y = sequences([3, 4])
        return joint_buckets(PROBLEM, x, Ragged(y.rows + 3, y.offsets, -1), None, processes)

    first, second = together(buckets_of([2, 30]), wrong)
    assert isinstance(first, RefusedElsewhere) and not isinstance(second, RefusedElsewhere)
    assert str(second) in str(first)


@pytest.mark.parametrize(
    ("width", "words"), [(3, "an example has inputs"), (None, "the number of ragged stores")]
)
def test_what_does_not_go_together_is_named(width, words):
    def classes(columns):
        def act(processes):
            if columns is None:
                return joint_buckets(PROBLEM, *sequences([2, 3]), None, processes)
            x, y = np.zeros((2, columns), np.float32), np.zeros(2, np.int32)
            return joint_buckets(lenient, x, y, None, processes)

        return act

    lenient = multiclass(3, 2)._replace(check=lambda x, y: None)
    found = together(classes(2), classes(width))
    assert all(isinstance(each, ValueError) and words in str(each) for each in found)
    assert str(found[0]) == str(found[1])
