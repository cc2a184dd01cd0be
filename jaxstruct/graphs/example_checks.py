"""What `graph_labelling` refuses before anything compiles: values of the examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.core.checks import as_array, check_integers, check_record, check_sparse
from jaxstruct.core.spec import checked_lengths
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.graphs.elimination import MOST_ENTRIES, Elimination
from jaxstruct.graphs.inputs import GraphInput
from jaxstruct.graphs.oracles.enumeration import number_of_labellings


def _rows_of(name: str, d: int, rows: PyTree, option: str) -> tuple[int, int]:
    """(n, R) of features [n, R, d], dense or sparse."""
    if not isinstance(rows, SparseFeatures):
        shape = np.shape(rows)
        if len(shape) != 3 or shape[2] != d:
            raise ValueError(f"{name} must be [n, rows, {option} = {d}], got shape {shape}")
        return shape[:2]
    indices, values = np.asarray(rows.indices), np.asarray(rows.values)
    check_sparse(name, indices, values, d, "[n, rows, m]")
    return indices.shape[:2]


def _check_edges(inputs: GraphInput, n: int, nodes: np.ndarray) -> np.ndarray:
    """[n] the number of edges of each graph."""
    edges = np.asarray(inputs.edges)
    check_integers("inputs.edges", edges)
    if edges.ndim != 3 or edges.shape[0] != n or edges.shape[2] != 2:
        raise ValueError(f"inputs.edges must be [n, E, 2] = [{n}, E, 2], got shape {edges.shape}")
    E = edges.shape[1]
    counts = checked_lengths("inputs.number_of_edges", inputs.number_of_edges, n, 0, E)
    real = np.arange(E) < counts[:, None]
    low, high = edges.min(axis=2), edges.max(axis=2)
    wrong = np.argwhere(real & ((low < 0) | (high >= nodes[:, None]) | (low == high)))
    if wrong.size:
        i, e = wrong[0]
        raise ValueError(
            f"inputs.edges[{i}, {e}] is {edges[i, e].tolist()}: expected two different nodes in "
            f"0..{nodes[i] - 1}"
        )
    return counts


def _check_edge_parts(sizes: Any, inputs: GraphInput, n: int) -> None:
    """Features and kinds of edges, which the options of the problem ask for."""
    E, p, K = np.shape(inputs.edges)[1], sizes.edge_features, sizes.edge_kinds
    if (inputs.edge_features is None) != (p == 0):
        has = "none" if inputs.edge_features is None else "some"
        raise ValueError(
            f"inputs.edge_features: the problem has number_of_edge_features = {p}, the inputs have "
            f"{has}: give both or neither"
        )
    if p:
        found = _rows_of("inputs.edge_features", p, inputs.edge_features, "number_of_edge_features")
        if found != (n, E):
            raise ValueError(
                f"inputs.edge_features must be [n, E, ..] = [{n}, {E}, ..], got {found}"
            )
    if inputs.kinds is None:
        if K > 1:
            raise ValueError(f"inputs.kinds is None, but the problem has edge_kinds = {K}")
        return
    kinds = np.asarray(inputs.kinds)
    check_integers("inputs.kinds", kinds, (n, E))
    real = np.arange(E) < np.asarray(inputs.number_of_edges)[:, None]
    wrong = np.argwhere(real & ((kinds < 0) | (kinds >= K)))
    if wrong.size:
        i, e = wrong[0]
        raise ValueError(
            f"inputs.kinds[{i}, {e}] is {kinds[i, e]}, but the problem has edge_kinds = {K}: "
            "raise it"
        )


def _check_inference(sizes: Any, inference: str, inputs: GraphInput, V: int) -> None:
    """What the oracle asks for."""
    if inference == "enumeration":
        number_of_labellings(V, sizes.labels)
    if inference != "elimination":
        return
    if not isinstance(inputs.plan, Elimination):
        raise ValueError(
            'inputs.plan is None, but inference="elimination" needs plans: make the inputs with '
            "graph_inputs(.., plans=True)"
        )
    width = inputs.plan.width
    entries = sizes.labels ** (width + 1)
    if entries > MOST_ENTRIES:
        raise ValueError(
            f"inputs.plan has width {width}: tables of {sizes.labels}^{width + 1} = {entries} "
            f"entries, at most {MOST_ENTRIES} fit: train without plans"
        )


def check_labels(S: int, nodes: np.ndarray, outputs: object, V: int, classes: int = 1) -> None:
    """Raise ValueError unless outputs hold labels 0..S-1 up to the last node, and -1 after it.

    Args:
      classes: of nodes; with more than one labels are y + S c, see `losses`.
    """
    n = len(nodes)
    y = as_array("outputs", outputs, f"[n, V] = [{n}, {V}] integer labels")
    if y.shape != (n, V):
        raise ValueError(f"outputs must be [n, V] = [{n}, {V}] as the inputs, got shape {y.shape}")
    if y.dtype.kind not in "iu":
        raise ValueError(f"outputs must be integer labels, got {y.dtype}: see core.labels")
    real = np.arange(V) < nodes[:, None]
    wrong = np.argwhere(np.where(real, (y < 0) | (y >= S * classes), y != -1))
    if wrong.size:
        i, v = wrong[0]
        allowed = f"labels 0..{S - 1}"
        if classes > 1:
            allowed += f", plus {S} times a class of node 0..{classes - 1} (see weighted_labels),"
        raise ValueError(
            f"outputs[{i}, {v}] is {y[i, v]}: expected {allowed} for the {nodes[i]} nodes and -1 "
            f"(padding) after them ({len(wrong)} such)"
        )


def check_graphs(sizes: Any, inference: str, inputs: GraphInput, outputs: object = None) -> None:
    """All checks of padded examples; outputs are given for training only.

    Args:
      sizes: the GraphSizes of the problem. inference: the name of its oracle.

    Raises:
      ValueError: a shape or a value does not fit.
    """
    check_record("inputs", inputs, GraphInput, "graph_inputs")
    n, V = _rows_of("inputs.nodes", sizes.features, inputs.nodes, "number_of_features")
    nodes = checked_lengths("inputs.number_of_nodes", inputs.number_of_nodes, n, 1, V)
    _check_edges(inputs, n, nodes)
    _check_edge_parts(sizes, inputs, n)
    _check_inference(sizes, inference, inputs, V)
    if outputs is not None:
        check_labels(sizes.labels, nodes, outputs, V, sizes.node_classes)
