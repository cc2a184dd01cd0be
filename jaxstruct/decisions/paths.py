"""Paths in directed acyclic graphs: the cheapest (or the longest) from a source to a target.

    V[v] = max over arcs (u, v) of V[u] + theta[u, v],    V[source] = 0

A decision is a 0 or 1 for each arc. Nodes are numbered in topological order, so one loop over the
nodes finds the values, and one back finds the path: row operations over the batch, no lookup by
example.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.batch_last import batch_size, in_column_blocks, of_one_example
from jaxstruct.core.checks import checked_size
from jaxstruct.core.device import on_device
from jaxstruct.core.semiring import argmax_first
from jaxstruct.core.spec import array, refuse
from jaxstruct.core.types import AnyArray, Array
from jaxstruct.decisions.sets import NONE, Decisions, decision_set

NUMBERS = 1 << 17
"""Values that a block of columns keeps, so that they stay in the cache of a core."""


class Ends(NamedTuple):
    """What may differ from example to example.

    Fields:
      source, target: [n] integers, the nodes where the paths begin and end.
      open: [n, d] bool, the arcs that may be taken; None for all.
    """

    source: AnyArray
    target: AnyArray
    open: AnyArray | None = None


class Graph(NamedTuple):
    """The arcs by the nodes that they lead to and come from, at most P and Q a node.

    Fields:
      tails: [V, P] where arcs that lead to a node come from, V where there is none. arcs: [V, P]
        their numbers, rising, d where there is none.
      heads: [V, Q] where arcs that come from a node lead to. ranks: [V, Q] which of the P each one
        is there, P where there is none. places: [d] where each arc stands among the V Q.
    """

    tails: AnyArray
    arcs: AnyArray
    heads: AnyArray
    ranks: AnyArray
    places: AnyArray


def _grouped(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """(how many before it have the same key [d], the most that have one)."""
    order = np.argsort(keys, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(keys)) - np.searchsorted(keys[order], keys[order])
    return rank, int(rank.max()) + 1


def _graph(arcs: np.ndarray, nodes: int) -> Graph:
    (tail, head), d = arcs.T, len(arcs)
    (into, P), (out, Q) = _grouped(head), _grouped(tail)

    def table(rows: np.ndarray, rank: np.ndarray, most: int, values: Any, none: int) -> np.ndarray:
        found = np.full((nodes, most), none, np.int32)
        found[rows, rank] = values
        return found

    return Graph(
        tails=table(head, into, P, tail, nodes),
        arcs=table(head, into, P, np.arange(d), d),
        heads=table(tail, out, Q, head, 0),
        ranks=table(tail, out, Q, into, P),
        places=(tail * Q + out).astype(np.int32),
    )


def _values(graph: Graph, theta: Array, source: Array) -> tuple[Array, Array]:
    """(V [nodes + 1, B], which arc of each node made it [nodes, B]); the last row is of no node."""
    nodes, most = graph.tails.shape
    gains = theta.at[graph.arcs].get(mode="fill", fill_value=-jnp.inf)
    small = jnp.int8 if most < 128 else jnp.int32

    def step(values: Array, at: tuple) -> tuple[Array, Array]:
        v, tails, gains = at
        best, arc = argmax_first(most, lambda p: values[tails[p]] + gains[p])
        best, arc = jax.lax.optimization_barrier((best, arc))
        best = jnp.where(source == v, 0, best)
        return values.at[v].set(best), arc.astype(small)

    start = jnp.full((nodes + 1, batch_size(theta, source)), -jnp.inf, theta.dtype)
    return jax.lax.scan(step, start, (jnp.arange(nodes), graph.tails, gains))


def _taken(graph: Graph, chosen: Array, source: Array, target: Array) -> Array:
    """[V Q, B] bool the arcs of the path, from the target back."""
    nodes, most = graph.heads.shape

    def step(entered: Array, at: tuple) -> tuple[Array, Array]:
        u, heads, ranks = at
        taken = entered[heads] & (chosen[heads] == ranks[:, None])
        here = (target == u) | jnp.any(taken, axis=0)
        here, taken = jax.lax.optimization_barrier((here & (source != u), taken))
        return entered.at[u].set(here), taken

    start = jnp.zeros(chosen.shape, bool)  # whether the path enters a node by an arc
    rows = jnp.arange(nodes), graph.heads, graph.ranks.astype(chosen.dtype)
    _, taken = jax.lax.scan(step, start, rows, reverse=True)
    return taken.reshape(nodes * most, -1)


def _kernel(graph: Graph, theta: Array, source: Array, target: Array) -> Array:
    graph = jax.tree.map(lambda leaf: leaf[..., 0], graph)
    values, chosen = _values(graph, theta, source)
    taken = _taken(graph, chosen, source, target)[graph.places]
    B = values.shape[1]
    reached = jnp.take_along_axis(values, jnp.broadcast_to(target, (1, B)), axis=0) > -jnp.inf
    return jnp.where(reached, taken.astype(jnp.int32), NONE)


def _in_blocks(graph: Graph, theta: Array, *ends: Array) -> Array:
    width = max(16, NUMBERS // graph.tails.shape[0] // 16 * 16)
    return in_column_blocks(_kernel, width)(graph, theta, *ends)


_best_path = of_one_example(_in_blocks)


def _best(graph: Graph, ends: tuple[Array, Array], theta: Array, instance: Any) -> Array:
    source, target, passable = Ends(*ends) if instance == () else Ends(*instance)
    theta = theta if passable is None else jnp.where(passable, theta, -jnp.inf)
    return _best_path(graph, theta, jnp.asarray(source), jnp.asarray(target))


def _reached(arcs: np.ndarray, nodes: int, ends: Ends) -> np.ndarray:
    """[n] whether open arcs lead from source to target."""
    source, target = np.asarray(ends.source), np.asarray(ends.target)
    n = len(source)
    reach = np.arange(nodes)[:, None] == source
    for at in np.argsort(arcs[:, 0], kind="stable"):
        u, v = arcs[at]
        reach[v] |= reach[u] if ends.open is None else reach[u] & np.asarray(ends.open)[:, at]
    return reach[target, np.arange(n)]


def _check(arcs: tuple, nodes: int, instances: Any, n: int) -> None:
    if isinstance(instances, tuple) and not instances:
        return
    if not isinstance(instances, Ends):
        raise ValueError("instances must be jaxstruct.decisions.Ends(source, target) or ()")
    for name in ("source", "target"):
        array(f"instances.{name}", getattr(instances, name), "n", sizes={"n": n},
              within=(range(nodes), "the nodes"))  # fmt: skip
    if instances.open is not None:
        array("instances.open", instances.open, "n d", "bools", {"n": n, "d": len(arcs)})
    reached, target = _reached(np.asarray(arcs), nodes, instances), np.asarray(instances.target)
    refuse(
        "instances.target", target, ~reached,
        lambda i: f"a node to which open arcs lead from node {instances.source[i]}",
    )  # fmt: skip


def shortest_paths(
    arcs: AnyArray, source: int = 0, target: int | None = None, *, sense: str = "minimise"
) -> Decisions:
    """Paths in a directed acyclic graph.

    Args:
      arcs: [d, 2] (from, to), from < to: nodes are numbered in topological order.
      source, target: nodes where paths begin and end, of examples whose instances do not say; None
        for the last node. Where both are one node, the path has no arc.
      sense: "minimise" for shortest, "maximise" for longest paths. Costs may be negative.

    Returns:
      Decisions of size d; instances are () or `Ends`. Of equal paths the one whose last arc has the
      lowest number, among those the one whose arc before it has, and so on. A target that open
      arcs do not reach is refused by `decide`, `fit` and `predict`; inside a program, as where
      theta forbids arcs, y is -1 throughout.

    Raises:
      ValueError: an argument does not fit, or the target is not reached.
    """
    found = array("arcs", arcs, "d 2")
    refuse("arcs", found[:, 0], found[:, 0] < 0, "nodes >= 0")
    refuse(
        "arcs", found, found[:, 0] >= found[:, 1],
        "(from, to) with from < to: number the nodes in topological order",
    )  # fmt: skip
    if not len(found):
        raise ValueError("arcs is empty: a graph needs one arc at least")
    nodes = int(found.max()) + 1
    source = checked_size("source", source, 0, nodes - 1)
    target = checked_size("target", nodes - 1 if target is None else target, 0, nodes - 1)
    plain = tuple(map(tuple, found.tolist()))
    check = Partial(_check, plain, nodes)
    check(Ends(np.array([source]), np.array([target])), 1)
    graph, ends = _graph(found, nodes), (np.int32(source), np.int32(target))
    made = {"arcs": plain, "source": source, "target": target, "sense": sense}
    best = Partial(_best, jax.tree.map(on_device, graph), ends)
    return decision_set(best, check, len(found), sense, ("shortest_paths", made))


def grid_arcs(rows: int, columns: int) -> np.ndarray:
    """[d, 2] the arcs of a grid to the right and down, node r columns + c in row r, column c.

    Row by row: those to the right, then those down to the next row.
    """
    nodes = np.arange(checked_size("rows", rows) * checked_size("columns", columns))
    nodes = nodes.reshape(rows, columns)
    found = []
    for r in range(rows):
        found.append(np.stack([nodes[r, :-1], nodes[r, 1:]], axis=1))
        if r + 1 < rows:
            found.append(np.stack([nodes[r], nodes[r + 1]], axis=1))
    return np.concatenate(found)


def grid_paths(rows: int, columns: int, *, sense: str = "minimise") -> Decisions:
    """Paths from the upper left to the lower right corner of a grid, by `grid_arcs`."""
    return shortest_paths(grid_arcs(rows, columns), sense=sense)
