"""Learn from labelled graphs, and label graphs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from experiments.label_graphs.data import Graph
from experiments.lib import fields
from experiments.lib.options import flag
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from jaxstruct import Problem, Solution, fit, predict, ragged
from jaxstruct.core.labels import LabelCodec, decode, encode, fit_codec
from jaxstruct.data.errors import MalformedFile
from jaxstruct.graphs.decoding import NAMES
from jaxstruct.graphs.inputs import GraphInput, graph_inputs
from jaxstruct.graphs.structure import graph_labelling

FORMULATIONS = ("svm1_margin", "svm1_slack", "svm2_slack")
"""Those that additive losses serve by every oracle."""
LOSSES = ("hamming", "normalised_hamming")


class Options(fields.Training):
    """The flags of this command."""

    train: Sequence[str] = flag((), "Graphs to learn from: NPZ files, or CSV files of nodes.")
    train_edges: Sequence[str] = flag(
        (), "CSV files of the edges of --train, one for each CSV file of nodes."
    )
    test: Sequence[str] = flag((), "Graphs to label, as --train; labels may be missing.")
    test_edges: Sequence[str] = flag((), "CSV files of the edges of --test.")
    formulation: str = flag(
        "svm1_margin", "Formulation to train; svm1_margin is a good first choice.", FORMULATIONS
    )
    c_over_n: float = flag(0.1, "C' = C / n, n training graphs.", above=0)
    loss: str = flag(
        "hamming", "What a wrong node costs in training: 1, or its share of the graph.", LOSSES
    )
    inference: str = flag(
        "reweighted",
        "reweighted: any graph, with a bound; elimination: exact, forests and small "
        "treewidth; enumeration: exact, a few nodes; modes, propagation: cheap, without a "
        "proof.",
        NAMES,
    )
    passes: int = flag(100, "Passes of message passing, at most.", least=1)
    symmetric: bool = flag(False, "Give an edge the same score in either direction.")
    constant: bool = flag(True, "Give every node a further feature of 1.")
    tolerance: float = 1e-2
    max_passes: int = flag(500, "Rounds of the training at most.", least=1)


class Part(NamedTuple):
    """Some graphs and the labels that were found, an array a graph."""

    graphs: Sequence[Graph]
    found: Sequence[np.ndarray]


class Labelled(NamedTuple):
    """A training, and what it labels.

    Fields:
      labels, kinds: their values in the order of the weights. solution: of `fit`.
      train, test: parts; test may be empty. seconds, compile_seconds: of training in all, and
        of compiling among them. labelling_seconds: of labelling all.
    """

    labels: LabelCodec
    kinds: LabelCodec | None
    solution: Solution
    train: Part
    test: Part
    labelling_seconds: float
    seconds: float
    compile_seconds: float


def _values(arrays: Sequence[np.ndarray]) -> list[Hashable]:
    return [value for array in arrays for value in array.tolist()]


def _codec(known: Sequence[Graph]) -> LabelCodec:
    labels = [one.labels for one in known if one.labels is not None]
    if not labels:
        raise MalformedFile(f"{known[0].where}: training graphs need labels")
    codec = fit_codec(_values(labels))
    first, *others = codec.classes
    if not others:
        raise MalformedFile(
            f"{known[0].where}: all nodes have the label {first}, expected two or more"
        )
    return codec


def _kinds(known: Sequence[Graph]) -> LabelCodec | None:
    kinds = [one.kinds for one in known if one.kinds is not None]
    return fit_codec(_values(kinds)) if any(map(len, kinds)) else None


def _check_fits(known: Sequence[Graph], new: Sequence[Graph], kinds: LabelCodec | None) -> None:
    """New graphs have the features and kinds of the known ones."""
    for one in new:
        for name in ("nodes", "edge_features"):
            own, wanted = getattr(one, name).shape[1], getattr(known[0], name).shape[1]
            if own != wanted:
                features = "node features" if name == "nodes" else "edge features"
                raise MalformedFile(
                    f"{one.where}: {own} {features}, but the training graphs have {wanted}"
                )
        if (one.kinds is None) != (known[0].kinds is None):
            raise MalformedFile(
                f"{one.where}: kinds of edges must be there as in the training graphs"
            )
        if one.kinds is None:
            continue
        seen = set(kinds.classes) if kinds else set()
        unseen = [kind for kind in one.kinds.tolist() if kind not in seen]
        if unseen:
            raise MalformedFile(
                f"{one.where}: an edge is of kind {unseen[0]}, which no training graph has"
            )


def inputs_of(
    options: Options, graphs: Sequence[Graph], kinds: LabelCodec | None, dtype: str
) -> GraphInput:
    """The graphs as inputs of `graph_labelling`."""
    nodes = [one.nodes.astype(dtype) for one in graphs]
    if options.constant:
        nodes = [np.concatenate([own, np.ones((len(own), 1), dtype)], axis=1) for own in nodes]
    p = graphs[0].edge_features.shape[1]
    return graph_inputs(
        nodes,
        [one.edges for one in graphs],
        edge_features=[one.edge_features.astype(dtype) for one in graphs] if p else None,
        kinds=[encode(kinds, one.kinds) for one in graphs if one.kinds is not None]
        if kinds
        else None,
        plans=options.inference == "elimination",
    )


def _problem(options: Options, graph: Graph, labels: int, kinds: int, dtype: str) -> Problem:
    return graph_labelling(
        graph.nodes.shape[1] + options.constant,
        labels,
        number_of_edge_features=graph.edge_features.shape[1],
        edge_kinds=kinds,
        symmetric=options.symmetric,
        loss=options.loss,
        inference=options.inference,
        passes=options.passes,
        dtype=dtype,
    )


def train_and_label(
    options: Options, known: Sequence[Graph], new: Sequence[Graph], dtype: str
) -> Labelled:
    """Train on known graphs, and label these and the new ones.

    Raises:
      MalformedFile: no labels to learn from, or graphs that do not fit together.
      ValueError: an option does not fit the graphs.
    """
    codec, kinds = _codec(known), _kinds(known)
    _check_fits(known, new, kinds)
    problem = _problem(
        options, known[0], len(codec.classes), len(kinds.classes) if kinds else 1, dtype
    )
    x = inputs_of(options, known, kinds, dtype)
    y = ragged([encode(codec, one.labels) for one in known if one.labels is not None])
    watch = Stopwatch()
    with training_progress(
        options.max_passes, "training", options.progress, options.tolerance
    ) as update:
        solution = fit(
            problem, x, y, options.formulation, options.c_over_n * len(known),
            tolerance=options.tolerance, max_passes=options.max_passes,
            settings=options.settings(), callback=update,
        )  # fmt: skip
    spent = watch.numbers(solution.weights)
    watch = Stopwatch()

    def labelled(graphs: Sequence[Graph], inputs: GraphInput) -> Part:
        read = predict(problem, solution, inputs)
        return Part(graphs, [np.array(decode(codec, own)) for own in read])

    train = labelled(known, x)
    test = labelled(new, inputs_of(options, new, kinds, dtype)) if new else Part([], [])
    return Labelled(codec, kinds, solution, train, test, watch.elapsed().wall, **spent)
