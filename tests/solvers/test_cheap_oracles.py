"""Which rows are called again, and what `make_problem` takes as cheap oracles."""

from __future__ import annotations

import numpy as np

import jaxstruct as js
from jaxstruct.core.buckets import bucket_slices
from jaxstruct.graphs.structure import graph_labelling
from jaxstruct.solvers.n_slack.rounds import asked_again, first_asked
from tests.lib.refusals import refused

OUTPUTS = (np.zeros((8, 3)), np.zeros((4, 5)))


def test_the_rows_wanted_come_first_in_as_few_batches() -> None:
    orders = [np.array([[5, 1], [0, 7], [2, 3], [6, 4]]), np.array([[1, 0], [3, 2]])]
    spans = ((np.int32(1), np.int32(4)), (np.int32(0), np.int32(1)))
    wanted = np.zeros(12, bool)
    wanted[[2, 4, 7, 1, 8 + 2]] = True  # 1 and 8 + 2 are in other chunks
    slices = bucket_slices(OUTPUTS)
    again, fewer, calls = asked_again(slices, orders, spans, wanted)
    assert calls == 3
    assert fewer == ((1, 3), (0, 0))
    np.testing.assert_array_equal(again[0], [[5, 1], [7, 2], [4, 0], [3, 6]])
    np.testing.assert_array_equal(again[1], orders[1])
    assert asked_again(slices, orders, spans, np.zeros(12, bool))[1:] == (((1, 1), (0, 0)), 0)


def test_cheap_oracles_are_asked_first_and_checked() -> None:
    escalated, plain = (graph_labelling(2, 2, inference=i) for i in ("escalated", "modes"))
    first, cheap = first_asked(escalated)
    assert cheap and first.oracles.loss_augmented_decode is not None
    assert first.oracles.cheap is None and first_asked(plain) == (plain, False)
    model, oracles, zero = escalated.model, escalated.oracles, escalated.initial_weights
    for wrong in (escalated.oracles, "modes"):
        with refused("oracles.cheap must be jaxstruct.Oracles without a"):
            js.make_problem(zero, model, oracles._replace(cheap=wrong))
    with refused("oracles must find a violated output"):
        js.make_problem(zero, model, oracles._replace(cheap=js.Oracles()))
