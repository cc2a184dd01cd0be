"""Directed models as factor graphs: the slides' alarm, against the product of its tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.machines.bayesian_networks import Variable, network_factors
from jaxstruct.graphs.elimination import elimination
from jaxstruct.graphs.oracles.variable_elimination import best_labelling, marginals
from jaxstruct.graphs.text import factor_text
from tests.graphs.random_graphs import quick_jit
from tests.lib.refusals import refused

best_of, probabilities_of = quick_jit(best_labelling), quick_jit(marginals)
NO = ("no", "yes")
CAUSES = np.array([[[0.999, 0.001], [0.71, 0.29]], [[0.06, 0.94], [0.05, 0.95]]])


def alarm() -> list[Variable]:
    """P(B) P(E) P(A | B, E) P(R | E) P(N | A): burglary, earthquake, alarm, radio, neighbour."""
    return [
        Variable("B", NO, (), np.array([0.99, 0.01])),
        Variable("E", NO, (), np.array([0.98, 0.02])),
        Variable("A", NO, ("B", "E"), CAUSES),
        Variable("R", NO, ("E",), np.array([[1.0, 0.0], [0.1, 0.9]])),
        Variable("N", NO, ("A",), np.array([[0.95, 0.05], [0.2, 0.8]])),
    ]


def joint() -> np.ndarray:
    """[2, 2, 2, 2, 2] P(B, E, A, R, N), written down."""
    b, e, a, r, n = (one.table for one in alarm())
    found = np.zeros((2,) * 5)
    for B, E, A, R, N in itertools.product(range(2), repeat=5):
        found[B, E, A, R, N] = b[B] * e[E] * a[B, E, A] * r[E, R] * n[A, N]
    return found


@pytest.mark.parametrize("evidence", [{}, {"N": "yes"}, {"N": "yes", "R": "yes"}, {"R": "no"}])
def test_queries_by_evidence(x64, evidence: dict) -> None:
    graph = network_factors(alarm(), evidence, dtype="float64")
    potentials = graph.potentials
    plan = elimination(len(potentials.nodes), potentials.edges)
    table = joint()
    for name, value in evidence.items():
        axis, keep = "BEARN".index(name), np.arange(2) == NO.index(value)
        table = table * keep.reshape([2 if i == axis else 1 for i in range(5)])
    own, best = probabilities_of(potentials, plan), best_of(potentials, plan)
    np.testing.assert_allclose(np.exp(own.log_partition), table.sum(), rtol=1e-12)
    for v in range(5):
        others = tuple(i for i in range(5) if i != v)
        posterior = table.sum(axis=others) / table.sum()
        np.testing.assert_allclose(own.nodes[v, :2], posterior, atol=1e-12)
    assert tuple(best.labels[:5]) == np.unravel_index(table.argmax(), table.shape)
    np.testing.assert_allclose(np.exp(best.score), table.max(), rtol=1e-12)


def test_an_earthquake_explains_the_alarm_away(x64) -> None:
    def burglary(evidence: dict) -> float:
        potentials = network_factors(alarm(), evidence, dtype="float64").potentials
        plan = elimination(len(potentials.nodes), potentials.edges)
        return float(probabilities_of(potentials, plan).nodes[0, 1])

    assert burglary({}) == pytest.approx(0.01)
    assert burglary({"A": "yes", "R": "yes"}) < 0.04 < 0.5 < burglary({"A": "yes", "R": "no"})


def test_a_factor_graph_in_words() -> None:
    text = factor_text(network_factors(alarm()), list("BEARN"))
    assert text.splitlines() == [
        "5 nodes: B 2, E 2, A 2, R 2, N 2",
        "psi_0(B)", "psi_1(E)", "psi_2(B, E, A)", "psi_3(E, R)", "psi_4(A, N)",
    ]  # fmt: skip
    assert factor_text(network_factors(alarm())).splitlines()[3] == "psi_2(0, 1, 2)"
    with refused(r"names must be \[n\] = \[5\] names, got 2"):
        factor_text(network_factors(alarm()), ["B", "E"])


@pytest.mark.parametrize(
    ("variables", "evidence", "message"),
    [
        ([Variable("B", NO, ("X",), [0.5, 0.5])], {}, "a parent of B is 'X'; choose one of"),
        ([Variable("B", NO, (), [0.5, 0.6])], {}, r"the table of B must hold probabilities .*1.1"),
        ([Variable("B", NO, (), [1.5, -0.5])], {}, "the table of B must hold probabilities"),
        ([Variable("B", NO, (), [0.2, 0.3, 0.5])], {}, r"the table of B must be of shape \(2,\)"),
        (alarm(), {"X": "yes"}, "a variable of the evidence is 'X'"),
        (alarm(), {"B": "maybe"}, r"the value of B is 'maybe'; choose one of"),
        (alarm(), {"E": "no", "R": "yes"}, "leave no output"),
    ],
)
def test_refusals(variables: list, evidence: dict, message: str) -> None:
    refused(message, lambda: network_factors(variables, evidence))
