"""experiments.label_graphs on generated files: what is learned, written, read and refused."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from experiments.label_graphs import command as label_graphs
from experiments.label_graphs.command import Options
from experiments.lib import common
from jaxstruct.data.errors import MalformedFile
from jaxstruct.graphs.structure import graph_labelling
from jaxstruct.solvers.checkpoints.run_state import load_weights
from tests.experiments.scripts import kept_settings, strict_json

NAMES = np.array(["red", "green", "blue"])


def drawn(seed: int, n: int) -> dict[str, np.ndarray]:
    """Paths of nodes whose labels mostly stay as they are along "same" edges, seen through noise.

    Edges of kind "turn" go on to the next label. Features say little.
    """
    rng = np.random.default_rng(seed)
    nodes, labels, edges, kinds, sizes = [], [], [], [], []
    for _ in range(n):
        V = int(rng.integers(6, 10))
        turns = rng.random(V - 1) < 0.5
        y = (int(rng.integers(3)) + np.concatenate([[0], np.cumsum(turns)])) % 3
        nodes.append(np.eye(3)[y] + 0.8 * rng.normal(size=(V, 3)))
        labels.append(y)
        edges.append(np.stack([np.arange(V - 1), np.arange(1, V)], axis=1))
        kinds.append(np.where(turns, "turn", "same"))
        sizes.append(V)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return {
        "nodes": np.concatenate(nodes), "labels": NAMES[np.concatenate(labels)],
        "edges": np.concatenate(edges), "kinds": np.concatenate(kinds),
        "node_offsets": offsets, "edge_offsets": offsets - np.arange(n + 1),
    }  # fmt: skip


def npz(path: Path, arrays: dict[str, np.ndarray]) -> str:
    np.savez(path, **arrays)
    return str(path)


def tables(folder: Path, arrays: dict[str, np.ndarray], labels: bool = True) -> tuple[str, str]:
    """The same graphs as two CSV files; nodes are called a0, a1, and so on."""
    paths = folder / "nodes.csv", folder / "edges.csv"
    parts = {
        name: np.split(arrays[name], arrays[f"{name.removesuffix('s')}_offsets"][1:-1])
        for name in ("nodes", "edges")
    }
    own = np.split(arrays["labels"], arrays["node_offsets"][1:-1])
    kinds = np.split(arrays["kinds"], arrays["edge_offsets"][1:-1])
    with open(paths[0], "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["graph", "node", *(["label"] if labels else []), "f0", "f1", "f2"])
        for i, (rows, y) in enumerate(zip(parts["nodes"], own, strict=True)):
            for v, row in enumerate(rows):
                out.writerow([i, f"a{v}", *([y[v]] if labels else []), *row])
    with open(paths[1], "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["graph", "first", "second", "kind"])
        for i, (rows, kind) in enumerate(zip(parts["edges"], kinds, strict=True)):
            for (a, b), own_kind in zip(rows, kind, strict=True):
                out.writerow([i, f"a{a}", f"a{b}", own_kind])
    return str(paths[0]), str(paths[1])


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Options:
    folder = tmp_path_factory.mktemp("graphs")
    return Options(
        train=(npz(folder / "known.npz", drawn(0, 30)),), c_over_n=1.0, passes=10,
        test=(npz(folder / "new.npz", drawn(1, 10)),), output=str(folder / "out"),
        compilation_cache=False, progress=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def outcome(options: Options) -> common.Outcome:
    with kept_settings():
        return label_graphs.run(options)


def rows_of(path: Path) -> list[list[str]]:
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_kinds_of_edges_are_learned(outcome: common.Outcome) -> None:
    train, test = outcome.numbers["rows"]
    assert outcome.numbers["status"].name == "CONVERGED" and outcome.numbers["proof"] == "bounded"
    assert (train["graphs"], test["graphs"]) == (30, 10)
    new = drawn(1, 10)
    alone = 100 * np.mean(NAMES[new["nodes"].argmax(axis=1)] != new["labels"])
    assert test["wrong_nodes"] < 10 < alone
    assert outcome.numbers["labels"] == ("blue", "green", "red")
    assert outcome.numbers["primal"] >= outcome.numbers["dual"]


def test_files_hold_what_was_found(options: Options, outcome: common.Outcome) -> None:
    names = {path.name: path for path in outcome.files}
    assert list(names) == [
        "label_graphs.json", "label_graphs.csv", "predictions.csv", "label_graphs_weights.npz",
    ]  # fmt: skip
    content = strict_json(names["label_graphs.json"])
    assert "python -m experiments.label_graphs " in content["record"]["command"]
    head, *rows = rows_of(names["predictions.csv"])
    new = drawn(1, 10)
    assert head == ["graph", "node", "label", "given"]
    assert [row[3] for row in rows] == new["labels"].tolist()
    assert 100 * np.mean([row[2] != row[3] for row in rows]) == pytest.approx(
        content["rows"][1]["wrong_nodes"]
    )
    assert rows[len(rows) - 1][0] == "9" and rows[0][:2] == ["0", "0"]
    load_weights(names["label_graphs_weights.npz"], graph_labelling(4, 3, edge_kinds=2))
    assert not list(Path(options.output).glob(".*"))


def test_csv_files_are_labelled_as_the_same_npz(
    options: Options, outcome: common.Outcome, tmp_path
) -> None:
    (tmp_path / "test").mkdir()
    train, edges = tables(tmp_path, drawn(0, 30))
    test, test_edges = tables(tmp_path / "test", drawn(1, 10), labels=False)
    again = options.replace(
        train=(train,), train_edges=(edges,), test=(test,), test_edges=(test_edges,),
        output=str(tmp_path / "out"),
    )  # fmt: skip
    with kept_settings():
        found = label_graphs.run(again)
    assert found.numbers["rows"][1]["wrong_nodes"] is None
    ours, theirs = (rows_of(each.files[2]) for each in (found, outcome))
    assert ours[0] == ["graph", "node", "label"]
    assert [[row[0], row[1].removeprefix("a"), row[2]] for row in ours[1:]] == [
        row[:3] for row in theirs[1:]
    ]


@pytest.mark.thorough
def test_exact_inference_and_integer_labels_without_new_graphs(options: Options, tmp_path) -> None:
    arrays = drawn(0, 6)
    arrays["labels"] = np.searchsorted(np.sort(NAMES), arrays["labels"]) * 7 - 7
    arrays["edge_features"] = np.ones((len(arrays["edges"]), 1))
    own = options.replace(
        train=(npz(tmp_path / "own.npz", arrays),), test=(), inference="elimination",
        output=str(tmp_path / "out"),
    )  # fmt: skip
    with kept_settings():
        found = label_graphs.run(own)
    assert found.numbers["proof"] == "exact" and found.numbers["labels"] == (-7, 0, 7)
    assert {row[2] for row in rows_of(found.files[2])[1:]} <= {"-7", "0", "7"}


def test_a_file_without_offsets_is_one_graph_and_unknown_labels_are_wrong(
    options: Options, outcome: common.Outcome, tmp_path
) -> None:
    one = {"nodes": np.eye(3), "edges": np.array([[0, 1]]), "kinds": np.array(["same"]),
           "labels": np.array(["red", "red", "pink"])}  # fmt: skip
    own = options.replace(test=(npz(tmp_path / "one.npz", one),), output=str(tmp_path))
    with kept_settings():
        found = label_graphs.run(own)
    assert found.numbers["rows"][1]["graphs"] == 1
    assert found.numbers["rows"][1]["wrong_nodes"] >= 100 / 3
    assert "1 nodes of the test graphs have labels that no training graph" in found.table.notes[-1]


GRAPH = {"nodes": np.zeros((3, 2)), "edges": np.array([[0, 1], [1, 2]]),
         "labels": np.array([0, 1, 0])}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": np.array([[0, 3]])}, r"edges\[0, 1\] is 3: expected 0..2"),
        ({"edges": np.array([[0, -1]])}, r"edges\[0, 1\] is -1: expected 0..2"),
        ({"edges": np.array([[1, 1]])}, r"edges\[0\] is \[1, 1\]: expected two nodes"),
        ({"edges": np.array([[0, 1], [1, 0]])}, r"edges\[0\] and .*edges\[1\] both join 0 and 1"),
        ({"edges": np.array([0, 1])}, r"edges is int64 \(2,\), expected integers \[edges, 2\]"),
        ({"edges": np.array([[0.0, 1.0]])}, r"edges must be \[E, 2\] integers, got float64"),
        ({"nodes": np.zeros(3)}, r"nodes is float64 \(3,\), expected numbers \[nodes, d\]"),
        ({"nodes": np.full((3, 2), np.nan)}, r"nodes\[0, 0\] is nan: expected finite numbers"),
        ({"nodes": np.full((3, 2), -np.inf)}, r"nodes\[0, 0\] is -inf: expected finite"),
        ({"nodes": np.zeros((0, 2)), "labels": np.zeros(0, int), "edges": np.zeros((0, 2), int)},
         "graph 0: has no nodes, expected at least one"),
        ({"node_offsets": np.array([0, 3, 3]), "edge_offsets": np.array([0, 2, 2])},
         "graph 1: has no nodes"),
        ({"node_offsets": np.array([0, 2])}, "node_offsets must be integers .* from 0 to 3"),
        ({"node_offsets": np.array([0, 2, 3])}, "node_offsets are of 2 graphs, edge_offsets of 1"),
        ({"labels": np.array([0, 1])}, r"labels is int64 \(2,\), expected text or integers \[3\]"),
        ({"labels": np.array([0.0, 1.0, 2.0])}, "labels is float64 .*, expected text or integers"),
        ({"labels": np.array([1, 1, 1])}, "all nodes have the label 1, expected two or more"),
        ({"edge_features": np.zeros((1, 2))}, "edge_features has 1 rows for 2 edges"),
        ({"edge_features": np.full((2, 1), np.inf)}, r"edge_features\[0, 0\] is inf"),
        ({"kinds": np.array([0])}, r"kinds is int64 \(1,\), expected text or integers \[2\]"),
        ({"colour": np.zeros(3)}, "holds colour, edges, labels, nodes; expected nodes and edges"),
    ],
)  # fmt: skip
def test_an_npz_file_that_does_not_fit(changes: dict, message: str, tmp_path) -> None:
    options = Options(train=(npz(tmp_path / "own.npz", GRAPH | changes),), output=str(tmp_path))
    with kept_settings(), pytest.raises(MalformedFile, match=message) as caught:
        label_graphs.run(options.replace(compilation_cache=False))
    assert "own.npz" in str(caught.value) and "\n" not in str(caught.value)


def test_training_graphs_without_labels(tmp_path) -> None:
    arrays = {name: leaf for name, leaf in GRAPH.items() if name != "labels"}
    options = Options(train=(npz(tmp_path / "own.npz", arrays),), compilation_cache=False)
    with kept_settings(), pytest.raises(MalformedFile, match="training graphs need labels"):
        label_graphs.run(options)
    (tmp_path / "own.npz").write_bytes(b"no archive")
    with kept_settings(), pytest.raises(MalformedFile, match="own.npz: no NPZ file"):
        label_graphs.run(options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": np.zeros((3, 1))}, "1 node features, but the training graphs have 2"),
        ({"edge_features": np.zeros((2, 1))}, "1 edge features, but the training graphs have 0"),
        ({"kinds": np.array([0, 1])}, "kinds of edges must be there as in the training graphs"),
    ],
)
def test_new_graphs_that_do_not_fit_the_known_ones(changes: dict, message: str, tmp_path) -> None:
    options = Options(
        train=(npz(tmp_path / "known.npz", GRAPH),), compilation_cache=False,
        test=(npz(tmp_path / "new.npz", GRAPH | changes),), output=str(tmp_path),
    )  # fmt: skip
    with kept_settings(), pytest.raises(MalformedFile, match=f"new.npz: graph 0: {message}"):
        label_graphs.run(options)


def test_a_kind_that_no_training_graph_has(tmp_path) -> None:
    known, new = GRAPH | {"kinds": np.array(["a", "b"])}, GRAPH | {"kinds": np.array(["a", "c"])}
    options = Options(
        train=(npz(tmp_path / "known.npz", known),), compilation_cache=False,
        test=(npz(tmp_path / "new.npz", new),), output=str(tmp_path),
    )  # fmt: skip
    with kept_settings(), pytest.raises(MalformedFile, match="of kind c, which no training"):
        label_graphs.run(options)
    mixed = options.replace(test=(), train=(options.train[0], npz(tmp_path / "other.npz", GRAPH)))
    with kept_settings(), pytest.raises(MalformedFile, match="other.npz: .* has no kinds, unlike"):
        label_graphs.run(mixed)


NODES = "graph,node,label,f\nx,a,0,1\nx,b,1,2\n"
EDGES = "graph,first,second\nx,a,b\n"


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("", EDGES, "nodes.csv: is empty, expected a first line"),
        ("graph,node,label,f\n", EDGES, "nodes.csv: holds no nodes"),
        ("name,f\na,1\n", EDGES, "nodes.csv:1: the columns are name, f; expected .* node$"),
        (NODES.replace("1,2", "1"), EDGES, "nodes.csv:3: got 3 cells, expected 4"),
        (NODES.replace("0,1", "0,x"), EDGES, "nodes.csv:2: f is 'x', expected a number"),
        (NODES.replace("0,1", "0,inf"), EDGES, "nodes.csv:2: f is inf, expected a finite number"),
        (NODES.replace("a,0", "a,"), EDGES, "nodes.csv:2: label is empty"),
        (NODES.replace("x,b", "x,a"), EDGES, "nodes.csv:3: node a is there twice"),
        (NODES, EDGES.replace("x,a", "y,a"), "edges.csv:2: no node is of graph y"),
        (NODES, EDGES.replace("a,b", "a,c"), "edges.csv:2: graph x has no node c"),
        (NODES, EDGES.replace("a,b", "b,b"), r"graph x: edges.* is \[1, 1\]: expected two nodes"),
        (NODES, EDGES + "x,b,a\n", "graph x: edges.* both join"),
        (NODES, "first,second\na,b\n", "edges.csv: has a column graph, or .* both have it"),
    ],
)
def test_csv_files_that_do_not_fit(nodes: str, edges: str, message: str, tmp_path) -> None:
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    options = Options(
        train=(str(tmp_path / "nodes.csv"),), train_edges=(str(tmp_path / "edges.csv"),),
        compilation_cache=False, output=str(tmp_path),
    )  # fmt: skip
    with kept_settings(), pytest.raises(MalformedFile, match=message) as caught:
        label_graphs.run(options)
    assert "\n" not in str(caught.value)


def test_integers_and_text_are_not_mixed(tmp_path) -> None:
    (tmp_path / "nodes.csv").write_text("node,label,f,g\na,0,1,1\n")
    (tmp_path / "edges.csv").write_text("first,second\n")
    options = Options(
        train=(npz(tmp_path / "own.npz", GRAPH), str(tmp_path / "nodes.csv")),
        train_edges=(str(tmp_path / "edges.csv"),), compilation_cache=False,
    )  # fmt: skip
    with kept_settings(), pytest.raises(MalformedFile, match="integers in all graphs, or text"):
        label_graphs.run(options)
