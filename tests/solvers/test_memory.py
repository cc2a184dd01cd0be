"""What is foretold is what the arrays of a training take, to the byte."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.solvers import prepare
from jaxstruct.solvers.memory import AN_EXAMPLE, COPIES, Memory, blocks_within, memory
from jaxstruct.solvers.n_slack import cutting_plane
from jaxstruct.solvers.n_slack.task import FEW_ROWS
from jaxstruct.solvers.out_of_core import blocks as blocks_module
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.solvers.test_size_classes import OUTPUT_TYPES


def nbytes(tree):
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("output_type", thorough_after(2, OUTPUT_TYPES))
def test_the_bytes_of_a_training(output_type, several, monkeypatch) -> None:
    """In one bucket and in several; of grown working sets and of enumerated ones."""
    if several:
        monkeypatch.setattr("jaxstruct.core.padding.NUMBERS", 20)
    problem, x, y = OUTPUT_TYPES[output_type](4, 40, 30)
    foretold = memory(problem, x, y)
    settings = js.Settings(variant="subspace", max_capacity=foretold.slots)
    run = prepare.prepare_run(problem, x, y, settings=settings)
    assert foretold.examples == nbytes((run.task.inputs, run.task.outputs))
    state = cutting_plane.init(run)
    sets = state.sets
    assert foretold.slots == sets.losses.shape[1]
    flags = 3 * sets.occupied.nbytes  # bool is counted as a number of float32
    rest = sets.losses.nbytes  # and one number more for what a round says of a slot
    assert foretold.working_sets == COPIES * (nbytes(sets) + flags + rest)
    assert foretold.weights == 3 * nbytes(state.weights)


def test_settings_and_words() -> None:
    problem, x, y = OUTPUT_TYPES["chains"](0, 100, 8)
    few = memory(problem, x, y, js.Settings(capacity=16, max_capacity=16))
    many = memory(problem, x, y, js.Settings(capacity=32))
    assert (few.slots, many.slots) == (16, 32) and few.working_sets < many.working_sets
    assert few.examples == many.examples
    text = str(Memory(10_000_000, 2_500_000_000, 0, 0, 8))
    assert text.startswith("2.51 GB with 8 slots an example: examples 10.0 MB, working_sets 2.50")
    refused("problem must be a Problem", memory, None, x, y)
    few = np.arange(4)  # examples are looked at as `fit` does
    refused("inputs has 100 examples, outputs has 4", memory, problem, x, js.take(y, few))
    whole = y.padded(np.arange(100), 8, -1)
    refused("outputs hold an array of shape .100, 8., but inputs", memory, problem, x, whole)
    refused("settings must be Settings", memory, problem, x, y, np.zeros(3))


def test_numbers_of_float64_are_twice_as_long(x64) -> None:
    problem, x, y = OUTPUT_TYPES["chains"](0, 100, 8)
    settings = js.Settings(capacity=32)
    single, double = (
        memory(own, x, y, settings) for own in (problem, js.chains.chain(5, 3, dtype="float64"))
    )
    assert double.weights == 2 * single.weights and double.batch > single.batch
    assert single.working_sets < double.working_sets < 2 * single.working_sets


@pytest.mark.parametrize("output_type", ["chains", "classes"])
def test_the_bytes_of_a_block(output_type, monkeypatch) -> None:
    """The same for a block of a training in blocks, and what lies beside it."""
    problem, x, y = OUTPUT_TYPES[output_type](4, 96, 12)
    settings = js.Settings(oracle_batch=8, max_capacity=8)
    foretold, tasks = memory(problem, x, y, settings, blocks=4), []
    make_task = blocks_module.make_task

    def make(*arguments, **more):
        tasks.append(make_task(*arguments, **more))
        return tasks[-1]

    monkeypatch.setattr(blocks_module, "make_task", make)
    found = js.fit_in_blocks(problem, x, y, blocks=4, settings=settings, max_passes=1)
    (taken,) = {nbytes((task.inputs, task.outputs)) for task in tasks}
    assert foretold.examples / 1.5 <= 5 * taken <= foretold.examples  # of a class, and uneven
    assert found.details.memory == foretold and foretold.at_rest >= AN_EXAMPLE * 96
    whole = memory(problem, x, y, settings)
    assert whole.at_rest == 0
    assert whole.working_sets > memory(problem, x, y, settings, blocks=12).working_sets
    single = memory(problem, x, y, settings, blocks=1)
    assert single.examples == 2 * whole.examples and single.working_sets == whole.working_sets
    assert foretold.total == sum(foretold) - foretold.slots
    assert "at_rest" in str(foretold) and "at_rest" not in str(whole)
    assert memory(problem, x, y, settings, blocks=4, block_bytes=1).at_rest == AN_EXAMPLE * 96 + 1
    refused("blocks", memory, problem, x, y, settings, blocks=0)


def test_the_fewest_blocks_within_so_many_bytes() -> None:
    data = OUTPUT_TYPES["chains"](4, 960, 12)
    settings = js.Settings(oracle_batch=8)
    counts = [blocks_within(*data, settings, bytes) for bytes in (2**30, 2**23, 2**22, 1)]
    assert counts[0] == 1 and counts == sorted(counts) and counts[-1] == 960 // FEW_ROWS
    for bytes, count in ((2**23, counts[1]), (2**22, counts[2])):
        found = memory(*data, settings, blocks=count)
        assert found.examples + found.working_sets + found.batch <= bytes
