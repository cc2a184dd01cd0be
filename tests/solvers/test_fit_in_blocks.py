"""Trainings in blocks: the optimum of all examples at once, however they are cut."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct import Settings, Status, fit, fit_in_blocks, predict
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.solvers.cases import assert_optimal, flat, random_case, weighted_case
from tests.solvers.test_size_classes import OUTPUT_TYPES, assert_one_optimum
from tests.truth.quadratic_program import problem, slacks

N, C = 12, 5.0
SUBSPACE = Settings(variant="subspace", working_sets="grown", capacity=4, group=2, oracle_batch=4)
WAYS = {
    "grown": SUBSPACE,
    "grown, active": SUBSPACE._replace(active=3),
    "enumerated": SUBSPACE._replace(working_sets="enumerated"),
    "enumerated, active": SUBSPACE._replace(working_sets="enumerated", active=3),
}


def solved(case, way="grown", formulation="svm1_margin", **options):
    options = {"tolerance": 1e-5, "settings": WAYS[way], "max_passes": 3000, "blocks": 3} | options
    return fit_in_blocks(case.problem(), case.x, case.y, formulation, C, **options)


TRIED = [
    *((formulation, "grown", 3) for formulation in FORMULATIONS),
    *(("svm1_margin", way, blocks) for way, blocks in (("grown", 12), ("grown, active", 2))),
    *((each, way, 4) for each in ("svm1_margin", "svm2_slack") for way in list(WAYS)[2:]),
]
"""Each formulation once, each way of working sets for two of them."""


@pytest.mark.parametrize(("formulation", "way", "blocks"), thorough_after(8, TRIED))
def test_the_optimum_and_the_order_of_the_examples(x64, formulation, way, blocks):
    case, weights = weighted_case(formulation)
    solution = solved(case, way, formulation, example_weights=weights, blocks=blocks)
    assert solution.details.blocks == blocks
    assert_optimal(solution, case.truth(formulation, C, weights), 1e-5)
    if formulation != "svm0":  # whose weights are scaled
        of_case = formulation, case.psi(), case.loss[case.y], case.y, C, weights
        expected = slacks(problem(*of_case), flat(solution.weights))
        np.testing.assert_allclose(solution.slack[weights > 0], expected[weights > 0], atol=0.02)


@pytest.mark.parametrize("way", ["grown", "enumerated"])
def test_the_dual_never_falls(x64, way):
    """Strongly coupled blocks: large C, one class in two, few inputs."""
    case, duals = random_case(1, n=24, d=3), []
    fit_in_blocks(
        case.problem(), case.x, case.y, "svm1_margin", 2000.0, blocks=4, tolerance=1e-4,
        settings=WAYS[way]._replace(certify_every=1), max_passes=40,
        callback=lambda progress: duals.append(progress.info.certificate.dual),
    )  # fmt: skip
    assert len(duals) > 3 and (np.diff(duals) >= -1e-10 * abs(duals[-1])).all()


@pytest.mark.parametrize("output_type", thorough_after(1, ["chains", "trees", "texts"]))
def test_output_type_have_the_optimum_of_all_examples(output_type):
    data = OUTPUT_TYPES[output_type](3, 21, 9)
    whole = fit(*data, "svm1_margin", 2.0)
    found = fit_in_blocks(*data, "svm1_margin", 2.0, blocks=2)
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
    case, seen = random_case(4), []

    def watch(progress):
        seen.append(len(list(tmp_path.glob("*/planes_*"))))

    kept = solved(case)
    filed = solved(case, block_bytes=1, folder=tmp_path, callback=watch)
    assert set(seen) == {3} and not list(tmp_path.iterdir())
    np.testing.assert_array_equal(flat(kept.weights), flat(filed.weights))
    assert kept.statistics.planes_kept == filed.statistics.planes_kept > 0


def test_working_sets_grow(x64):
    case = random_case(2)
    solution = solved(case, settings=SUBSPACE._replace(capacity=2))
    assert solution.statistics.capacity > 2
    assert solution.primal == pytest.approx(case.optimum("svm1_margin", C), rel=1e-5)


def test_kernels_have_no_coordinates(x64):
    case = random_case(5)
    machine = kernel_multiclass(N, 4, loss=case.loss, dtype="float64")
    found = fit_in_blocks(
        machine, kernel_inputs(case.x @ case.x.T), case.y, "svm1_margin", C, blocks=3,
        settings=SUBSPACE, tolerance=1e-5, max_passes=3000,
    )  # fmt: skip
    assert found.status == Status.CONVERGED
    assert found.primal == pytest.approx(case.optimum("svm1_margin", C), rel=1e-5)


def test_more_blocks_compile_nothing_more():
    """The programs of one block serve all, of other data of the class, too."""
    for number, seed in enumerate((1, 6)):
        case = random_case(seed, n=48)
        given = case.problem("float32"), case.x.astype("float32"), case.y, "svm1_margin", 1.0
        solution = fit_in_blocks(*given, blocks=4, settings=SUBSPACE)
        assert solution.statistics.compilations <= (0 if number else 4)


def test_a_run_that_is_stopped_is_certified(x64, capsys):
    found = solved(random_case(3), callback=lambda progress: True, verbose=True)
    assert found.status == Status.STOPPED and found.statistics.passes == 1
    assert np.isfinite(found.gap) and found.primal >= found.dual
    said = capsys.readouterr().err.splitlines()[0]
    assert said == f"3 blocks of 12 examples; memory {found.details.memory}"
    assert repr(found).startswith("Solution(status=STOPPED") and "12 examples" in str(found)
    assert len(found.trace.primal) == 1


def test_as_many_blocks_as_the_bytes_ask_for():
    problem, x, y = OUTPUT_TYPES["classes"](2, 400, 0)
    few, many = (
        fit_in_blocks(problem, x, y, block_bytes=bytes, max_passes=1) for bytes in (2**28, 20_000)
    )
    (one, whole), (blocks, parts) = few.details, many.details
    assert one == 1 < blocks and parts.total < whole.total
    assert parts == js.memory(problem, x, y, blocks=blocks, block_bytes=20_000)


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
