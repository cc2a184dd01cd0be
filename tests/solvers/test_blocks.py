"""Training sets in blocks: every example once, padded as in its bucket, blocks alike."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct import Settings
from jaxstruct.core.padding import bucketed
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.out_of_core.blocks import RUN, Blocks, block_of_each
from tests.solvers.test_size_classes import OUTPUT_TYPES


@pytest.mark.parametrize(("n", "blocks"), [(1, 1), (12, 12), (12, 5), (100, 3), (50_000, 7)])
def test_runs_are_dealt_evenly_and_at_random(n, blocks):
    of_each = block_of_each(n, blocks, 0)
    counts = np.bincount(of_each, minlength=blocks)
    runs = 1 + np.count_nonzero(np.diff(of_each))
    assert len(of_each) == n and counts.min() > 0
    assert np.ptp(counts) <= 2 * min(RUN, max(1, n // (16 * blocks)))
    assert n < 1000 or runs < n / 100  # neighbours lie together
    if blocks > 1 and n > 12:
        assert (block_of_each(n, blocks, 1) != of_each).any()


def blocks_of(output_type, n, count, weights=None):
    problem, x, y = OUTPUT_TYPES[output_type](4, n, 30)
    settings = Settings(oracle_batch=8)
    form = FORMULATIONS["svm1_margin"]
    blocks = Blocks(problem, x, y, form, 3.0, weights, settings, count)
    for number in range(count):
        blocks.look(number)
    return blocks, bucketed(problem.padding, x, y)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("output_type", ["chains", "classes", "texts", "trees", "graphs"])
def test_every_example_is_in_one_block_as_it_is_in_its_bucket(output_type, several, monkeypatch):
    if several:
        monkeypatch.setattr("jaxstruct.core.padding.NUMBERS", 20)
    weights = np.linspace(0, 2, 40)
    blocks, (inputs, outputs) = blocks_of(output_type, 40, 3, weights)
    whole = {}
    for x, y, index in zip(inputs.parts, outputs.parts, inputs.index, strict=True):
        for row, example in enumerate(index):
            leaves = jax.tree.leaves((x, y))
            whole[example] = [np.asarray(leaf)[row] for leaf in leaves]
    seen, shapes = [], set()
    for number in range(3):
        task, rows = blocks.read(number)
        shapes.add(str(jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), task[:3])))
        np.testing.assert_allclose(task.terms.cap[rows >= 0], 3 / 40 * weights[rows[rows >= 0]])
        assert not np.asarray(task.terms.cap)[rows < 0].any()
        first = 0
        for x, y, count in zip(task.inputs, task.outputs, task.counts, strict=True):
            leaves = jax.tree.leaves((x, y))
            own = rows[first : first + int(count)]
            first += len(leaves[0])
            seen += own.tolist()
            for row, example in enumerate(own):
                for leaf, expected in zip(leaves, whole[example], strict=True):
                    np.testing.assert_allclose(np.asarray(leaf)[row], expected, rtol=1e-5)
    assert sorted(seen) == list(range(40)) and len(shapes) == 1
    assert not several or output_type in ("classes", "trees") or len(inputs.parts) > 1


def test_number_types_are_those_that_hold_all_blocks():
    """The Gram matrices of one block are small integers, those of another are not."""
    import jaxstruct as js

    tokens = [np.ones((3, 2), np.float32)] * 8 + [np.full((3, 2), 0.3, np.float32)] * 8
    x, y = js.chains.chain_inputs(js.ragged(tokens)), js.ragged([[0, 1, 1]] * 16)
    blocks = Blocks(
        js.chains.chain(2, 2), x, y, FORMULATIONS["svm1"], 1.0, None, Settings(oracle_batch=4), 16
    )
    types = {blocks.look(number)[0].parts[0].gram.dtype for number in range(16)}
    assert types == {np.dtype("int8"), np.dtype("float32")}
    assert {blocks.read(number).task.inputs[0].gram.dtype for number in range(16)} == {
        np.dtype("float32")
    }
