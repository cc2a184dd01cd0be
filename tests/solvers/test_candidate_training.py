"""Training on candidates and label sequences against an independent QP with all constraints."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest

from jaxstruct import Settings, check_problem, fit, predict
from jaxstruct.chains.structure import Constraints
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.strings.inputs import feature_inputs, joint_inputs, kernel_inputs
from tests.chains.enumeration import LOSSES, loss_in_numpy
from tests.chains.oracles.truth import all_labelings
from tests.chains.structure_cases import (
    RICH,
    Model,
    Sequences,
    allowed,
    flat_psi,
    iob_constraints,
    random_sequences,
)
from tests.solvers.cases import FULL, assert_optimal
from tests.strings.candidate_cases import MACHINES, Case, random_case
from tests.truth.quadratic_program import Truth, solve_primal

T, D, S = 3, 3, 3
ASCENT = Settings(variant="subspace", capacity=32)
NEWTON = FULL._replace(capacity=8)
"""Room for every output: sweeps go over all of them."""


class Every(NamedTuple):
    """All outputs of all examples, y_i first; where there are fewer the last is repeated.

    Fields:
      outputs: [n, k, T]. psi: [n, k, D]. several: [n] bool, whether there is any output but y_i.
    """

    outputs: np.ndarray
    psi: np.ndarray
    several: np.ndarray

    def losses(self, name: str) -> np.ndarray:
        """[n, k] Delta(y_i, y)."""
        delta = np.zeros(self.outputs.shape[:2])
        for i, rows in enumerate(self.outputs):
            real = rows[0] >= 0
            delta[i] = loss_in_numpy(name, rows[:1, real], rows[:, real])[0]
        return delta


def every(data: Sequences, model: Model, way: str, constraints: Constraints | None) -> Every:
    """Enumeration of a small training set."""
    features, k = data.features(way), data.S ** int(data.length.max())
    outputs = np.repeat(data.y[:, None], k, axis=1)
    several = np.zeros(len(features), bool)
    for i, (y, end) in enumerate(zip(data.y, data.length, strict=True)):
        labels = all_labelings(data.S, int(end), data.y.shape[1])
        wrong = labels[(labels != y).any(axis=1) & allowed(constraints, labels)]
        several[i] = len(wrong) > 0
        outputs[i, 1 : 1 + len(wrong)] = wrong
        outputs[i, 1 + len(wrong) :] = wrong[-1] if len(wrong) else y
    psi = [
        [flat_psi(model, data.S, x, y) for y in rows]
        for x, rows in zip(features, outputs, strict=True)
    ]
    return Every(outputs, np.asarray(psi), several)


class Training(NamedTuple):
    """Which training set: its size, model, kind of tokens, loss; y by a hidden w if separable."""

    model: Model = Model()
    way: str = "dense"
    loss: str = "hamming"
    separable: bool = False
    constrained: bool = False
    n: int = 8

    @property
    def constraints(self) -> Constraints | None:
        return iob_constraints(S) if self.constrained else None

    def data(self) -> Sequences:
        return _labelled(self)

    def every(self) -> Every:
        return _every(self)

    def truth(self, formulation: str, C: float) -> Truth:
        """The optimum; an example without a wrong output has no constraints."""
        return _truth(self, formulation, C)


@lru_cache
def _labelled(case: Training) -> Sequences:
    """Lengths 0 to T. Labels at random, or the best of a hidden w."""
    data = random_sequences(5, case.n, T, D, S, shortest=0, pool=20)
    random = np.random.default_rng(9)
    for i, end in enumerate(data.length):
        labels = all_labelings(S, int(end), T)
        labels = labels[allowed(case.constraints, labels)]
        data.y[i] = labels[random.integers(len(labels))]
    if case.separable:
        psi = every(data, case.model, case.way, case.constraints)
        w = random.normal(size=psi.psi.shape[2])
        best = (psi.psi @ w).argmax(axis=1)
        data = data._replace(y=psi.outputs[np.arange(case.n), best])
    return data


@lru_cache
def _every(case: Training) -> Every:
    return every(case.data(), case.model, case.way, case.constraints)


@lru_cache
def _truth(case: Training, formulation: str, C: float) -> Truth:
    found, zeros = case.every(), np.zeros(case.n, int)
    weights = found.several.astype(float)
    return solve_primal(formulation, found.psi, found.losses(case.loss), zeros, C, weights)


FINE = 2e-9
CLOSE = 1e-8
SOME = ("svm0", "svm1_margin", "svm2_slack")


def new_inputs(case: Case, other: Case) -> dict[str, PyTree]:
    """Inputs of another case, with the outputs of this one, as each machine reads them."""
    psi = case._replace(x=other.x, lists=other.lists).psi()
    return {
        "features": feature_inputs(other.lists, psi),
        "kernel": kernel_inputs(other.x @ case.x.T, other.lists, new=True),
        "joint": joint_inputs(psi @ case.psi().T, other.lists, new=True),
    }


@lru_cache
def optimum(formulation: str) -> Truth:
    return solve_primal(formulation, *random_case(1).listed(), C=10.0)


@pytest.mark.parametrize(
    ("name", "formulations"), [("features", (*FORMULATIONS,)), ("kernel", SOME), ("joint", SOME)]
)
def test_every_formulation_is_that_of_the_quadratic_program(
    x64: None, name: str, formulations: tuple[str, ...]
) -> None:
    """Features, K and L, and J are one machine: one optimum, with lists of several lengths."""
    case, other = random_case(1), random_case(3)
    problem, x = case.machine(name)
    fresh = new_inputs(case, other)[name]
    for formulation in formulations:
        truth = optimum(formulation)
        assert truth.feasible and truth.objective > 0.1
        solution = fit(problem, x, case.y, formulation, 10.0, tolerance=FINE, settings=NEWTON)
        assert_optimal(solution, truth, CLOSE)
        predicted = predict(problem, solution, fresh)
        scores = case._replace(x=other.x, lists=other.lists).scores(truth.w)
        wanted = [own[np.argmax(f)] for own, f in zip(other.lists, scores, strict=True)]
        np.testing.assert_array_equal(predicted, wanted)


@pytest.mark.parametrize("name", MACHINES)
def test_the_rules_of_a_problem_hold(x64: None, name: str) -> None:
    case = random_case(2)
    problem, x = case.machine(name)
    report = check_problem(problem, x, case.y, examples=4, draws=4)
    assert set(report.oracles.values()) == {"contenders"}


CLOSE_CHAINS = 1e-7


def trained(case, formulation, C, settings, *, bucketed=False, dtype="float64", **options):
    """(solution, inputs, problem)."""
    data, tolerance = case.data(), 2e-8 if dtype == "float64" else 1e-5
    problem = data.problem(
        case.model, case.way, loss=LOSSES[case.loss], dtype=dtype, constraints=case.constraints
    )
    x, y = data.inputs(case.way), data.y
    if bucketed:
        x, y = data.buckets(x, 1)
    options = {"tolerance": tolerance, "max_passes": 3000} | options
    return fit(problem, x, y, formulation, C, settings=settings, **options), x, problem


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("way", "settings", "formulation"),
    [
        ("kernel", ASCENT, "svm1_margin"),
        ("dense", ASCENT, "svm0"),
        ("sparse", FULL._replace(capacity=32), "svm1_slack"),
        pytest.param("dense", ASCENT, "svm2_slack", marks=pytest.mark.thorough),
    ],
)
def test_all_tokens_and_all_kinds_of_oracle(x64, way, settings, formulation):
    """Block ascent in two buckets. Degree-2 features are written down for the truth only."""
    case, cut = Training(way=way, separable=formulation == "svm0"), settings is ASCENT
    solution, x, problem = trained(case, formulation, 3.0, settings, bucketed=cut)
    truth = case.truth(formulation, 3.0)
    assert not cut or len(x.parts) == 2
    assert_optimal(solution, truth, CLOSE_CHAINS)
    x = case.data().inputs(way)
    assert_best(case, predict(problem, solution.weights, x), truth.w)


def assert_best(case, predicted, w):
    """Predictions are argmaxes of the truth's F (two planes may tie at the optimum)."""
    F, outputs = case.every().psi @ w, case.every().outputs
    place = (outputs == predicted[:, None]).all(axis=2).argmax(axis=1)
    rows = np.arange(len(place))
    assert (outputs[rows, place] == predicted).all()
    assert (F[rows, place] >= F.max(axis=1) - 1e-3 * np.abs(F).max()).all()


@pytest.mark.thorough
@pytest.mark.parametrize("formulation", ["svm1_margin", "svm2_slack"])
def test_triples_ends_pairs_constraints(x64, formulation):
    case = Training(model=RICH, loss="squares", constrained=True)
    assert not case.every().several.all()  # some have no other output at all
    # that rules of a loss of one's own are tried before a run is shown by one of them
    settings = ASCENT if formulation == "svm1_margin" else ASCENT._replace(checked_examples=0)
    solution, x, problem = trained(case, formulation, 3.0, settings)
    truth = case.truth(formulation, 3.0)
    assert_optimal(solution, truth, CLOSE_CHAINS)
    assert_best(case, predict(problem, solution.weights, x), truth.w)
