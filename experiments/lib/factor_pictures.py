"""A factor graph as a picture: nodes are circles, tables squares, a line where a table has a node.

Places minimise the stress  sum_{i < j} d_ij^-2 (|x_i - x_j| - d_ij)^2,  d_ij the steps between i
and j (E. Gansner, Y. Koren and S. North, "Graph drawing by stress majorization", GD 2004), from a
start without randomness, so that a graph looks the same every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxstruct.graphs.factors import FactorGraph

MOST_DRAWN = 400
"""Nodes and tables together; a picture of more shows nothing."""
_TURNS = 300
_INCHES = 0.75


def _steps(members: np.ndarray, number: int) -> np.ndarray:
    """[N, N] the fewest lines between any two of N parts; one more than the most where none.

    Args:
      members: [L, 2] the ends of all lines.
    """
    far = float(2 * number)
    steps = np.full((number, number), far)
    np.fill_diagonal(steps, 0)
    steps[members[:, 0], members[:, 1]] = steps[members[:, 1], members[:, 0]] = 1
    for middle in range(number):
        steps = np.minimum(steps, steps[:, middle, None] + steps[None, middle])
    apart = steps >= far
    return np.where(apart, np.max(steps[~apart]) + 1, steps)


def _start(steps: np.ndarray) -> np.ndarray:
    """[N, 2] the two main axes of the distances, and a little of a circle, which parts ties."""
    N = len(steps)
    centred = np.eye(N) - 1 / N
    values, vectors = np.linalg.eigh(-centred @ steps**2 @ centred / 2)
    axes = vectors[:, -2:][:, ::-1] * np.sqrt(np.maximum(values[-2:][::-1], 0))
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    axes = np.pad(axes * np.where(signs == 0, 1, signs), [(0, 0), (0, 2 - axes.shape[1])])
    angles = 2 * np.pi * np.arange(N) / N
    return axes + 0.1 * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def graph_places(number_of_nodes: int, edges: np.ndarray) -> np.ndarray:
    """Where a picture has the nodes of a graph, the same at every call; see the module.

    Args:
      number_of_nodes: V, at least 1. edges: [E, 2].

    Returns:
      [V, 2] x and y, about 1 from neighbour to neighbour.
    """
    if number_of_nodes == 1:
        return np.zeros((1, 2))
    steps = _steps(np.asarray(edges, int).reshape(-1, 2), number_of_nodes)
    weights = 1 / np.where(steps > 0, steps, np.inf) ** 2
    inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    places = _start(steps)
    for _ in range(_TURNS):
        lengths = np.linalg.norm(places[:, None] - places[None], axis=2)
        pull = weights * steps / np.where(lengths > 0, lengths, np.inf)
        places = inverse @ (np.diag(pull.sum(axis=1)) - pull) @ places
    return places


def factor_places(graph: FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    """Where a picture has the parts of a factor graph, the same at every call.

    Args:
      graph: of `factor_graph`, of at most `MOST_DRAWN` nodes and tables.

    Returns:
      ([n, 2] of the nodes, [m, 2] of the tables), x and y, about 1 from neighbour to neighbour.

    Raises:
      ValueError: it is too large.
    """
    n, m = len(graph.labels), len(graph.scopes)
    if n + m > MOST_DRAWN:
        raise ValueError(f"graph has {n} nodes and {m} tables, at most {MOST_DRAWN} are drawn")
    lines = [(v, n + j) for j, scope in enumerate(graph.scopes) for v in scope]
    places = graph_places(n + m, np.array(lines, int))
    return places[:n], places[n:]


def factor_picture(graph: FactorGraph, names: Sequence[str]) -> Any:
    """The factor graph as a matplotlib figure; `figure.savefig("graph.png")` writes it.

    Args:
      graph: of `factor_graph`. names: [n] of the nodes.

    Returns:
      A `matplotlib.figure.Figure`. No window opens, and no state of pyplot is touched.

    Raises:
      ImportError: matplotlib is missing.
      ValueError: as `factor_places`.
    """
    from matplotlib.figure import Figure

    nodes, tables = factor_places(graph)
    every = np.concatenate([nodes, tables])
    width, height = np.ptp(every, axis=0) + 1.5
    figure = Figure(figsize=(max(2.0, _INCHES * width), max(1.5, _INCHES * height)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(every[:, 0].min() - 0.75, every[:, 0].max() + 0.75)
    axes.set_ylim(every[:, 1].min() - 0.75, every[:, 1].max() + 0.75)
    _draw(axes, graph, names, nodes, tables)
    return figure


def _draw(
    axes: Any, graph: FactorGraph, names: Sequence[str], nodes: np.ndarray, tables: np.ndarray
) -> None:
    """Lines, then squares with their numbers, then circles with names."""
    for scope, at in zip(graph.scopes, tables, strict=True):
        for v in scope:
            axes.plot(*zip(at, nodes[v], strict=True), color="#777777", linewidth=1.2, zorder=1)
    for j, at in enumerate(tables):
        axes.plot(*at, marker="s", markersize=8, color="black", zorder=2)
        axes.annotate(
            rf"$\psi_{{{j}}}$", at, xytext=(6, 5), textcoords="offset points", fontsize=10
        )
    for name, at in zip(names, nodes, strict=True):
        axes.plot(*at, marker="o", markersize=25, color="white", markeredgecolor="black", zorder=3)
        size = 11 if len(str(name)) < 4 else 7
        axes.text(*at, str(name), ha="center", va="center", fontsize=size, zorder=4)
