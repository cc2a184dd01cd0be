"""Certificates of graph training, held against the truth by enumeration.

Every run draws five graphs of at most four nodes, trains with one oracle, and
writes down the primal of the weights and the optimum from all labellings; for the relaxation of two
labels from all vertices of the local polytope as well.
"""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.padding import padded
from jaxstruct.graphs.marginals import marginal_outputs
from tests.graphs.structure_cases import Graphs, Options, Written, filled_up, flat, random_graphs
from tests.solvers.cases import of_slack
from tests.truth.formulations import primal_value, problem
from tests.truth.local_polytope import vertices
from tests.truth.quadratic_program import solve_primal

TOLERANCE, MARGIN, C = 1e-3, "svm1_margin", 4.0
"""Of others the loss is not linear in marginals."""
FEW, MOST_ROUNDS = 6, 20
KINDS = ("complete", "tree", "cycle", "any", "complete")
"""The first one has four nodes, so that all runs are of one padded shape."""


def optimum(written: Written, near: np.ndarray) -> float:
    """The least P, by the independent solver on the constraints that bind.

    Those that weights `near` the optimum violate most come first, then what the solver's own
    weights violate, until that is nothing.
    """
    rows = np.arange(len(written.truths))
    held = np.array(written.truths)[:, None]
    w = near
    for _ in range(MOST_ROUNDS):
        data = problem(MARGIN, *written, C)
        worst = np.argsort(-(data.b - data.s * (data.dpsi @ w)), axis=1, kind="stable")
        held = np.concatenate([held, worst[:, :FEW]], axis=1)
        parts = (each[rows[:, None], held] for each in written[:2])
        truth = solve_primal(MARGIN, *parts, [0] * len(rows), C)
        w, least = truth.w, truth.objective
        if primal_value(MARGIN, w, *written, C) <= least + 1e-7 * max(1, abs(least)):
            return least
    raise RuntimeError("constraints are still violated")


def drawn_graphs(seed: int) -> Graphs:
    """Five graphs, the first one complete, of four nodes."""
    draw = itertools.count(100 * seed)
    while True:
        first = random_graphs(next(draw), 1, KINDS[0])
        if len(first.y[0]) == 4:
            break
    parts = [first, *(random_graphs(next(draw), 1, kind) for kind in KINDS[1:])]
    lists = (sum((part[field] for part in parts), []) for field in range(5))
    return Graphs(*lists, 2, Options())


def with_vertices(given: Graphs) -> Written:
    """The same of the relaxation of two labels."""
    rows, truths = [], []
    for i, y in enumerate(given.y):
        nodes, pairs = vertices(len(y), given.edges[i])
        costs = np.sum(nodes * (1 - np.eye(2)[y]), axis=(1, 2))
        rows.append((given.psi_of(i, nodes, pairs), costs))
        truths.append(int(np.argmin(costs)))
    return filled_up(rows, truths)


def _trained(given: Graphs, oracle: str) -> js.Solution:
    x, y = given.inputs(), given.outputs
    if oracle == "relaxed":
        y = marginal_outputs(x, y, given.S)
    problem = given.problem(inference=oracle, dtype="float32", passes=20)
    return js.fit(problem, x, y, MARGIN, C, tolerance=TOLERANCE, max_passes=200)


def check_run(seed: int, oracle: str) -> js.Solution:
    """Train once; raise AssertionError where the certificate says what is not so."""
    given = drawn_graphs(seed)
    solution = _trained(given, oracle)
    at_end, best = (of_slack(solution), flat(solution.weights))
    certificate, solved = solution.certificate, solution.status.solved
    labellings = given.enumerated("hamming")
    true, exact = (primal_value(MARGIN, w, *labellings, C) for w in (best, at_end))
    room = 1e-4 * max(1, abs(true))

    assert solution.primal >= true - room, "P is below the true one"
    assert certificate.primal >= exact - room, "the last P is below the true one"
    assert certificate.oracle != "none"
    if oracle != "relaxed":
        if certificate.oracle == "exact":
            assert abs(certificate.primal - exact) <= room, "the last P is not the true one"
        least = optimum(labellings, best)
        assert certificate.primal_found <= exact + room, "P as found is above the true one"
        assert solution.dual <= least + room, "D is above the optimum"
        assert solution.gap >= true - least - room, "the gap is less than what w is off by"
        assert not solved or true - least <= TOLERANCE * abs(true) + room, "not converged"
        return solution
    assert solution.dual <= solution.primal + room, "the gap is negative"
    if np.array_equal(best, at_end):
        read = np.argmax(labellings.features @ best, axis=1)
        risk = np.mean(np.take_along_axis(labellings.losses, read[:, None], axis=1))
        assert risk <= certificate.risk_bound + room, "the risk is not bounded"
    points = with_vertices(given)
    relaxed, found = (primal_value(MARGIN, w, *points, C) for w in (best, at_end))
    least = optimum(points, best)
    assert solution.primal >= relaxed - room, "P is below that of the relaxation"
    assert certificate.primal_found <= found + room
    assert solution.dual <= least + room, "D is above the optimum of the relaxation"
    assert not solved or relaxed - least <= TOLERANCE * abs(relaxed) + room
    return solution


@pytest.mark.thorough
@pytest.mark.parametrize("oracle", ["relaxed", "reweighted"])
def test_certificates_never_lie(oracle: str) -> None:
    ends = [check_run(seed, oracle).status.name for seed in range(6)]
    assert set(ends) <= {"CONVERGED", "INEXACT_ORACLE", "PASS_LIMIT", "ROUNDING"}
    assert "CONVERGED" in ends
    assert oracle == "relaxed" or "INEXACT_ORACLE" in ends


def test_modes_bound_nothing() -> None:
    """`test_planted_mistakes` trains with such an oracle: nothing is proved."""
    given = drawn_graphs(0)
    problem = given.problem(inference="modes", dtype="float32")
    x, y = padded(problem.padding, given.inputs(), given.outputs)
    theta = jax.vmap(problem.model.potentials, (None, 0))
    search = jax.vmap(problem.oracles.loss_augmented_decode, (0, 0, None))
    found = jax.jit(lambda w: search(theta(w, x), y, 1.0))(problem.initial_weights)
    assert np.isposinf(found.bound).all()
