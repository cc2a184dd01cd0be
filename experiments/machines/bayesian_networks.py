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

from jaxstruct.core.checks import as_numbers, text_of
from jaxstruct.graphs.factors import FactorGraph, factor_graph

SUM = 1e-6
"""How far a distribution may sum to something else than 1."""


class Variable(NamedTuple):
    """One node of a directed model.

    Fields:
      name: of the variable. values: the names of its values.
      parents: names of the variables that it depends on, all of them given before it.
      table: P(value | parents), an axis for each parent in order, the last one for the variable.
    """

    name: str
    values: Sequence[str]
    parents: Sequence[str]
    table: np.ndarray


def _place(what: str, one: str, known: Sequence[str]) -> int:
    """Where a name stands among those known."""
    if one not in known:
        raise ValueError(f"{what} is {text_of(one)}; choose one of {text_of(list(known))}")
    return list(known).index(one)


def _log_table(variable: Variable, shape: tuple[int, ...]) -> np.ndarray:
    name = f"the table of {variable.name}"
    table = as_numbers(name, variable.table, f"of shape {shape}")
    if table.shape != shape:
        raise ValueError(f"{name} must be of shape {shape}, got {table.shape}")
    sums = table.sum(axis=-1)
    if not (table >= 0).all() or not (np.abs(sums - 1) <= SUM).all():
        raise ValueError(
            f"{name} must hold probabilities >= 0 that sum to 1 along the last axis, got sums "
            f"{text_of(sums.tolist())}"
        )
    with np.errstate(divide="ignore"):
        return np.log(table)


def network_factors(
    variables: Sequence[Variable],
    evidence: Mapping[str, str] | None = None,
    *,
    dtype: str = "float32",
) -> FactorGraph:
    """The factor graph of a directed model under evidence; see the module.

    Args:
      variables: nodes are numbered in their order.
      evidence: variable -> observed value. Observed nodes keep one label that is not forbidden.
      dtype: "float32" or "float64".

    Raises:
      ValueError: a parent does not come before its child, a table is of another shape or holds no
        distributions, evidence names no variable or value, or is seen to be impossible.
    """
    names = [one.name for one in variables]
    sizes = [len(one.values) for one in variables]
    factors: list[tuple[tuple[int, ...], np.ndarray]] = []
    for number, one in enumerate(variables):
        parents = (_place(f"a parent of {one.name}", of, names[:number]) for of in one.parents)
        scope = (*parents, number)
        factors.append((scope, _log_table(one, tuple(sizes[v] for v in scope))))
    for name, value in (evidence or {}).items():
        number = _place("a variable of the evidence", name, names)
        seen = _place(f"the value of {name}", value, variables[number].values)
        factors.append(((number,), np.where(np.arange(sizes[number]) == seen, 0, -np.inf)))
    return factor_graph(sizes, factors, dtype=dtype)
