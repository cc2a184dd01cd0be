"""The labellings of a graph as a linear program, for SciPy's HiGHS.

    max  sum_v <nodes[v], b_v> + sum_e <pairs[e], b_e>
    s.t. sum_x b_v(x) = 1,  sum_y b_e(x, y) = b_a(x),  sum_x b_e(x, y) = b_b(y),  b >= 0,

e = (a, b): the program over the local polytope. With integers b_v its optimum is max F.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.graphs.potentials import GraphPotentials

METHODS = ("highs-ds", "highs-ipm")
_OUT_OF_TIME, _INFEASIBLE = 1, 2
"""What SciPy's linprog and milp call these ends."""


class LocalPolytope(NamedTuple):
    """min <cost, b> subject to matrix b = sums and 0 <= b <= most.

    Fields:
      cost: [V S + E S S] minus the potentials, nodes first; 0 of what is forbidden.
      most: 1, and 0 of what is forbidden. matrix: sparse. sums: of its rows. of_nodes: V S.
    """

    cost: np.ndarray
    most: np.ndarray
    matrix: Any
    sums: np.ndarray
    of_nodes: int


def local_polytope(graph: GraphPotentials) -> LocalPolytope:
    """The program of one graph, padded or not; potentials of -inf forbid."""
    import scipy.sparse

    V, E = int(graph.number_of_nodes), int(graph.number_of_edges)
    nodes, pairs = np.asarray(graph.nodes, float)[:V], np.asarray(graph.pairs, float)
    edges, S = np.asarray(graph.edges)[:E], nodes.shape[1]
    pairs = pairs[:E] if graph.kinds is None else pairs[np.asarray(graph.kinds)[:E]]
    one = scipy.sparse.kron(scipy.sparse.eye_array(V), np.ones((1, S)))
    first = scipy.sparse.kron(scipy.sparse.eye_array(E * S), np.ones((1, S)))
    second = scipy.sparse.kron(
        scipy.sparse.eye_array(E), scipy.sparse.kron(np.ones((1, S)), scipy.sparse.eye_array(S))
    )
    rows = np.arange(E * S)
    ends = [
        scipy.sparse.coo_array(
            (-np.ones(E * S), (rows, (edges[:, i, None] * S + np.arange(S)).ravel())),
            shape=(E * S, V * S),
        )
        for i in (0, 1)
    ]
    matrix = scipy.sparse.block_array([[one, None], [ends[0], first], [ends[1], second]])
    if not E:
        matrix = one
    gains = np.concatenate([nodes.ravel(), pairs.ravel()])
    allowed = gains > -np.inf
    sums = np.concatenate([np.ones(V), np.zeros(2 * E * S)])
    cost = -np.where(allowed, gains, 0)
    return LocalPolytope(cost, allowed.astype(float), matrix.tocsr(), sums, V * S)


def relaxed_optimum(program: LocalPolytope, method: str = "highs-ipm") -> float:
    """The optimum over the local polytope, by SciPy's linprog; -inf where nothing is allowed.

    Raises:
      RuntimeError: the solver has not found it.
    """
    from scipy.optimize import linprog

    bounds = np.stack([np.zeros_like(program.most), program.most], axis=1)
    found = linprog(
        program.cost, A_eq=program.matrix, b_eq=program.sums, bounds=bounds, method=method
    )
    return _value_of(found, "linprog")


def best_value(program: LocalPolytope, seconds: float = math.inf) -> float:
    """max F, by SciPy's milp; -inf where nothing is allowed, NaN where the time does not suffice.

    Args:
      seconds: at most.

    Raises:
      RuntimeError: the solver has not found it.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    sums: Any = program.sums  # its stubs want a number
    most: Any = program.most
    found = milp(
        program.cost,
        constraints=LinearConstraint(program.matrix, sums, sums),
        integrality=np.arange(len(program.cost)) < program.of_nodes,
        bounds=Bounds(0, most),
        options={"mip_rel_gap": 0, "time_limit": seconds},
    )
    return math.nan if found.status == _OUT_OF_TIME else _value_of(found, "milp")


def _value_of(found: Any, solver: str) -> float:
    if found.status == _INFEASIBLE:
        return -math.inf
    if not found.success:
        raise RuntimeError(f"{solver} has not found the optimum: {found.message}")
    return -float(found.fun)
