"""Trainings on a mesh of devices: the optimum of one device, whatever the number of shards."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct import Settings, Status, fit, fit_path, predict, support_outputs
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass
from jaxstruct.solvers.checkpoints.run_state import load_solution
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.placement import mesh as placement_mesh
from jaxstruct.solvers.placement.mesh import deal
from tests.lib.refusals import refused
from tests.solvers import process_cases, test_exchange
from tests.solvers.cases import assert_of_case, flat, padded_rows, random_case, weighted_case
from tests.solvers.test_buckets import bucketed
from tests.solvers.test_resuming import assert_same_end, killed_again_and_again

N, K, C = 12, 4, 5.0
SUBSPACE = Settings(variant="subspace", working_sets="grown", capacity=4, group=2, oracle_batch=4)
WAYS = {
    "grown": SUBSPACE,
    "full": SUBSPACE._replace(variant="full"),
    "enumerated, active": SUBSPACE._replace(working_sets="enumerated", active=3, cached_sweeps=1),
}


def mesh_of(shards):
    """The first devices, in two axes where that is possible: axes mean nothing."""
    shape = (2, shards // 2) if shards % 2 == 0 else (shards, 1)
    return jax.make_mesh(shape, ("rows", "more"), devices=jax.devices()[:shards])


def solved(case, shards, way="grown", formulation="svm1_margin", **options):
    options = {"tolerance": 1e-5, "settings": WAYS[way], "max_passes": 3000} | options
    grown = options["settings"].working_sets == "grown"
    examples = bucketed(case, (7, 5)) if grown else (case.x, case.y)
    return fit(case.problem(), *examples, formulation, C, mesh=mesh_of(shards), **options)


TRIED = [
    *((formulation, "grown", 2) for formulation in FORMULATIONS),
    *(("svm2_slack", "enumerated, active", 4), ("svm1_margin", "full", 2)),
]
"""Each formulation, each kind of working sets."""


@pytest.mark.parametrize(("formulation", "way", "shards"), TRIED)
def test_the_optimum_and_the_order_of_the_examples(x64, formulation, way, shards):
    case, weights = weighted_case(formulation)
    solution = solved(case, shards, way, formulation, example_weights=weights)
    assert_of_case(solution, case, formulation, C, weights, 1e-5)
    for leaf in jax.tree.leaves((solution.weights, solution.state)):
        assert not isinstance(leaf, jax.Array) or len(leaf.devices()) == 1


def test_the_dual_never_falls(x64):
    """Strongly coupled blocks: large C, three inputs for twelve examples of four classes."""
    for seed in range(2):
        case, duals = random_case(seed, sparse=True), []
        case = case._replace(x=case.x * (np.arange(5) < 3))

        def watch(progress, duals=duals):
            duals.append(progress.info.estimate.dual)

        settings = SUBSPACE._replace(certify_every=1)
        fit(
            case.problem(), *bucketed(case, (7, 5)), "svm1_margin", 2000.0, mesh=mesh_of(2),
            settings=settings, callback=watch, tolerance=1e-3,
        )  # fmt: skip
        fall = np.minimum(np.diff(duals), 0)
        assert len(duals) > 3 and (fall >= -1e-10 * np.abs(duals[-1])).all()


def test_kernels_have_no_coordinates(x64, compiled):
    """Sets without Gram blocks lie where programs leave them: no program compiles twice."""
    case, formulation = random_case(5), "svm2_margin"
    machine = kernel_multiclass(N, K, loss=case.loss, dtype="float64")
    given = machine, kernel_inputs(case.x @ case.x.T), case.y, formulation, C
    options = {"settings": test_exchange.SETTINGS, "tolerance": 1e-5, "max_passes": 3000}
    compiled.clear()
    found = fit(*given, mesh=mesh_of(2), **options)
    assert len([name for name in compiled if "on_shards" in name]) <= 2
    assert found.status == Status.CONVERGED
    assert found.primal == pytest.approx(case.truth(formulation, C).objective, rel=1e-5)


def test_newton_steps_are_those_of_one_device(x64):
    """Rounds alike up to rounding, and few: where block ascent crawls, the run takes to them."""
    case = random_case(3, n=24, d=3)
    given = case.problem(), case.x, case.y, "svm1_margin", 2000.0
    rounds = []
    for mesh, variant in ((None, "full"), (mesh_of(4), "full"), (mesh_of(4), "auto")):
        settings = process_cases.SETTINGS["full"]._replace(variant=variant)
        found = fit(*given, mesh=mesh, settings=settings, tolerance=1e-6)
        assert found.status == Status.CONVERGED
        assert found.primal == pytest.approx(case.optimum("svm1_margin", 2000.0), rel=2e-6)
        rounds.append(found.statistics.passes)
        assert (found.state.span is not None) or variant == "auto"
    assert abs(rounds[0] - rounds[1]) <= 2
    assert rounds[2] < 60


def test_starts_paths_and_checkpoints_go_between_meshes(x64, tmp_path):
    """A solution of a mesh or of none starts a run on either; a path of C on a mesh is a path."""
    case = random_case(7, sparse=True)
    first = solved(case, 2, checkpoint=tmp_path / "kept.npz", checkpoint_seconds=0.0)
    read = load_solution(tmp_path / "kept.npz", case.problem())
    again = solved(case, 2, start=read)
    assert again.statistics.passes <= 2
    assert again.primal == pytest.approx(first.primal, rel=2e-5)
    path = fit_path(
        case.problem(), *bucketed(case, (7, 5)), "svm1_margin", [1.0, C], mesh=mesh_of(2),
        settings=SUBSPACE, tolerance=1e-5, max_passes=3000,
    )  # fmt: skip
    assert [one.primal for one in path][-1] == pytest.approx(first.primal, rel=2e-5)
    given = case.problem(), *bucketed(case, (7, 5)), "svm1_margin", C
    batches = SUBSPACE._replace(oracle_batch=3, group=1)
    alone = fit(*given, settings=batches, tolerance=1e-5, max_passes=3000)
    for start in (first, alone):
        once = solved(case, 2, start=start, max_passes=1)
        assert once.dual >= start.dual * (1 - 1e-9)
        assert once.primal <= start.primal * (1 + 1e-4)
        once = fit(*given, settings=batches, start=start, max_passes=1)
        assert once.dual >= start.dual * (1 - 1e-9)


def test_killed_and_resumed_on_a_mesh(x64, tmp_path, monkeypatch):
    """Bit by bit what a run is that nobody killed."""

    def train(shards=2, **more):
        return solved(random_case(3, sparse=True), shards, **more)

    whole = train()
    found = killed_again_and_again(train, tmp_path / "run.npz", monkeypatch)
    assert len(found.state.sets.outputs) > 1
    assert_same_end(whole, found)
    with refused("is of another run: devices was 2, is 4"):
        train(4, checkpoint=tmp_path / "run.npz", resume=True)


@pytest.mark.smoke
def test_what_a_solution_is_used_for(x64):
    """Predictions and support outputs, as after a training on one device."""
    case = random_case(9, sparse=True)
    solution = solved(case, 2)
    psi, support = case.psi(), support_outputs(solution)
    output = np.concatenate(support.output)
    planes = psi[support.example, case.y[support.example]] - psi[support.example, output]
    np.testing.assert_allclose(support.alpha @ planes, flat(solution.state.weights), atol=1e-9)
    scores = case.x @ np.asarray(solution.weights["weights"])
    found = predict(case.problem(), solution, padded_rows(case.x, 5))
    np.testing.assert_array_equal(found, scores.argmax(axis=1))


@pytest.mark.smoke
def test_working_sets_grow(x64):
    """Two slots at first, so that every run must widen them."""
    solution = process_cases.train(tolerance=1e-5, max_passes=3000)
    given = "svm1_margin", process_cases.C, process_cases.WEIGHTS
    assert process_cases.GROWN.capacity == 2 < solution.statistics.capacity
    assert solution.primal == pytest.approx(process_cases.CASE.optimum(*given), rel=1e-5)


def test_a_second_training_compiles_nothing(x64):
    """Of other examples, another number of them, by another formulation of the same oracle."""
    solved(random_case(1), 2)
    case = random_case(8)
    examples = bucketed(case._replace(x=case.x[:11], y=case.y[:11]), (7, 4))
    again = fit(case.problem(), *examples, "svm2_margin", 3.0, mesh=mesh_of(2), settings=SUBSPACE)
    assert again.status == Status.CONVERGED and again.statistics.compilations == 0


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("n", "shards", "rows"), [(1, 1, 1), (1, 4, 1), (7, 2, 4), (12, 4, 3), (50, 3, 20), (9, 4, 3)]
)
def test_examples_are_dealt_evenly(n, shards, rows):
    sizes = np.random.default_rng(n).integers(1, 40, n)
    held = deal(sizes, shards, rows).reshape(shards, rows)
    real = held >= 0
    assert np.array_equal(np.sort(held[real]), np.arange(n))
    assert np.array_equal(real, np.sort(real, axis=1)[:, ::-1])  # padding comes last
    counts, sums = real.sum(axis=1), np.where(real, sizes[held], 0).sum(axis=1)
    assert np.ptp(counts) <= 1 and np.ptp(sums) <= sizes.max()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mesh": 2}, "mesh must be a jax.sharding.Mesh or None, got 2"),
        (
            {"mesh": None, "settings": Settings(synchronisations=0)},
            "synchronisations must be at least 1",
        ),
    ],
)
def test_what_does_not_fit_is_refused(options, match):
    case = random_case(0)
    options = {"mesh": mesh_of(2)} | options
    refused(match, lambda: fit(case.problem("float32"), case.x, case.y, "svm1_margin", **options))


def test_small_inputs_are_trained_on_the_cpu_beside_a_card(x64, monkeypatch):
    """Devices of this process stand in for both: the first one for the card."""
    case = random_case(3)
    card, beside = jax.devices()[:2]

    def trained(inputs=case.x):
        found = fit(case.problem(), inputs, case.y, "svm1_margin", C)
        return found, {one for leaf in jax.tree.leaves(found.weights) for one in leaf.devices()}

    alone, where = trained()
    assert where == {card}
    monkeypatch.setattr(placement_mesh, "runs_on_cpu", lambda: False)
    monkeypatch.setattr(placement_mesh, "host", lambda: beside)
    found, where = trained()
    assert where == {beside} and found.primal == alone.primal
    assert np.array_equal(flat(found.weights), flat(alone.weights))
    labels = predict(case.problem(), found, case.x)
    np.testing.assert_array_equal(labels, predict(case.problem(), alone, case.x))
    with jax.default_device(card):
        assert trained()[1] == {card}, "the caller has the choice"
    assert trained(jax.device_put(case.x))[1] == {card}
    monkeypatch.setattr(placement_mesh, "FOR_A_CARD", 1)
    assert trained()[1] == {card}
