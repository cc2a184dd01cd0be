"""Training on candidates and label sequences against an independent QP with all constraints."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest

from jaxstruct import Settings, check_problem, fit, predict
from jaxstruct.chains.structure import Constraints, chain_inputs
from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.strings.inputs import feature_inputs, kernel_inputs
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
from tests.strings.candidate_cases import Case, random_case
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
    """Which training set: its size, model, kind of tokens and loss."""

    model: Model = Model()
    way: str = "dense"
    loss: str = "hamming"
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
    """Lengths 0 to T. Labels at random."""
    data = random_sequences(5, case.n, T, D, S, shortest=0, pool=20)
    random = np.random.default_rng(9)
    for i, end in enumerate(data.length):
        labels = all_labelings(S, int(end), T)
        labels = labels[allowed(case.constraints, labels)]
        data.y[i] = labels[random.integers(len(labels))]
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
    }


@lru_cache
def optimum(formulation: str) -> Truth:
    return solve_primal(formulation, *random_case(1).listed(), C=10.0)


@pytest.mark.parametrize(
    ("name", "formulations"), [("features", (*FORMULATIONS,)), ("kernel", SOME)]
)
def test_every_formulation_is_that_of_the_quadratic_program(
    x64: None, name: str, formulations: tuple[str, ...]
) -> None:
    """Features, and K and L, are one machine: one optimum, with lists of several lengths.

    J is one of `certificate_runs`.
    """
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


def test_the_rules_of_a_problem_hold(x64: None) -> None:
    """Of sparse features; the other machines are trained to the optimum."""
    case = random_case(2)
    problem, x = case.machine("sparse")
    report = check_problem(problem, x, case.y, examples=4, draws=4)
    assert set(report.oracles.values()) == {"contenders"}


CLOSE_CHAINS = 1e-7


def check_optimum(case, x, y, formulation, settings):
    """Of a training on inputs as the solver takes them; predictions are padded."""
    options = {"loss": LOSSES[case.loss], "constraints": case.constraints}
    problem = case.data().problem(case.model, case.way, **options)
    options = {"tolerance": 2e-8, "max_passes": 3000, "settings": settings}
    solution = fit(problem, x, y, formulation, 3.0, **options)
    truth, found = case.truth(formulation, 3.0), predict(problem, solution.weights, x)
    assert_optimal(solution, truth, CLOSE_CHAINS)
    if isinstance(found, Ragged):
        found = found.padded(np.arange(case.n), T, -1)
    assert_best(case, found, truth.w)


@pytest.mark.thorough
def test_ragged_kernel_tokens(x64):
    """Degree-2 features are written down for the truth only."""
    case = Training(way="kernel")
    data, m = case.data(), len(case.data().pool)
    real, offsets = data.places >= 0, np.concatenate([[0], np.cumsum(data.length)])
    rows, anchors = (leaf[real] for leaf in data.inputs("kernel").features)
    tokens = KernelTokens(Ragged(rows, offsets), Ragged(anchors, offsets, m))
    y = Ragged(data.y[real], offsets, -1)
    check_optimum(case, chain_inputs(tokens), y, "svm1_margin", ASCENT)


def assert_best(case, predicted, w):
    """Predictions are argmaxes of the truth's F (two planes may tie at the optimum)."""
    F, outputs = case.every().psi @ w, case.every().outputs
    place = (outputs == predicted[:, None]).all(axis=2).argmax(axis=1)
    rows = np.arange(len(place))
    assert (outputs[rows, place] == predicted).all()
    assert (F[rows, place] >= F.max(axis=1) - 1e-3 * np.abs(F).max()).all()


@pytest.mark.thorough
def test_triples_ends_pairs_constraints(x64):
    """Some examples have no other output at all."""
    case = Training(model=RICH, loss="squares", constrained=True)
    assert not case.every().several.all()
    settings = ASCENT._replace(checked_examples=0)
    data = case.data()
    check_optimum(case, data.inputs("dense"), data.y, "svm2_slack", settings)
