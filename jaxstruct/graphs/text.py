"""A factor graph in words: one line a table."""

from __future__ import annotations

from collections.abc import Sequence

from jaxstruct.core.checks import as_list
from jaxstruct.graphs.factors import FactorGraph


def factor_text(graph: FactorGraph, names: Sequence[str] | None = None) -> str:
    """The tables of a factor graph, a line each, and its nodes on the first line.

    Args:
      graph: of `factor_graph`.
      names: [n] of the nodes; None for their numbers.

    Returns:
      For the slides' alarm network, for instance:

          5 nodes: B 2, E 2, A 2, R 2, N 2
          psi_0(B)
          psi_2(B, E, A)

    Raises:
      ValueError: as many names as nodes there are not.
    """
    n = len(graph.labels)
    names = [str(i) for i in range(n)] if names is None else as_list("names", names, "[n] names")
    if len(names) != n:
        raise ValueError(f"names must be [n] = [{n}] names, got {len(names)}")
    sizes = ", ".join(f"{name} {size}" for name, size in zip(names, graph.labels, strict=True))
    lines = [f"{n} node{'s' * (n != 1)}: {sizes}"]
    scopes = [", ".join(names[v] for v in scope) for scope in graph.scopes]
    return "\n".join(lines + [f"psi_{number}({scope})" for number, scope in enumerate(scopes)])
