"""Trainings in blocks: the optimum of all examples at once, however they are cut; the bytes."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct import Settings, Status, fit, fit_in_blocks, predict
from jaxstruct.core.padding import bucketed
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass
from jaxstruct.solvers import prepare
from jaxstruct.solvers.memory import AN_EXAMPLE, COPIES, Memory, blocks_within, memory
from jaxstruct.solvers.n_slack import cutting_plane
from jaxstruct.solvers.n_slack.task import FEW_ROWS
from jaxstruct.solvers.objective.formulations import FORMULATIONS, Objective
from jaxstruct.solvers.out_of_core import blocks as blocks_module
from jaxstruct.solvers.out_of_core.blocks import RUN, Blocks, block_of_each
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.solvers.cases import assert_optimal, flat, random_case, weighted_case
from tests.solvers.test_size_classes import OUTPUT_TYPES, assert_one_optimum
from tests.truth.quadratic_program import problem, slacks

N, C = 36, 5.0
"""Of three blocks each has the shape of other tests' classes."""
SUBSPACE = Settings(variant="subspace", working_sets="grown", capacity=4, group=16)
WAYS = {
    "grown": SUBSPACE,
    "grown, active": SUBSPACE._replace(active=3),
    "enumerated": SUBSPACE._replace(working_sets="enumerated"),
}
EIGHT = Settings(oracle_batch=8, max_capacity=8)


def solved(case, way="grown", formulation="svm1_margin", **options):
    options = {"tolerance": 1e-5, "settings": WAYS[way], "max_passes": 3000, "blocks": 3} | options
    return fit_in_blocks(case.problem(), case.x, case.y, formulation, C, **options)


def test_more_blocks_compile_nothing_more(x64):
    """The programs of one block serve all, of other data of the class, too; before other tests."""
    for number, seed in enumerate((1, 6)):
        solution = solved(random_case(seed, n=48), blocks=4, tolerance=1e-3)
        assert solution.statistics.compilations <= (0 if number else 4)


TRIED = [
    *((formulation, "grown") for formulation in FORMULATIONS),
    *(("svm1_margin", "grown, active"), ("svm2_slack", "enumerated")),
]
"""Each formulation once, each way of working sets."""


@pytest.mark.parametrize(("formulation", "way"), thorough_after(8, TRIED))
def test_the_optimum_and_the_order_of_the_examples(x64, formulation, way):
    case, weights = weighted_case(formulation, N)
    solution = solved(case, way, formulation, example_weights=weights)
    assert solution.details.blocks == 3
    assert_optimal(solution, case.truth(formulation, C, weights), 1e-5)
    if formulation != "svm0":  # whose weights are scaled
        of_case = formulation, case.psi(), case.loss[case.y], case.y, C, weights
        expected = slacks(problem(*of_case), flat(solution.weights))
        np.testing.assert_allclose(solution.slack[weights > 0], expected[weights > 0], atol=0.02)


@pytest.mark.parametrize("way", ["grown", "enumerated"])
def test_the_dual_never_falls(x64, way):
    """Strongly coupled blocks: large C, one class in two, few inputs."""
    case, duals = random_case(1, n=48, d=3), []
    case = case._replace(x=np.pad(case.x, ((0, 0), (0, 2))))  # as wide as the others
    fit_in_blocks(
        case.problem(), case.x, case.y, "svm1_margin", 2000.0, blocks=4, tolerance=1e-4,
        settings=WAYS[way]._replace(certify_every=1), max_passes=40,
        callback=lambda progress: duals.append(progress.info.certificate.dual),
    )  # fmt: skip
    assert len(duals) > 3 and (np.diff(duals) >= -1e-10 * abs(duals[-1])).all()


def test_sequences_have_the_optimum_of_all_examples():
    data = OUTPUT_TYPES["chains"](3, 21, 12)
    whole = fit(*data, "svm1_margin", 2.0, settings=EIGHT)
    found = fit_in_blocks(*data, "svm1_margin", 2.0, settings=EIGHT, blocks=2)
    assert_one_optimum(whole, found)
    model, x, _ = data
    jax.tree.map(np.shape, predict(model, found, x))


@pytest.mark.thorough
def test_one_block_is_the_run_of_fit(x64):
    """The same rounds: nothing of a plane is lost at rest."""
    case = random_case(5)
    settings = SUBSPACE._replace(certify_every=5)
    options = {"settings": settings, "tolerance": 1e-5, "max_passes": 3000}
    whole = case.fit("svm1_margin", C, **options)
    found = solved(case, blocks=1, settings=settings)
    assert found.statistics.oracle_calls == whole.statistics.oracle_calls
    assert (found.primal, found.dual) == pytest.approx((whole.primal, whole.dual), rel=1e-12)
    assert found.statistics.support_planes == whole.statistics.support_planes


@pytest.mark.thorough
def test_planes_in_files_are_the_same_planes(x64, tmp_path):
    """With no room for any in memory; the files are gone at the end."""
    case, seen = random_case(4, n=N), []

    def watch(progress):
        seen.append(len(list(tmp_path.glob("*/planes_*"))))

    kept = solved(case)
    filed = solved(case, block_bytes=1, folder=tmp_path, callback=watch)
    assert set(seen) == {3} and not list(tmp_path.iterdir())
    np.testing.assert_array_equal(flat(kept.weights), flat(filed.weights))
    assert kept.statistics.planes_kept == filed.statistics.planes_kept > 0


def test_working_sets_grow(x64):
    case = random_case(2, n=N)
    solution = solved(case, settings=SUBSPACE._replace(capacity=2))
    assert solution.statistics.capacity > 2
    assert solution.primal == pytest.approx(case.optimum("svm1_margin", C), rel=1e-5)


def test_kernels_have_no_coordinates(x64):
    case = random_case(5, n=N)
    machine = kernel_multiclass(N, 4, loss=case.loss, dtype="float64")
    found = fit_in_blocks(
        machine, kernel_inputs(case.x @ case.x.T), case.y, "svm1_margin", C, blocks=3,
        settings=SUBSPACE, tolerance=1e-5, max_passes=3000,
    )  # fmt: skip
    assert found.status == Status.CONVERGED
    assert found.primal == pytest.approx(case.optimum("svm1_margin", C), rel=1e-5)


def test_a_run_that_is_stopped_is_certified(x64, capsys):
    found = solved(random_case(3, n=N), callback=lambda progress: True, verbose=True)
    assert found.status == Status.STOPPED and found.statistics.passes == 1
    assert np.isfinite(found.gap) and found.primal >= found.dual
    said = capsys.readouterr().err.splitlines()[0]
    assert said == f"3 blocks of 36 examples; memory {found.details.memory}"
    assert repr(found).startswith("Solution(status=STOPPED") and "36 examples" in str(found)
    assert len(found.trace.primal) == 1


def test_as_many_blocks_as_the_bytes_ask_for(x64):
    few, case = random_case(2), random_case(1, n=96)
    one, _ = solved(few, block_bytes=2**28, blocks=None, max_passes=1).details
    blocks, parts = solved(case, block_bytes=20_000, blocks=None, max_passes=1).details
    given = case.problem(), case.x, case.y, SUBSPACE
    assert one == 1 < blocks and parts.total < js.memory(*given, blocks=1, block_bytes=2**28).total
    assert parts == js.memory(*given, blocks=blocks, block_bytes=20_000)


def test_what_does_not_fit_is_refused():
    case = random_case(0)
    given = case.problem("float32"), case.x, case.y
    for options, match in (
        ({"blocks": 13}, "blocks is 13, but there are 12 examples"),
        ({"blocks": 0}, "blocks"),
        ({"block_bytes": 0}, "block_bytes"),
        ({"settings": Settings(variant="full")}, 'variant is "full", but a block'),
        ({"C": -1.0}, "C must be"),
        ({"example_weights": np.zeros(12)}, "example_weights"),
    ):
        refused(match, fit_in_blocks, *given, **options)
    wrong = case.y.copy()
    wrong[7] = 9
    refused("example 7", fit_in_blocks, given[0], case.x, wrong, blocks=4)
    with refused("NaN or an infinity, first in example 3"):
        fit_in_blocks(given[0], np.where(np.arange(12)[:, None] == 3, np.nan, case.x), case.y)


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
    blocks = Blocks(Objective(problem, x, y, form, 3.0, weights), settings, count)
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
        cap = np.asarray(task.terms.cap)
        np.testing.assert_allclose(cap[rows >= 0], 3 / 40 * weights[rows[rows >= 0]])
        assert not cap[rows < 0].any()
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
    objective = Objective(js.chains.chain(2, 2), x, y, FORMULATIONS["svm1"], 1.0)
    blocks = Blocks(objective, Settings(oracle_batch=4), 16)
    types = {blocks.look(number)[0].parts[0].gram.dtype for number in range(16)}
    assert types == {np.dtype("int8"), np.dtype("float32")}
    assert {blocks.read(number).task.inputs[0].gram.dtype for number in range(16)} == {
        np.dtype("float32")
    }


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
    settings, tasks = EIGHT, []
    foretold = memory(problem, x, y, settings, blocks=4)
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
