"""Files of parts hold every example once, as the problem takes them."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from experiments.benchmarks.tasks import TASKS as BENCHMARKS
from experiments.cluster.parts import read_part, write_parts


@pytest.mark.parametrize(("name", "size"), [("digits", 1), ("sentences", 20), ("homologues", 7)])
def test_parts_together_are_the_task(tmp_path, name, size):
    whole = BENCHMARKS[name].prepare(size, "float32")
    files = write_parts(name, size, 3, 2, tmp_path)
    parts = [read_part(name, path, "float32") for path in files]
    assert {(part.n, part.C) for part in parts} == {(whole.n, whole.C)}
    for part in parts:
        assert jax.tree.structure(part.inputs) == jax.tree.structure(whole.inputs)
        shapes = jax.tree.map(np.shape, part.problem.initial_weights)
        assert shapes == jax.tree.map(np.shape, whole.problem.initial_weights)
    first = [jax.tree.leaves(each.outputs)[0] for each in (whole, *parts)]
    counts = [leaf.shape[0] for leaf in first[1:]]
    assert sum(counts) == whole.n and max(counts) - min(counts) <= 2
    rows, *held = (getattr(leaf, "rows", leaf) for leaf in first)
    np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.sort(rows))
