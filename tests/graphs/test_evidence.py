"""Directed models as factor graphs: the slides' alarm, against the product of its tables."""

from __future__ import annotations

import numpy as np
import pytest

from jaxstruct.graphs.elimination import elimination
from jaxstruct.graphs.factors import FactorGraph, factor_graph
from jaxstruct.graphs.oracles.variable_elimination import best_labelling, marginals
from tests.graphs.random_graphs import quick_jit
from tests.lib.refusals import refused

best_of, probabilities_of = quick_jit(best_labelling), quick_jit(marginals)
NAMES = "BEARN"
CAUSES = np.array([[[0.999, 0.001], [0.71, 0.29]], [[0.06, 0.94], [0.05, 0.95]]])
ALARM = {
    "B": np.array([0.99, 0.01]), "E": np.array([0.98, 0.02]), "BEA": CAUSES,
    "ER": np.array([[1.0, 0.0], [0.1, 0.9]]), "AN": np.array([[0.95, 0.05], [0.2, 0.8]]),
}  # fmt: skip
"""P(B) P(E) P(A | B, E) P(R | E) P(N | A): burglary, earthquake, alarm, radio, neighbour."""


def alarm(evidence: dict[str, int], dtype: str = "float32") -> FactorGraph:
    """Tables of logarithms, and of evidence those that forbid the other value."""
    tables = [*ALARM.items(), *((name, np.eye(2)[value]) for name, value in evidence.items())]
    with np.errstate(divide="ignore"):
        logarithms = [(tuple(map(NAMES.index, scope)), np.log(table)) for scope, table in tables]
    return factor_graph([2] * 5, logarithms, dtype=dtype)


@pytest.mark.parametrize("evidence", [{}, {"N": 1}, {"N": 1, "R": 1}, {"R": 0}])
def test_queries_by_evidence(x64, evidence: dict) -> None:
    potentials = alarm(evidence, "float64").potentials
    plan = elimination(len(potentials.nodes), potentials.edges)
    given = (np.eye(2)[value] for value in evidence.values())
    scopes = ",".join([*ALARM, *evidence])
    table = np.einsum(f"{scopes}->{NAMES}", *ALARM.values(), *given)
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
        potentials = alarm(evidence, "float64").potentials
        plan = elimination(len(potentials.nodes), potentials.edges)
        return float(probabilities_of(potentials, plan).nodes[0, 1])

    assert burglary({}) == pytest.approx(0.01)
    assert burglary({"A": 1, "R": 1}) < 0.04 < 0.5 < burglary({"A": 1, "R": 0})
    refused("leave no output", alarm, {"E": 0, "R": 1})
