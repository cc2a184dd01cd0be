"""Training sets in buckets: the optimum, numbers in the order of examples, refusals."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct import Settings, Status, fit, support_outputs
from jaxstruct.core.buckets import Buckets
from jaxstruct.solvers.checkpoints.run_state import load_solution, save_solution
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.lib.refusals import refused
from tests.solvers.cases import (
    FULL,
    GROWN,
    assert_of_case,
    flat,
    padded_rows,
    random_case,
    weighted_case,
)

N, K, C = 12, 4, 5.0
SUBSPACE = Settings(variant="subspace", working_sets="grown", cached_sweeps=1, capacity=4)
WAYS = {
    "subspace grown": (SUBSPACE, (6, 4, 2)),
    "subspace enumerated": (SUBSPACE._replace(working_sets="enumerated", active=3), (8, 4)),
    "full grown": (GROWN, (7, 5)),
    "full enumerated": (FULL._replace(working_sets="enumerated"), (11, 1)),
}


def bucketed(case, sizes, seed=0):
    """(inputs, outputs): sparse inputs at random in buckets that are padded to different widths."""
    order = np.random.default_rng(seed).permutation(len(case.y))
    index = tuple(np.split(order, np.cumsum(sizes)[:-1]))
    inputs = [padded_rows(case.x[own], 5 + number) for number, own in enumerate(index)]
    return Buckets(tuple(inputs), index), Buckets(tuple(case.y[own] for own in index), index)


def solved(case, way="subspace grown", formulation="svm1_margin", C=C, seed=0, **options):
    settings, sizes = WAYS[way]
    fine = 1e-5 if way.startswith("subspace") else 2e-9
    options = {"tolerance": fine, "settings": settings, "max_passes": 2000} | options
    return fit(case.problem(), *bucketed(case, sizes, seed), formulation, C, **options)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_optimum_and_the_order_of_the_examples(x64, formulation, way):
    case, weights = weighted_case(formulation)
    seed = list(FORMULATIONS).index(formulation)
    solution = solved(case, way, formulation, seed=seed, example_weights=weights)
    fine = 1e-5 if way.startswith("subspace") else 1e-8
    assert_of_case(solution, case, formulation, C, weights, fine)


@pytest.mark.parametrize("way", ["subspace grown", "subspace enumerated"])
@pytest.mark.parametrize("formulation", ["svm1_slack", "svm2_margin"])
def test_support_outputs_name_the_examples(x64, formulation, way):
    """w = sum alpha delta Psi over the pairs named; outputs come by bucket, in their order."""
    case = random_case(9, sparse=True)
    solution = solved(case, way, formulation)
    support, psi = support_outputs(solution), case.psi()
    assert isinstance(support.output, tuple) and len(support.output) == len(WAYS[way][1])
    output = np.concatenate(support.output)
    dpsi = psi[support.example, case.y[support.example]] - psi[support.example, output]
    np.testing.assert_allclose(support.alpha @ dpsi, flat(solution.state.weights), atol=1e-9)
    np.testing.assert_array_equal(support.loss, case.loss[case.y[support.example], output])
    np.testing.assert_array_equal(support.slack, solution.slack[support.example])
    bucket_of = np.empty(N, int)
    for number, own in enumerate(bucketed(case, WAYS[way][1])[0].index):
        bucket_of[own] = number
    found = bucket_of[support.example]
    assert (np.diff(found) >= 0).all() and (support.alpha > 0).all()
    assert [len(part) for part in support.output] == [
        (found == number).sum() for number in range(len(support.output))
    ]


def test_only_real_examples_are_counted(x64):
    """Three buckets of 12 examples in 24 rows; two oracle calls a certified pass, else one, and one
    more for each multiple of w that the last certificate tries."""
    case, seen = random_case(1, sparse=True), []
    solution = solved(case, max_passes=5, tolerance=1e-9, callback=seen.append)
    assert solution.details.rows.shape == (24,) and (solution.details.rows < 0).sum() == 12
    calls = [p.info.oracle_calls for p in seen]
    assert calls[:4] == [N] * 4 and calls[4] % N == 0 and 2 * N <= calls[4] <= 6 * N
    assert solution.statistics.oracle_calls == sum(calls)
    occupied = np.asarray(solution.state.sets.occupied)[solution.details.rows >= 0]
    assert solution.statistics.planes_kept == occupied[:, 1:].sum() > 0
    padding = np.asarray(solution.state.sets.occupied)[solution.details.rows < 0]
    assert not padding[:, 1:].any()  # nothing is ever added for it


def test_a_start_is_taken_up_in_its_buckets(x64):
    case = random_case(2, sparse=True)
    first = solved(case, tolerance=1e-4)
    one = solved(case, start=first, max_passes=1)
    assert one.dual >= first.dual * (1 - 1e-12)
    for wanted in (0.5, 5.0, 50.0):
        again = solved(case, C=wanted, start=first, tolerance=1e-4)
        optimum = case.truth("svm1_margin", wanted).objective
        assert again.status == Status.CONVERGED
        assert again.dual <= optimum * (1 + 1e-9)
        assert again.primal == pytest.approx(optimum, rel=1e-4)
    refused("start has its examples in other buckets", solved, case, seed=1, start=first)
    given = case.problem(), *bucketed(case, (7, 5)), "svm1_margin", C
    with refused(r"it has \[.*, .*, .*\] a bucket, these are \[7, 5\]"):
        fit(*given, start=first, settings=SUBSPACE)


def test_checkpoints_hold_buckets(x64, tmp_path):
    """Every leaf bit by bit, and a run that goes on as if it had never been on disk."""
    case, path = random_case(3, sparse=True), tmp_path / "run.npz"
    part = solved(case, max_passes=4)
    assert part.status == Status.PASS_LIMIT
    save_solution(path, part)
    outputs = bucketed(case, WAYS["subspace grown"][1])[1]
    for template in (None, outputs, case.y):
        loaded = load_solution(path, case.problem(), template)
        assert jax.tree.structure(loaded) == jax.tree.structure(part)
        for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves(part), strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_array_equal(a, b)
    assert len(loaded.state.sets.outputs) == 3
    again, live = (solved(case, start=start) for start in (loaded, part))
    assert again.status == Status.CONVERGED
    np.testing.assert_array_equal(again.statistics.history[3:], live.statistics.history[3:])


def test_a_second_bucketed_run_compiles_nothing(x64):
    """Which examples a bucket holds, and how many up to its padding, are values, not shapes."""
    case = random_case(5, sparse=True)
    solved(case)
    settings = WAYS["subspace grown"][0]
    for sizes, formulation in (((6, 4, 2), "svm2_slack"), ((1, 8, 3), "svm1")):
        solution = fit(
            case.problem(),
            *bucketed(case, sizes, 7),
            formulation,
            2.0,
            settings=settings,
            tolerance=1e-4,
        )
        assert solution.statistics.compilations == 0
