"""Graphs from NPZ and CSV files, checked; `command` says what the files hold."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.npz import read_npz
from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.utf8 import read_text
from jaxstruct.graphs.edge_lists import checked_edges

ARRAYS = (
    "nodes", "edges", "labels", "edge_features", "kinds", "node_offsets", "edge_offsets",
)  # fmt: skip
_NODE_COLUMNS = ("graph", "node", "label")
_EDGE_COLUMNS = ("graph", "first", "second", "kind")


class Graph(NamedTuple):
    """One graph as it was read.

    Fields:
      name: of the graph. where: file and graph, for messages. node_names: [V].
      nodes: [V, d] float64. edges: [E, 2] int32. labels: [V] text or integers, or None.
      edge_features: [E, p] float64, p = 0 for none. kinds: [E] text or integers, or None.
    """

    name: str
    where: str
    node_names: Sequence[str]
    nodes: np.ndarray
    edges: np.ndarray
    labels: np.ndarray | None
    edge_features: np.ndarray
    kinds: np.ndarray | None


def read_graphs(files: Sequence[str], edge_files: Sequence[str], flags: tuple[str, str]) -> list:
    """The graphs of all files, one after the other.

    Args:
      files: NPZ files, or CSV files of nodes, as their endings say. edge_files: the CSV files of
        edges, one for each CSV file of nodes, in their order. flags: the names of both options.

    Returns:
      A list of `Graph`, all with the same features.

    Raises:
      FileNotFoundError: a file is missing.
      MalformedFile: a file is not of its form; the message names the file, and the line or place.
      ValueError: a file has another end, or the numbers of CSV files differ.
    """
    tables = [file for file in files if file.lower().endswith(".csv")]
    for file in files:
        if not file.lower().endswith((".csv", ".npz")):
            raise ValueError(f"{flags[0]}: got {file!r}, expected files that end in .npz or .csv")
    if len(tables) != len(edge_files):
        raise ValueError(
            f"{flags[1]}: got {len(edge_files)} files, expected {len(tables)}, one for each CSV "
            f"file of --{flags[0]}"
        )
    left, found = list(edge_files), []
    for file in files:
        found += _of_tables(file, left.pop(0)) if file in tables else _of_npz(file)
    _check_alike(found)
    return found


def _check_alike(graphs: Sequence[Graph]) -> None:
    """All have as many features, and kinds and labels or none, as the first."""
    for one in graphs:
        for name, own, first in (
            ("node features", one.nodes.shape[1], graphs[0].nodes.shape[1]),
            ("edge features", one.edge_features.shape[1], graphs[0].edge_features.shape[1]),
        ):
            if own != first:
                raise MalformedFile(f"{one.where}: {own} {name}, but {graphs[0].where} has {first}")
        for name in ("labels", "kinds"):
            own, first = getattr(one, name), getattr(graphs[0], name)
            if (own is None) != (first is None):
                raise MalformedFile(
                    f"{one.where}: has {'no ' if own is None else ''}{name}, unlike "
                    f"{graphs[0].where}: all graphs have them, or none"
                )
            if own is not None and (own.dtype.kind == "U") != (first.dtype.kind == "U"):
                raise MalformedFile(
                    f"{one.where}: {name} are {own.dtype}, but {graphs[0].where} has "
                    f"{first.dtype}: integers in all graphs, or text"
                )


def _numbers(where: str, array: np.ndarray, expected: str) -> np.ndarray:
    """float64 [rows, columns], finite."""
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise MalformedFile(f"{where} is {array.dtype} {array.shape}, expected {expected}")
    wrong = np.argwhere(~np.isfinite(array))
    if wrong.size:
        i, j = wrong[0]
        raise MalformedFile(f"{where}[{i}, {j}] is {array[i, j]}: expected finite numbers")
    return array.astype(np.float64)


def _values(where: str, array: np.ndarray, rows: int) -> np.ndarray:
    """[rows] text or integers."""
    if array.shape != (rows,) or array.dtype.kind not in "iuUS":
        raise MalformedFile(
            f"{where} is {array.dtype} {array.shape}, expected text or integers [{rows}]"
        )
    return array.astype(np.str_) if array.dtype.kind == "S" else array


def _offsets(where: str, arrays: dict[str, np.ndarray], name: str, rows: int) -> np.ndarray:
    """[n + 1] integers that rise from 0 to the number of rows."""
    array = arrays.get(name, np.array([0, rows]))
    good = array.ndim == 1 and array.dtype.kind in "iu" and len(array) > 1
    if not good or array[0] != 0 or array[-1] != rows or (np.diff(array.astype(int)) < 0).any():
        raise MalformedFile(
            f"{where}: {name} must be integers [n + 1] that rise from 0 to {rows}, the number of "
            f"rows, got {array.dtype} {array.shape}"
        )
    return array.astype(int)


def _arrays(path: str) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
    except zipfile.BadZipFile as error:
        raise MalformedFile(f"{path}: no NPZ file ({error})") from error
    unknown = sorted(set(names) - set(ARRAYS))
    if unknown or not {"nodes", "edges"} <= set(names):
        raise MalformedFile(
            f"{path}: holds {', '.join(sorted(names)) or 'nothing'}; expected nodes and edges, and "
            f"perhaps {', '.join(ARRAYS[2:])}"
        )
    return dict(zip(names, read_npz(Path(path), names), strict=True))


def _of_npz(path: str) -> list[Graph]:
    arrays = _arrays(path)
    nodes = _numbers(f"{path}: nodes", arrays["nodes"], "numbers [nodes, d]")
    edges = arrays["edges"]
    if edges.size == 0:
        edges = np.zeros((0, 2), np.int32)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise MalformedFile(
            f"{path}: edges is {edges.dtype} {edges.shape}, expected integers [edges, 2]"
        )
    (V, _), E = nodes.shape, len(edges)
    starts = _offsets(path, arrays, "node_offsets", V)
    edge_starts = _offsets(path, arrays, "edge_offsets", E)
    if len(starts) != len(edge_starts):
        raise MalformedFile(
            f"{path}: node_offsets are of {len(starts) - 1} graphs, edge_offsets of "
            f"{len(edge_starts) - 1}"
        )
    labels = _values(f"{path}: labels", arrays["labels"], V) if "labels" in arrays else None
    kinds = _values(f"{path}: kinds", arrays["kinds"], E) if "kinds" in arrays else None
    rows = arrays.get("edge_features", np.zeros((E, 0)))
    features = _numbers(f"{path}: edge_features", rows, "numbers [edges, p]")
    if len(features) != E:
        raise MalformedFile(f"{path}: edge_features has {len(features)} rows for {E} edges")
    found = []
    for i, (own, its) in enumerate(zip(pairwise(starts), pairwise(edge_starts), strict=True)):
        part, links = slice(*own), slice(*its)
        names = [str(v) for v in range(own[1] - own[0])]
        found.append(_graph(Graph(
            str(i), f"{path}: graph {i}", names, nodes[part], edges[links],
            None if labels is None else labels[part], features[links],
            None if kinds is None else kinds[links],
        )))  # fmt: skip
    return found


def _graph(graph: Graph) -> Graph:
    """The graph, its nodes counted and its edges checked."""
    if not len(graph.nodes):
        raise MalformedFile(f"{graph.where}: has no nodes, expected at least one")
    try:
        edges = checked_edges(f"{graph.where}: edges", graph.edges, len(graph.nodes))
    except ValueError as error:
        raise MalformedFile(str(error)) from error
    return graph._replace(edges=edges)


class _Rows(NamedTuple):
    """A CSV table: the columns that it has of those known, the features, the line of each row."""

    known: dict[str, list[str]]
    features: np.ndarray
    lines: list[int]


def _table(path: str, known: Sequence[str], needed: Sequence[str]) -> _Rows:
    reader = csv.reader(read_text(Path(path)).splitlines())
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise MalformedFile(f"{path}:{reader.line_num}: no CSV ({error})") from error
    if not rows:
        raise MalformedFile(f"{path}: is empty, expected a first line of column names")
    header = [name.strip() for name in rows[0][1]]
    missing = [name for name in needed if name not in header]
    if missing or len(set(header)) < len(header):
        raise MalformedFile(
            f"{path}:{rows[0][0]}: the columns are {', '.join(header)}; expected each once, and "
            f"among them {', '.join(needed)}"
        )
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise MalformedFile(
                f"{path}:{line}: got {len(row)} cells, expected {len(header)} as in the first line"
            )
    body = [row for _, row in rows[1:]]
    lines = [line for line, _ in rows[1:]]
    columns = {name: [row[j].strip() for row in body] for j, name in enumerate(header)}
    given = {name: columns.pop(name) for name in known if name in columns}
    features = np.zeros((len(body), len(columns)))
    for j, (name, cells) in enumerate(columns.items()):
        for i, cell in enumerate(cells):
            features[i, j] = _number(f"{path}:{lines[i]}: {name}", cell)
    for name, cells in given.items():
        for i, cell in enumerate(cells):
            if not cell:
                raise MalformedFile(f"{path}:{lines[i]}: {name} is empty")
    return _Rows(given, features, lines)


def _number(where: str, cell: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        raise MalformedFile(f"{where} is {cell!r}, expected a number") from None
    if not np.isfinite(number):
        raise MalformedFile(f"{where} is {cell}, expected a finite number")
    return number


def _of_tables(path: str, edge_path: str) -> list[Graph]:
    nodes = _table(path, _NODE_COLUMNS, ("node",))
    edges = _table(edge_path, _EDGE_COLUMNS, ("first", "second"))
    if ("graph" in nodes.known) != ("graph" in edges.known):
        raise MalformedFile(f"{edge_path}: has a column graph, or {path} has; both have it or none")
    if not nodes.lines:
        raise MalformedFile(f"{path}: holds no nodes, expected at least one")
    graph_of = nodes.known.get("graph", ["0"] * len(nodes.lines))
    places: dict[str, dict[str, int]] = {}
    rows_of: dict[str, list[int]] = {}
    for i, (graph, node) in enumerate(zip(graph_of, nodes.known["node"], strict=True)):
        own = places.setdefault(graph, {})
        if node in own:
            raise MalformedFile(f"{path}:{nodes.lines[i]}: node {node} is there twice")
        own[node] = len(own)
        rows_of.setdefault(graph, []).append(i)
    links = _links(edge_path, edges, places)
    found = []
    for graph, own in rows_of.items():
        its = links[graph]
        ends = np.array([end for _, end in its], np.int32).reshape(-1, 2)
        at = [i for i, _ in its]
        found.append(_graph(Graph(
            graph, f"{edge_path}: graph {graph}", list(places[graph]), nodes.features[own], ends,
            _taken(nodes.known.get("label"), own), edges.features[at],
            _taken(edges.known.get("kind"), at),
        )))  # fmt: skip
    return found


def _taken(cells: list[str] | None, rows: Sequence[int]) -> np.ndarray | None:
    return None if cells is None else np.array([cells[i] for i in rows], np.str_)


def _links(path: str, edges: _Rows, places: dict[str, dict[str, int]]) -> dict[str, list[Any]]:
    """graph -> (row, (first, second)) of its edges."""
    found: dict[str, list[Any]] = {graph: [] for graph in places}
    graph_of = edges.known.get("graph", ["0"] * len(edges.lines))
    ends = zip(edges.known["first"], edges.known["second"], strict=True)
    for i, (graph, pair) in enumerate(zip(graph_of, ends, strict=True)):
        where = f"{path}:{edges.lines[i]}"
        if graph not in places:
            raise MalformedFile(f"{where}: no node is of graph {graph}")
        for node in pair:
            if node not in places[graph]:
                raise MalformedFile(f"{where}: graph {graph} has no node {node}")
        found[graph].append((i, [places[graph][node] for node in pair]))
    return found
