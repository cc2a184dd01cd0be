"""What float32 may claim where rounding is the size of the gap, against float64 by enumeration."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct import Settings, Solution, SparseFeatures, fit
from jaxstruct.core.buckets import Buckets
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass, multiclass
from jaxstruct.solvers.objective.certificate import (
    ExampleTerms,
    certify,
    coordinate_norm,
    proven,
    roundings,
)
from jaxstruct.solvers.objective.formulations import FORMULATIONS, Penalty
from tests.solvers.cases import (
    GROWN,
    SOFT,
    SUBSPACE,
    Case,
    case_for,
    dense_beta,
    flat,
    padded_rows,
    random_case,
)
from tests.truth.quadratic_program import dual_value, primal_value


def values(case: Case, formulation: str, C: float, solution: Solution) -> tuple[float, float]:
    """(P, D) in float64, of the features as float32 holds them.

    A row of multipliers above its cap by a rounding is scaled to it.
    """
    beta = dense_beta(solution.state.sets, len(case.y), len(case.loss))
    if FORMULATIONS[formulation].penalty == 1:
        cap, mass = C / len(case.y), beta.sum(axis=1)
        beta = beta * np.where(mass > cap, cap / np.where(mass > 0, mass, 1), 1)[:, None]
    given = *case._replace(x=case.x.astype(np.float32).astype(float)).listed(), C
    primal = primal_value(formulation, flat(solution.weights), *given)
    return primal, dual_value(formulation, beta, *given).value


@pytest.mark.parametrize("formulation", SOFT)
@pytest.mark.parametrize("C", [1e-3, 100.0])
def test_rounding_bounds_what_float32_is_off_and_is_small(formulation, C):
    """The dual variables are feasible in float32, too."""
    case = case_for(formulation, seed=5, n=14)
    for settings in (Settings(), SUBSPACE._replace(group=1), GROWN):
        solution = case.fit(formulation, C, "float32", settings=settings,
            max_passes=30)  # fmt: skip
        beta, certificate = dense_beta(solution.state.sets, len(case.y), 4), solution.certificate
        assert dual_value(formulation, beta, *case.listed(), C, tolerance=2e-6).feasible
        primal, dual = values(case, formulation, C, solution)
        assert abs(primal - solution.primal) <= certificate.rounding  # of the best w, any round's
        assert abs(dual - certificate.dual) <= certificate.rounding
        assert 0 < certificate.rounding <= 1e-4 * certificate.primal


@pytest.mark.thorough
def test_a_certificate_of_weights_counts_the_rounding_of_float32():
    """Features far from the origin, where float32 may put P(w) below the optimum."""
    case, formulation, C = random_case(0, n=14), "svm2_slack", 20.0
    case = case._replace(x=case.x + 1000.0)
    truth = case._replace(x=case.x.astype(np.float32).astype(float)).truth(formulation, C)
    w = {"weights": truth.w.reshape(5, 4).astype(np.float32)}
    found = js.certify(case.problem("float32"), w, case.x, case.y, formulation, C, max_passes=60)
    rounding = found.certificate.rounding
    assert found.dual - rounding <= truth.objective <= found.primal + rounding
    if found.status is js.Status.CONVERGED:
        assert rounding <= 1e-3 * found.primal


def heavy_features(kind: str, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [8, T] and weights [T, 3] whose sums in order lose the most."""
    random = np.random.default_rng(0)
    x = np.exp(2 * random.normal(size=(8, terms)))
    if kind == "one heavy":
        x = np.abs(random.normal(size=(8, terms)))
        x[:, 0] = 10 * math.sqrt(terms)
    w = x[:3].T * random.uniform(0.5, 1.5, size=(terms, 3))
    return x.astype(np.float32), w.astype(np.float32)


@pytest.mark.parametrize("kind", ["long tails", "one heavy"])
@pytest.mark.parametrize("terms", [16, 256, 4096])
def test_a_score_is_off_by_no_more_than_its_roundings(kind, terms):
    """[n, k] F(x, y) of float32 against float64, in units of what `certify` allows for."""
    x, w = heavy_features(kind, terms)
    scores = jax.vmap(multiclass(terms, 3).model.potentials, (None, 0))({"weights": w}, x)
    truth = x.astype(np.float64) @ w.astype(np.float64)
    lengths = np.linalg.norm(x.astype(np.float64), axis=1)[:, None]
    size = math.sqrt(2) * np.linalg.norm(w.astype(np.float64)) * lengths + 2 * np.abs(truth)
    allowed = roundings(x) * np.finfo(np.float32).eps * size
    assert (np.abs(np.asarray(jax.tree.leaves(scores)[0]) - truth) <= allowed).all()


def test_roundings_count_the_additions_of_a_term():
    few, tokens = np.zeros((4, 64)), np.zeros((4, 20, 30))
    assert roundings(few) == roundings((tokens, few)) == 1.0
    assert roundings(np.zeros((4, 1024))) == 8.0
    assert roundings(np.zeros((4, 2**16))) == 128.0  # half the root
    assert roundings((np.zeros((4, 200, 312)), few)) == 4.0


def test_a_gap_is_proven_with_its_rounding():
    assert proven(0.5, 0.4, 1.0) is True
    assert proven(1.1, 0.0, 1.0) is False
    assert proven(0.8, 0.4, 1.0) is False  # more rounds may close it
    assert proven(0.7, 0.6, 1.0) is False  # no noise yet: at 0.4 it is proven
    assert proven(0.3, 0.8, 1.0) is None  # the gap is noise
    assert proven(0.9, 1.0, 1.0) is None and proven(0.5, math.nan, 1.0) is None
    assert proven(-0.2, 0.1, 1.0) is True and proven(-3.0, 0.1, 1.0) is None
    assert proven(math.inf, math.inf, math.inf) is False
    assert proven(math.nan, 0.0, 1.0) is False


def test_planes_that_cancel_leave_the_rounding_of_their_sum():
    """w = 0 of multipliers that sum to 1e4, of planes of length 1e4: half the square of eps 1e8."""
    one, terms = np.zeros(1), Penalty(0.0, 0.0, np.full(1, 1e4), np.zeros(1))
    found = ExampleTerms(one, one, one, one, one, one, one + 1e4, one, one + 1e4)
    eps = float(np.finfo(np.float32).eps)
    found = certify(FORMULATIONS["svm1"], terms, found, coordinates=0.0, dtype=np.dtype("f4"))
    assert found.gap == 0 and found.rounding == pytest.approx((eps * 1e8) ** 2 / 2)


def test_only_coordinates_have_a_norm_of_their_own():
    x = np.ones((4, 3), np.float32)
    linear, kernel = multiclass(3, 2), kernel_multiclass(4, 2)
    w = {"weights": np.full((3, 2), 3e19, np.float32)}  # its square is no float32
    assert coordinate_norm(linear, w, x) == pytest.approx(6 * 9e38)
    assert coordinate_norm(kernel, kernel.initial_weights, kernel_inputs(x @ x.T)) is None


@pytest.mark.thorough
def test_one_long_example_leaves_the_rounding_of_the_others_as_it_is():
    """Two buckets: 40 short rows, and one that is long, costs much and says nothing."""
    d, found, index = 4, [], (np.arange(40), np.array([40]))
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 41).astype(np.int32)
    rows = padded_rows(random.normal(size=(40, d)) + y[:40, None], d)
    outputs = Buckets((y[:40], np.full(1, 3, np.int32)), index)
    weights = np.append(np.ones(40), 1e-3)
    for width, cost in ((d, 1.0), (2**14, 60.0)):
        loss = 1 - np.eye(4)
        loss[3] *= cost
        long = SparseFeatures(np.full((1, width), d, np.int32), np.zeros((1, width)))
        given = multiclass(d, 4, loss=loss), Buckets((rows, long), index), outputs
        found.append(fit(*given, "svm1_margin", 10.0, example_weights=weights))
    short, long = (solution.certificate.rounding for solution in found)
    assert 0 < long < 2 * short
