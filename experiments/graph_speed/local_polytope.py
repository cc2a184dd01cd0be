"""The labellings of a graph as a linear program, for SciPy's HiGHS.

    max  sum_v <nodes[v], b_v> + sum_e <pairs[e], b_e>
    s.t. sum_x b_v(x) = 1,  sum_y b_e(x, y) = b_a(x),  sum_x b_e(x, y) = b_b(y),  b >= 0,

e = (a, b): the program over the local polytope. With integers b its optimum is max F.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxstruct.graphs.potentials import GraphPotentials

METHODS = ("highs-ds", "highs-ipm")


class LocalPolytope(NamedTuple):
    """min <cost, b> subject to matrix b = sums and 0 <= b <= 1.

    Fields:
      cost: [V S + E S S] minus the potentials, nodes first. matrix: sparse. sums: of its rows.
    """

    cost: np.ndarray
    matrix: Any
    sums: np.ndarray


def local_polytope(graph: GraphPotentials) -> LocalPolytope:
    """The program of one graph with a table for each edge, potentials finite.

    Raises:
      ValueError: a potential is not finite.
    """
    import scipy.sparse

    nodes, pairs = (np.asarray(leaf, np.float64) for leaf in (graph.nodes, graph.pairs))
    edges = np.asarray(graph.edges)
    if graph.kinds is not None:
        pairs = pairs[np.asarray(graph.kinds)]
    if not (np.isfinite(nodes).all() and np.isfinite(pairs).all()):
        raise ValueError("potentials must be finite: a linear program has no costs of -inf")
    (V, S), E = nodes.shape, len(edges)
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
    sums = np.concatenate([np.ones(V), np.zeros(2 * E * S)])
    return LocalPolytope(-np.concatenate([nodes.ravel(), pairs.ravel()]), matrix.tocsr(), sums)


def relaxed_optimum(program: LocalPolytope, method: str = "highs-ipm") -> float:
    """The optimum over the local polytope, by SciPy's linprog.

    Raises:
      RuntimeError: the solver has not found it.
    """
    from scipy.optimize import linprog

    found = linprog(
        program.cost, A_eq=program.matrix, b_eq=program.sums, bounds=(0, 1), method=method
    )
    if not found.success:
        raise RuntimeError(f"linprog has not found the optimum: {found.message}")
    return -float(found.fun)


def best_value(program: LocalPolytope) -> float:
    """max F, by SciPy's milp.

    Raises:
      RuntimeError: the solver has not found it.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    sums: Any = program.sums  # its stubs want a number
    found = milp(
        program.cost,
        constraints=LinearConstraint(program.matrix, sums, sums),
        integrality=np.ones(len(program.cost)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0},
    )
    if not found.success:
        raise RuntimeError(f"milp has not found the optimum: {found.message}")
    return -float(found.fun)
