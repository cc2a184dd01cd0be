"""PGMax, set up for the graphs of this benchmark."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from jaxstruct.core.types import Array
from jaxstruct.graphs.potentials import GraphPotentials


def installed() -> bool:
    """Whether PGMax, and numba, which it imports, are there."""
    return all(importlib.util.find_spec(name) for name in ("pgmax", "numba"))


def _modules() -> tuple[Any, ...]:
    if not hasattr(jax.lib, "xla_bridge"):  # PGMax 0.6.1 asks it for the platform; jax has moved it
        backend = importlib.import_module("jax.extend.backend")
        bridge = SimpleNamespace(get_backend=backend.get_backend)
        jax.lib.xla_bridge = bridge  # pyright: ignore[reportAttributeAccessIssue]
    return tuple(
        importlib.import_module(f"pgmax.{name}") for name in ("fgraph", "fgroup", "infer", "vgroup")
    )


def peer_beliefs(
    graph: GraphPotentials, kind: str, passes: int, damping: float
) -> Callable[[Array], Array]:
    """(nodes [B, V, S]) -> beliefs [B, V, S] of PGMax after so many passes.

    Args:
      graph: its edges and tables are those of all B graphs. kind: "sum" or "max".
      damping: how much of an old message stays.

    Raises:
      ImportError: PGMax is missing.
    """
    fgraph, fgroup, infer, vgroup = _modules()
    V, S = graph.nodes.shape
    variables = vgroup.NDVarArray(num_states=S, shape=(V,))
    model = fgraph.FactorGraph(variable_groups=[variables])
    ends = [[variables[int(a)], variables[int(b)]] for a, b in np.asarray(graph.edges)]
    tables = fgroup.PairwiseFactorGroup(
        variables_for_factors=ends, log_potential_matrix=np.asarray(graph.pairs)
    )
    model.add_factors(tables)
    inferer = infer.build_inferer(model.bp_state, backend="bp")

    def of_one(nodes: Array) -> Array:
        arrays = inferer.init(evidence_updates={variables: nodes})
        temperature = 1.0 if kind == "sum" else 0.0
        arrays = inferer.run(arrays, num_iters=passes, damping=damping, temperature=temperature)
        return inferer.get_beliefs(arrays)[variables]

    return jax.vmap(of_one)
