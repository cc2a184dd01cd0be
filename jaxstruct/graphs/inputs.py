"""Graphs to label: features of nodes and edges, ragged, and where wanted a plan of elimination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, check_flag, check_one_each
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.spec import array
from jaxstruct.core.types import AnyArray, PyTree, SparseFeatures
from jaxstruct.graphs.elimination import Elimination, elimination, min_fill_width
from jaxstruct.graphs.potentials import PADDING, checked_edges


class GraphInput(NamedTuple):
    """One graph to label; `graph_inputs` builds n of them, with `Ragged` leaves.

    Fields:
      nodes: [V, d] features, or SparseFeatures of [V, m] leaves; zeros on padding.
      edges: [E, 2] int32 the ends of each edge, -1 on padding.
      edge_features: [E, p], SparseFeatures of [E, m] leaves, or None.
      kinds: [E] int32 which table of the problem an edge has, or None.
      number_of_nodes, number_of_edges: int32 scalars.
      plan: an Elimination of this graph, or None.
    """

    nodes: PyTree
    edges: AnyArray
    edge_features: PyTree
    kinds: AnyArray | None
    number_of_nodes: AnyArray
    number_of_edges: AnyArray
    plan: Elimination | None


def store_of(
    name: str, rows: PyTree, axes: str, like: tuple[str, np.ndarray] | None = None, **range_: Any
) -> Ragged:
    """Rows of n graphs as a store.

    Args:
      rows: a list of n arrays, or a `Ragged`. axes: of the rows of all of them, see `spec.array`.
      like: (name, [n] how many rows each graph must have). range_: kind and range of the rows.

    Raises:
      ValueError: they are something else.
    """
    expected = f"n arrays [{', '.join(axes.split())}], or a Ragged"
    store = rows if isinstance(rows, Ragged) else ragged(as_list(name, rows, expected))
    if len(store.rows):
        array(name, store.rows, axes, **range_)
    if like is not None:
        check_one_each(name, store.lengths, *like)
    return store


def _features(
    name: str, rows: PyTree, axes: str, like: tuple[str, np.ndarray] | None = None
) -> tuple[PyTree, np.ndarray]:
    """(rows of features, [n] how many)."""
    if not isinstance(rows, SparseFeatures):
        store = store_of(name, rows, f"{axes} d", like, kind="numbers")
        return store, store.lengths
    indices = store_of(f"{name}.indices", rows.indices, f"{axes} m", like)
    same = f"{name}.indices", indices.lengths
    values = store_of(f"{name}.values", rows.values, f"{axes} m", same, kind="numbers")
    return SparseFeatures(indices, values), indices.lengths


def _edge_store(edges: Sequence[np.ndarray] | Ragged, nodes: np.ndarray) -> Ragged:
    """All edges, checked graph by graph."""
    given = as_list("edges", edges, "a list of n arrays [E, 2], or a Ragged of them")
    if len(given) != len(nodes):
        raise ValueError(f"edges holds {len(given)} graphs, nodes holds {len(nodes)}")
    rows = [checked_edges(f"edges[{i}]", own, int(nodes[i])) for i, own in enumerate(given)]
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in rows])])
    return Ragged(np.concatenate(rows), offsets, PADDING)


def _plans(edges: Ragged, nodes: np.ndarray) -> Elimination:
    """Plans of one width, the largest that a graph needs, as stores."""
    plain = [(int(V), own) for V, own in zip(nodes, edges, strict=True)]
    width = max(min_fill_width(*each) for each in plain)
    plans = [elimination(*each, width) for each in plain]
    return Elimination(
        ragged([plan.steps for plan in plans]),
        Ragged(np.concatenate([plan.edges for plan in plans]), edges.offsets),
    )


def graph_inputs(
    nodes: PyTree,
    edges: Sequence[np.ndarray] | Ragged,
    *,
    edge_features: PyTree = None,
    kinds: Sequence[np.ndarray] | Ragged | None = None,
    plans: bool = False,
) -> GraphInput:
    """n graphs of any sizes.

    Args:
      nodes: a list of n arrays [V, d], or a `Ragged` of them; or `SparseFeatures` of two such with
        rows [V, m]. Every graph has at least one node.
      edges: a list of n arrays [E, 2] of nodes 0..V-1, or a `Ragged`; E may be 0. The first end has
        the first label axis.
      edge_features: a list of n arrays [E, p], a `Ragged`, or `SparseFeatures` of two; None for
        none.
      kinds: a list of n arrays [E] of integers, which table of the problem each edge has; None
        where all edges share one.
      plans: whether to plan exact inference by elimination (see `elimination`), for a problem of
        inference="elimination". It takes tables of S^(w + 1) entries, w the largest width of all
        graphs: 1 for forests.

    Raises:
      ValueError: rows that do not fit together, a graph without nodes, or edges as `checked_edges`
        refuses them.
    """
    check_flag("plans", plans)
    features, sizes = _features("nodes", nodes, "V")
    if not len(sizes) or not sizes.all():
        which = f"nodes[{np.flatnonzero(sizes == 0)[0]}] has no rows" if len(sizes) else "no graphs"
        raise ValueError(f"nodes: {which}; a graph needs at least one node")
    links = _edge_store(edges, sizes)
    like = "edges", links.lengths
    rows = chosen = None
    if edge_features is not None:
        rows, _ = _features("edge_features", edge_features, "E", like)
    if kinds is not None:
        found = store_of("kinds", kinds, "E", like)
        chosen = Ragged(found.rows.astype(np.int32), found.offsets)
    counts = sizes.astype(np.int32), links.lengths.astype(np.int32)
    return GraphInput(
        features, links, rows, chosen, *counts, _plans(links, sizes) if plans else None
    )
