"""A second run compiles nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import Settings, fit, predict
from jaxstruct.core.compiling import program, programs_traced
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from tests.lib.refusals import refused
from tests.solvers.cases import FULL, case_for, random_case
from tests.solvers.test_size_classes import compiled  # noqa: F401

ALL = {
    "subspace enumerated": Settings(variant="subspace", working_sets="enumerated"),
    "subspace grown": Settings(variant="subspace", working_sets="grown"),
    "full grown": FULL,
    "full enumerated": FULL._replace(working_sets="enumerated"),
}


@pytest.mark.parametrize("way", ["enumerated", "grown"])
def test_set_up_compiles_nothing(way, compiled):  # noqa: F811
    """Of a first fit, sets that grow, a warm start and predictions only the programs compile."""
    case = random_case(0, d=12 if way == "grown" else 11, k=3)  # shapes of their own
    settings = Settings(variant="subspace", working_sets=way, capacity=2)
    compiled.clear()
    problem = case.problem("float32")
    first = fit(problem, case.x, case.y, "svm1", 10.0, settings=settings, max_passes=4)
    again = fit(problem, case.x, case.y, "svm1", 1.0, settings=settings, max_passes=2, start=first)
    predict(problem, again, case.x)
    assert first.statistics.capacity > 2
    programs = {"sweeps_pass", "oracle_pass", "weights_of_multipliers", "decode_batch"}
    programs |= {"enumerated_working_sets"} if way == "enumerated" else set()
    # The copy of the working sets ("map") has no shape that d changes: another test may have it.
    found = {name.removeprefix("jit(").removesuffix(")") for name in compiled} - {"map"}
    assert found == programs


@pytest.mark.parametrize("name", ALL)
def test_the_second_run_compiles_nothing(name):
    """Whatever the values: C, formulation, tolerances, losses, data, weights, n up to padding."""
    settings, d = ALL[name], 6 + list(ALL).index(name)  # shapes that nothing else has compiled
    case = random_case(0, d=d, k=3)

    def compilations(case, formulation="svm1", C=1.0, **options):
        solution = case.fit(formulation, C, "float32", settings=settings, max_passes=4, **options)
        return solution.statistics.compilations

    assert compilations(case) > 0
    assert compilations(case) == 0
    for formulation in FORMULATIONS:
        assert compilations(case_for(formulation, seed=1, d=d, k=3), formulation, C=37.0) == 0
    assert compilations(case, tolerance=1e-4) == 0
    assert compilations(case, tolerance=None, epsilon=0.5) == 0
    assert compilations(case._replace(loss=2.5 * (1 - np.eye(3)))) == 0
    assert compilations(random_case(7, d=d, k=3, n=10)) == 0
    assert compilations(case, example_weights=np.linspace(0, 2, 12)) == 0
    assert compilations(case, min_margin=0.1) == 0


def test_a_program_is_counted_once_a_shape_and_static_argument():
    def scaled(x, power):
        """Of x."""
        return x**power

    of = program(scaled, static_argnums=1)
    assert of.__name__ == "scaled" and of.__doc__ == "Of x."
    before = programs_traced()
    for size, power, wanted in ((2, 2, 1), (2, 2, 1), (3, 2, 2), (2, 3, 3), (3, 2, 3)):
        np.testing.assert_array_equal(of(jnp.full(size, 2.0), power), [2.0**power] * size)
        assert programs_traced() - before == wanted
    jax.clear_caches()
    of(jnp.zeros(2), 2)
    assert programs_traced() - before == 4  # made anew, so counted anew


def test_prediction_is_the_same_in_any_batch():
    case = random_case(0, n=70, d=6, k=3)
    problem = case.problem("float32")
    weights = fit(problem, case.x[:12], case.y[:12], "svm1", 1.0, settings=FULL).weights
    scores = case.x @ np.asarray(weights["weights"], float)
    for batch in (1024, 16, 1):
        found = predict(problem, weights, case.x.astype(np.float32), batch=batch)
        np.testing.assert_array_equal(found, scores.argmax(axis=1))
        assert found.shape == (70,)
    refused("inputs is empty", predict, problem, weights, case.x[:0])
