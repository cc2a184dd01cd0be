"""The oracles of the chain structure against enumeration: outputs, losses, levels, ties."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from tests.chains.enumeration import SETTINGS, enumerated, loss_in_numpy
from tests.lib.structures import Every, check_oracles
from tests.lib.thorough import thorough_after

COUNT = 200
LONGER = (SETTINGS[0], SETTINGS[2])
"""Two of them have longer padding, one with tables that vary and one without."""


@functools.cache
def of_setting(setting, more):
    """(chains, all outputs of each)."""
    chains, listed = setting.chains(), {}
    for group in enumerated(chains):
        end = group.labels.shape[1]
        delta = loss_in_numpy(setting.loss, chains.y[group.rows, :end], group.labels)
        width = chains.y.shape[1] + more - end
        labels = np.pad(group.labels, ((0, 0), (0, width)), constant_values=-1)
        for i, *own in zip(group.rows, group.F, delta, group.truth, strict=True):
            listed[i] = Every(labels, *own)
    return chains.padded(more), listed


@pytest.mark.parametrize("setting", thorough_after(4, SETTINGS), ids=[s.name for s in SETTINGS])
def test_against_enumeration(x64, setting):
    """In float32 one of them: oracles of that type have enumerations of their own."""
    dtype, tolerance = ("float32", 1e-5) if setting is SETTINGS[0] else ("float64", 1e-9)
    chains, listed = of_setting(setting, 3 if setting in LONGER else 0)
    theta, y = jax.tree.map(lambda leaf: leaf[:COUNT], (chains.cast(dtype), chains.y))
    check_oracles(setting.problem(dtype), theta, y, listed.get, tolerance)


@pytest.mark.parametrize("setting", LONGER, ids=[s.name for s in LONGER])
def test_of_equal_sequences_that_with_the_lowest_last_label_is_decoded(x64, setting):
    chains, ties = setting.chains(), 0
    problem = setting.problem()
    found = jax.jit(jax.vmap(problem.model.decode))(chains.theta)
    for group in enumerated(chains):
        assert (group.place(found) == group.preferred(group.F)).all()
        ties += (np.sum(group.F == group.F.max(axis=1, keepdims=True), axis=1) > 1).sum()
    assert ties > len(chains.y) / 8
