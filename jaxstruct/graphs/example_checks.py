"""What `graph_labelling` refuses before anything compiles: values of the examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.core.checks import check_record
from jaxstruct.core.spec import array, checked_lengths, features, refuse
from jaxstruct.graphs.elimination import Elimination
from jaxstruct.graphs.inputs import GraphInput
from jaxstruct.graphs.oracles.enumeration import number_of_labellings


def _check_edges(kinds: Any, inputs: GraphInput, nodes: np.ndarray, sizes: dict[str, int]) -> None:
    """Edges of two nodes each, with features and kinds where the options of the problem ask."""
    edges = array("inputs.edges", inputs.edges, "n E 2", sizes=sizes)
    E, p, K = sizes["E"], kinds.edge_features, kinds.edge_kinds
    counts = checked_lengths("inputs.number_of_edges", inputs.number_of_edges, sizes["n"], 0, E)
    real = np.arange(E) < counts[:, None]
    low, high = edges.min(axis=2), edges.max(axis=2)
    wrong = real & ((low < 0) | (high >= nodes[:, None]) | (low == high))
    words = "two different nodes in 0..{}"
    refuse("inputs.edges", edges, wrong, lambda i, _: words.format(nodes[i] - 1))
    if (inputs.edge_features is None) != (p == 0):
        has = "none" if inputs.edge_features is None else "some"
        raise ValueError(
            f"inputs.edge_features: the problem has number_of_edge_features = {p}, the inputs have "
            f"{has}: give both or neither"
        )
    if p:
        axes = sizes | {"number_of_edge_features": p}
        features("inputs.edge_features", inputs.edge_features, "n E", axes, [*axes][-1])
    if inputs.kinds is not None:
        found = array("inputs.kinds", inputs.kinds, "n E", sizes=sizes)
        wrong = real & ((found < 0) | (found >= K))
        refuse("inputs.kinds", found, wrong, f"0..{K - 1}, for edge_kinds = {K}: raise it")
    elif K > 1:
        raise ValueError(f"inputs.kinds is None, but the problem has edge_kinds = {K}")


def _check_inference(kinds: Any, inference: str, inputs: GraphInput, V: int) -> None:
    """What the oracle asks for."""
    if inference == "enumeration":
        number_of_labellings(V, kinds.labels)
    if inference == "elimination" and not isinstance(inputs.plan, Elimination):
        raise ValueError(
            'inputs.plan is None, but inference="elimination" needs plans: make the inputs with '
            "graph_inputs(.., plans=True)"
        )


def check_graphs(kinds: Any, inference: str, inputs: GraphInput, outputs: object = None) -> None:
    """All checks of padded examples; outputs are given for training only.

    Args:
      kinds: the GraphSizes of the problem. inference: the name of its oracle.

    Raises:
      ValueError: a shape or a value does not fit.
    """
    check_record("inputs", inputs, GraphInput, "graph_inputs")
    sizes = {"number_of_features": kinds.features}
    features("inputs.nodes", inputs.nodes, "n V", sizes)
    n, V = sizes["n"], sizes["V"]
    nodes = checked_lengths("inputs.number_of_nodes", inputs.number_of_nodes, n, 1, V)
    _check_edges(kinds, inputs, nodes, sizes)
    _check_inference(kinds, inference, inputs, V)
    if outputs is None:
        return
    S, words = kinds.labels, "labels"
    if kinds.node_classes > 1:
        words += f" 0..{S - 1} plus {S} times a class of node (see weighted_labels)"
    array(
        "outputs", outputs, "n V", "integers", {"n": n, "V": V},
        (range(S * kinds.node_classes), words), length=nodes, advice=": see core.labels",
    )  # fmt: skip
