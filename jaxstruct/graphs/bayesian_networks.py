"""Directed graphical models: P(y) = prod_i P(y_i | pa(y_i)), as factor graphs.

Each conditional distribution becomes one table log P(y_i | pa(y_i)) over the node and its parents;
evidence cuts it down to the observed values. So log Z of the factor graph is log P(evidence), its
marginals are posteriors, and its best labelling is the most probable explanation (the slides'
"Directed Graphical Models": P(B) P(E) P(A | B, E) P(R | E) P(N | A)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, as_numbers, check_record, text_of
from jaxstruct.graphs.factors import FactorGraph, factor_graph

_SUM = 1e-6
"""How far a distribution may sum to something else than 1."""


class Variable(NamedTuple):
    """One node of a directed model.

    Fields:
      name: of the variable. values: the names of its values.
      parents: names of the variables that it depends on.
      table: P(value | parents), an axis for each parent in order, the last one for the variable.
    """

    name: str
    values: Sequence[str]
    parents: Sequence[str]
    table: np.ndarray


class BayesianNetwork(NamedTuple):
    """A directed model; `bayesian_network` checks it.

    Fields:
      variables: in the order given, which is the order of the nodes of its factor graph.
    """

    variables: tuple[Variable, ...]

    def number(self, name: str) -> int:
        """The number of a variable.

        Raises:
          ValueError: there is no such variable.
        """
        names = [one.name for one in self.variables]
        if name not in names:
            raise ValueError(f"no variable is {text_of(name)}; choose one of {text_of(names)}")
        return names.index(name)

    def value(self, name: str, value: str) -> int:
        """The number of a value of a variable.

        Raises:
          ValueError: there is no such variable or value.
        """
        values = list(self.variables[self.number(name)].values)
        if value not in values:
            raise ValueError(
                f"{name} has no value {text_of(value)}; choose one of {text_of(values)}"
            )
        return values.index(value)


def _check_table(variable: Variable, shape: tuple[int, ...]) -> np.ndarray:
    name = f"the table of {variable.name}"
    table = as_numbers(name, variable.table, f"of shape {shape}")
    if table.shape != shape:
        raise ValueError(
            f"{name} must be of shape {shape}, an axis for each of the parents "
            f"{list(variable.parents)} and the last one for the variable, got {table.shape}"
        )
    sums = table.sum(axis=-1)
    if not (table >= 0).all() or not (np.abs(sums - 1) <= _SUM).all():
        raise ValueError(
            f"{name} must hold probabilities >= 0 that sum to 1 along the last axis, got sums "
            f"{text_of(sums.tolist())}"
        )
    return table


def _check_acyclic(network: BayesianNetwork) -> None:
    left = {one.name: set(one.parents) for one in network.variables}
    while left:
        roots = [name for name, parents in left.items() if not parents & set(left)]
        if not roots:
            raise ValueError(
                f"the variables {text_of(sorted(left))} depend on one another in a cycle: a "
                "directed model has none"
            )
        for name in roots:
            del left[name]


def bayesian_network(variables: Sequence[Variable]) -> BayesianNetwork:
    """A directed model, checked.

    Raises:
      ValueError: no variables, a name twice, an unknown parent, a cycle, or a table of another
        shape or that does not hold distributions.
    """
    given = as_list("variables", variables, "a list of Variable")
    if not given:
        raise ValueError("variables is empty: a model needs at least one variable")
    for i, one in enumerate(given):
        check_record(f"variables[{i}]", one, Variable, "jaxstruct.graphs.Variable")
    names = [one.name for one in given]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"variables names {text_of(twice[0])} twice")
    network = BayesianNetwork(tuple(given))
    checked = []
    for one in given:
        sizes = [len(given[network.number(parent)].values) for parent in one.parents]
        table = _check_table(one, (*sizes, len(one.values)))
        checked.append(one._replace(table=table))
    _check_acyclic(network)
    return BayesianNetwork(tuple(checked))


def network_factors(
    network: BayesianNetwork,
    evidence: Mapping[str, str] | None = None,
    *,
    dtype: str = "float32",
) -> FactorGraph:
    """The factor graph of a directed model under evidence; see the module.

    Args:
      network: of `bayesian_network`.
      evidence: variable -> observed value. Observed nodes keep one label that is not forbidden.
      dtype: "float32" or "float64".

    Raises:
      ValueError: evidence names no variable or value, or is seen to be impossible.
    """
    check_record("network", network, BayesianNetwork, "bayesian_network")
    sizes = [len(one.values) for one in network.variables]
    factors = []
    for number, one in enumerate(network.variables):
        scope = (*(network.number(parent) for parent in one.parents), number)
        with np.errstate(divide="ignore"):
            factors.append((scope, np.log(one.table)))
    for name, value in (evidence or {}).items():
        number = network.number(name)
        seen = np.arange(sizes[number]) == network.value(name, value)
        factors.append(((number,), np.where(seen, 0, -np.inf)))
    return factor_graph(sizes, factors, dtype=dtype)
