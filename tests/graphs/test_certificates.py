"""Certificates of graph training, held against the truth by enumeration.

Every run draws five graphs of at most four nodes, trains with one oracle and one formulation, and
writes down the primal of the weights and the optimum from all labellings; for the relaxation of two
labels from all vertices of the local polytope as well.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.graphs.marginals import marginal_outputs
from tests.graphs.structure_cases import Graphs, Options, flat, random_graphs
from tests.lib.thorough import repeats
from tests.solvers.cases import of_slack
from tests.truth.formulations import primal_value, problem
from tests.truth.local_polytope import vertices
from tests.truth.quadratic_program import solve_primal

TOLERANCE = 1e-3
FEW, MOST_ROUNDS = 6, 20
KINDS = ("complete", "tree", "cycle", "any", "complete")
"""The first one has four nodes, so that all runs are of one padded shape."""


class Written(NamedTuple):
    """A training problem with every constraint: see `tests.truth.formulations`."""

    features: np.ndarray
    losses: np.ndarray
    truths: list[int]

    def primal(self, formulation: str, w: np.ndarray, C: float) -> float:
        """P(w)."""
        return primal_value(formulation, w, *self, C)

    def optimum(self, formulation: str, C: float, near: np.ndarray) -> float:
        """The least P, by the independent solver on the constraints that bind.

        Those that weights `near` the optimum violate most come first, then what the solver's own
        weights violate, until that is nothing.
        """
        rows = np.arange(len(self.truths))
        held = np.array(self.truths)[:, None]
        w, least = near, -np.inf
        for _ in range(MOST_ROUNDS):
            data = problem(formulation, *self, C)
            worst = np.argsort(-(data.b - data.s * (data.dpsi @ w)), axis=1, kind="stable")
            held = np.concatenate([held, worst[:, :FEW]], axis=1)
            part = Written(
                self.features[rows[:, None], held], self.losses[rows[:, None], held],
                [0] * len(rows),
            )  # fmt: skip
            truth = solve_primal(formulation, *part, C)
            w, least = truth.w, truth.objective
            if self.primal(formulation, w, C) <= least + 1e-7 * max(1, abs(least)):
                return least
        raise RuntimeError("constraints are still violated")


def drawn_graphs(seed: int, S: int) -> Graphs:
    """Five graphs, the first one complete, of four nodes."""
    draw = itertools.count(100 * seed)
    while True:
        first = random_graphs(next(draw), 1, KINDS[0], Options(), S=S)
        if len(first.y[0]) == 4:
            break
    parts = [first, *(random_graphs(next(draw), 1, kind, Options(), S=S) for kind in KINDS[1:])]
    lists = (sum((part[field] for part in parts), []) for field in range(5))
    return Graphs(*lists, S, Options())


def _filled_up(rows: list[tuple[np.ndarray, np.ndarray]], truths: list[int]) -> Written:
    """Examples of fewer outputs repeat one of them that is not the true one."""
    most, features, losses = max(len(psi) for psi, _ in rows), [], []
    for (psi, costs), place in zip(rows, truths, strict=True):
        other = (place + 1) % len(psi)
        fill = np.r_[np.arange(len(psi)), np.full(most - len(psi), other)]
        features.append(psi[fill])
        losses.append(costs[fill])
    return Written(np.stack(features), np.stack(losses), truths)


def with_labellings(given: Graphs) -> Written:
    """Under the Hamming loss."""
    n = len(given.y)
    rows = [(given.psi(i)[1], given.losses(i, "hamming")) for i in range(n)]
    return _filled_up(rows, [given.place(i) for i in range(n)])


def with_vertices(given: Graphs) -> Written:
    """The same of the relaxation of two labels."""
    rows, truths = [], []
    for i, y in enumerate(given.y):
        nodes, pairs = vertices(len(y), given.edges[i])
        costs = np.sum(nodes * (1 - np.eye(2)[y]), axis=(1, 2))
        rows.append((given.psi_of(i, nodes, pairs), costs))
        truths.append(int(np.argmin(costs)))
    return _filled_up(rows, truths)


def _trained(given: Graphs, oracle: str, formulation: str, C: float) -> js.Solution:
    x, y = given.inputs(), given.outputs
    if oracle == "relaxed":
        y = marginal_outputs(x, y, given.S)
    problem = given.problem(inference=oracle, dtype="float32", passes=20)
    return js.fit(problem, x, y, formulation, C, tolerance=TOLERANCE, max_passes=200)


def check_run(seed: int, oracle: str, formulation: str, S: int, C: float = 4.0) -> js.Solution:
    """Train once; raise AssertionError where the certificate says what is not so."""
    given = drawn_graphs(seed, S)
    solution = _trained(given, oracle, formulation, C)
    at_end, best = (of_slack(solution), flat(solution.weights))
    certificate, solved = solution.certificate, solution.status.solved
    labellings = with_labellings(given)
    true, exact = (labellings.primal(formulation, w, C) for w in (best, at_end))
    room = 1e-4 * max(1, abs(true))

    assert solution.primal >= true - room, "P is below the true one"
    assert certificate.primal >= exact - room, "the last P is below the true one"
    assert (certificate.oracle == "none") == (oracle in ("modes", "propagation"))
    if oracle != "relaxed":
        if certificate.oracle == "exact":
            assert abs(certificate.primal - exact) <= room, "the last P is not the true one"
        optimum = labellings.optimum(formulation, C, best)
        assert certificate.primal_found <= exact + room, "P as found is above the true one"
        assert solution.dual <= optimum + room, "D is above the optimum"
        assert solution.gap >= true - optimum - room, "the gap is less than what w is off by"
        assert not solved or true - optimum <= TOLERANCE * abs(true) + room, "not converged"
        assert not solved or oracle == "reweighted", "certified without a bound"
        return solution
    assert solution.dual <= solution.primal + room, "the gap is negative"
    if formulation != "svm2_slack" and np.array_equal(best, at_end):
        read = np.argmax(labellings.features @ best, axis=1)
        risk = np.mean(np.take_along_axis(labellings.losses, read[:, None], axis=1))
        assert risk <= certificate.risk_bound + room, "the risk is not bounded"
    if S == 2 and formulation == "svm1_margin":  # the others are not linear in marginals
        points = with_vertices(given)
        relaxed, optimum = points.primal(formulation, best, C), points.optimum(formulation, C, best)
        assert solution.primal >= relaxed - room, "P is below that of the relaxation"
        assert certificate.primal_found <= points.primal(formulation, at_end, C) + room
        assert solution.dual <= optimum + room, "D is above the optimum of the relaxation"
        assert not solved or relaxed - optimum <= TOLERANCE * abs(relaxed) + room
    return solution


SEEDS = repeats(10, 4)


@pytest.mark.parametrize("oracle", ["relaxed", "reweighted", "modes"])
def test_certificates_never_lie(oracle: str) -> None:
    ends = [check_run(seed, oracle, "svm1_margin", 2).status.name for seed in SEEDS]
    assert set(ends) <= {"CONVERGED", "INEXACT_ORACLE", "PASS_LIMIT", "ROUNDING"}
    assert ("CONVERGED" in ends) == (oracle != "modes")
    assert oracle == "relaxed" or "INEXACT_ORACLE" in ends
