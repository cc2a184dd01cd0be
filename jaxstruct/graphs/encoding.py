"""Graphs and the labels of their nodes as people hold them, as inputs and outputs, and back."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.checks import as_list, check_flag
from jaxstruct.core.contract import Incomplete, Problem
from jaxstruct.core.feature_encoding import FeatureEncoding, encoded_sequences, fit_features
from jaxstruct.core.feature_rows import read_sequences
from jaxstruct.core.labels import (
    LabelCodec,
    codec_of_lists,
    decode_lists,
    encode_open_lists,
    fit_open_codec,
)
from jaxstruct.core.prepared import Prepared, held, prepared
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.tables import Table, pairs_table, ranking, rankings_by_label
from jaxstruct.core.types import PyTree
from jaxstruct.graphs.given_graphs import ReadGraph, read_graphs
from jaxstruct.graphs.inputs import GraphInput, graph_inputs
from jaxstruct.graphs.structure import graph_labelling


class GraphEncoding(NamedTuple):
    """What the columns of nodes and edges and the numbers of labels mean. Made by `prepare`.

        data = prepare(graphs, labels)
        solution = fit(*data, C=10.0)
        new = data.encoding.inputs(new_graphs)
        predicted = data.encoding.decode(predict(data.problem, solution, new))

    Fields:
      nodes, edges: which feature is which column; edges are None where they have no features.
      codec: which label is which number. plans: whether inputs are planned for elimination.
      ignore: names that are no features.
    """

    nodes: FeatureEncoding
    edges: FeatureEncoding | None
    codec: LabelCodec
    plans: bool
    ignore: tuple[str, ...]
    structure = "graph_labelling"

    def problem(self, **options: Any) -> Problem:
        """`graph_labelling` of these features and labels; options are those of `graph_labelling`.

        With plans, inference is "elimination" unless the options say otherwise.
        """
        p = 0 if self.edges is None else self.edges.number_of_features
        if self.plans:
            options = {"inference": "elimination", **options}
        sizes = self.nodes.number_of_features, len(self.codec.classes)
        return graph_labelling(*sizes, number_of_edge_features=p, **options)

    def inputs(self, graphs: Any) -> GraphInput:
        """The inputs of n graphs, ragged.

        Args:
          graphs: n graphs of the kinds of training.

        Raises:
          ValueError: they are none, have other columns, or edges with features where training had
            edges without, or the other way round.
        """
        read = read_graphs(graphs, frozenset(self.ignore))
        new = [i for i, one in enumerate(read) if one.edge_features is not None]
        if self.edges is None and new:
            raise ValueError(
                f"graphs[{new[0]}] has edge features, which those of training had not: leave them "
                "out, or fit the encoding to such graphs"
            )
        nodes = encoded_sequences(self.nodes, "nodes", [one.nodes for one in read])
        edges = [one.edges for one in read]
        rows = None if self.edges is None else self._edge_rows(read)
        return graph_inputs(nodes, edges, edge_features=rows, plans=self.plans)

    def outputs(
        self, labels: Sequence[Iterable[Hashable] | Mapping[Hashable, Hashable]], graphs: Any = None
    ) -> Ragged | Incomplete:
        """The labels of the nodes of n graphs, ragged.

        Args:
          labels: of each graph a list in the order of its nodes, or a mapping node -> label.
          graphs: the n graphs, which say the order of the nodes of mappings; None for lists.

        Raises:
          ValueError: a label is none of training's, or a mapping does not have the graph's nodes.
        """
        return encode_open_lists(self.codec, _in_order(labels, graphs))

    def decode(self, outputs: Ragged, graphs: Any = None) -> list:
        """The labels of n graphs, such as `predict` returns them.

        Args:
          outputs: n lists of numbers.
          graphs: the n graphs. Those whose nodes have names get a mapping node -> label, the others
            a list in the order of their nodes; None for lists of all.
        """
        lists = decode_lists(self.codec, outputs)
        if graphs is None:
            return lists
        names = [one.names for one in read_graphs(graphs)]
        return [
            own if nodes is None else dict(zip(nodes, own, strict=True))
            for nodes, own in zip(names, lists, strict=True)
        ]

    def unpadded(self, output: np.ndarray) -> Ragged:
        """The labels of one padded graph [1, V], without what they weigh in training."""
        return ragged([output[0][output[0] >= 0] % len(self.codec.classes)], -1)

    def tables(
        self, weights: Mapping[str, np.ndarray], options: Mapping[str, Any], largest: int
    ) -> list[Table]:
        """The features of each label, and pairs of labels at the ends of edges; symmetric parts."""
        w, labels = weights, self.codec.texts
        both = bool(options.get("symmetric", False))
        found = rankings_by_label(self.nodes.names, labels, w["nodes"], largest)
        for kind, pairs in enumerate(w.get("pairs", ())):
            pairs = (pairs + pairs.T) / 2 if both else pairs
            number = f" of kind {kind}" if len(w["pairs"]) > 1 else ""
            title = f"edges{number}, the first end has the label of the row"
            found.append(pairs_table(title, labels, pairs, largest))
        if self.edges is not None and "edges" in w:
            S = len(labels)
            flat = w["edges"].reshape(-1, S, S)
            flat = (flat + np.swapaxes(flat, 1, 2)) / 2 if both else flat
            names = itertools.product(self.edges.names, labels, labels)
            texts = (f"{name}: {a} {b}" for name, a, b in names)
            found.append(ranking("features of edges", texts, flat, largest))
        return found

    def _edge_rows(self, read: list[ReadGraph]) -> PyTree:
        assert self.edges is not None, "edges have features"
        bare = [i for i, one in enumerate(read) if one.edge_features is None and len(one.edges)]
        if bare:
            raise ValueError(
                f"graphs[{bare[0]}] has edges without features, which those of training had: give "
                "an edge without any an empty row"
            )
        return encoded_sequences(self.edges, "edge_features", _rows_of_edges(read))


def _rows_of_edges(read: list[ReadGraph]) -> list:
    """Of each graph the features of its edges, none of one without edges."""
    return [[] if one.edge_features is None else one.edge_features for one in read]


def _in_order(labels: Any, graphs: Any) -> list:
    """The labels of each graph as a list in the order of its nodes."""
    lists = as_list("labels", labels, "a list of n lists of labels, or mappings node -> label")
    mapped = [i for i, one in enumerate(lists) if isinstance(one, Mapping)]
    if not mapped:
        return lists
    if graphs is None:
        raise ValueError(
            f"labels[{mapped[0]}] is a mapping node -> label: give the graphs, too, which say the "
            "order of their nodes"
        )
    names = [one.names for one in read_graphs(graphs)]
    if len(names) != len(lists):
        raise ValueError(f"labels are of {len(lists)} graphs, graphs are {len(names)}")
    return [_by_name(i, one, own) for i, (one, own) in enumerate(zip(lists, names, strict=True))]


def _by_name(i: int, labels: Any, names: tuple[Hashable, ...] | None) -> Any:
    if not isinstance(labels, Mapping):
        return labels
    nodes = range(len(labels)) if names is None else names
    wrong = next((node for node in nodes if node not in labels), None)
    if wrong is not None or len(labels) != len(nodes):
        lacks = f"lacks node {wrong!r}" if wrong is not None else "has nodes that the graph has not"
        raise ValueError(f"labels[{i}] {lacks}: every node has one label")
    return [labels[node] for node in nodes]


def prepare(
    graphs: Any,
    labels: Sequence[Iterable[Hashable] | Mapping[Hashable, Hashable]],
    *,
    classes: Iterable[Hashable] | None = None,
    min_count: int = 1,
    constant: float = 0.0,
    plans: bool = False,
    ignore: Iterable[str] = (),
    **options: Any,
) -> Prepared:
    """A training set of labelled graphs: `js.fit(*prepare(graphs, labels), C=10.0)`.

    Args:
      graphs: n graphs: (nodes, edges), (nodes, edges, edge_features) or of networkx. Nodes are rows
        of features of any kind or a mapping node -> row, edges pairs of nodes.
      labels: of each graph a list of labels in the order of its nodes, of any hashable kind, or a
        mapping node -> label. None for a label that is not known, or a set of those that it may
        be: the outputs are then `Incomplete`, for `jaxstruct.fit_latent`, and with plans for
        `baselines.fit_random_field`.
      classes: all labels in the wanted order; None for those of `labels`, sorted if they can be.
      min_count: nodes (edges) that must have a named feature for it to count.
      constant: value of a feature that every node has; 0 for none.
      plans: whether to plan exact inference, for forests and graphs of small treewidth.
      ignore: names of node and edge attributes that are no features, such as that of the label.
      options: those of `graph_labelling`.

    Raises:
      ValueError: graphs, labels or an option do not fit; there is one label only.
    """
    graphs, labels = held(graphs), held(labels)
    check_flag("plans", plans)
    if isinstance(ignore, str):
        raise ValueError(f"ignore must be a list of names, got the text {ignore!r}")
    ignored = tuple(sorted(set(ignore)))
    read = read_graphs(graphs, frozenset(ignored))
    rows, offsets = read_sequences("nodes", [one.nodes for one in read])
    codec = codec_of_lists(_in_order(labels, graphs), classes, "graphs", offsets, fit_open_codec)
    nodes = fit_features(rows, min_count=min_count, constant=constant)
    edges = None
    if any(one.edge_features is not None for one in read):
        own, _ = read_sequences("edge_features", _rows_of_edges(read))
        edges = fit_features(own, min_count=min_count)
    encoding = GraphEncoding(nodes, edges, codec, plans, ignored)
    return prepared(encoding, graphs, encoding.outputs(labels, graphs), options)
