"""Topics of papers that cite one another: papers alone against collective classification.

    python -m experiments.citation_graph
    python -m experiments.citation_graph --homophily=0.5 --words=12
    python -m experiments.citation_graph --training=logistic,pseudo --prediction=icm,lbp

The graphs are drawn: a paper has a bag of words, and cites earlier papers, most of them of its own
topic. The table has the test papers that every way of training gets wrong under every oracle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from experiments.citation_graph.data import (
    Drawing,
    Papers,
    drawn_papers,
    equal_links,
    part_of,
)
from experiments.citation_graph.pictures import graph_picture
from experiments.lib import common, fields
from experiments.lib.graph_training import (
    PREDICTION,
    TRAINING,
    Model,
    Prediction,
    Stop,
    Training,
    error_of,
    in_pictures,
    notes_of,
    of_pictures,
    read_by,
    trained,
)
from experiments.lib.options import flag
from experiments.lib.plots import Plot
from experiments.lib.record import SECONDS
from experiments.lib.report import Table
from jaxstruct import Ragged


class Options(NamedTuple):
    """The flags of this command."""

    graphs: Annotated[int, flag("Graphs to learn from, and as many to test.", least=1)] = 30
    fewest: Annotated[int, flag("Papers of a graph, at least.", least=2)] = 40
    most: Annotated[int, flag("Papers of a graph, at most.", least=2)] = 80
    topics: Annotated[int, flag("Topics, the labels.", least=2)] = 6
    vocabulary: Annotated[int, flag("Words in all; every topic has its part.", least=2)] = 120
    words: Annotated[int, flag("Words drawn for a paper.", least=1)] = 6
    focus: Annotated[float, flag("Part of a paper's words of its topic.", least=0, most=1)] = 0.3
    citations: Annotated[int, flag("Of a paper, at most.", least=1)] = 3
    homophily: Annotated[
        float, flag("Part of the citations that stay in the topic.", least=0, most=1)
    ] = 0.8
    training: Training = TRAINING
    prediction: Prediction = PREDICTION
    c_over_n: Annotated[float, flag("C' = C / n.", above=0)] = 0.1
    passes: Annotated[int, flag("Of message passing, at most.", least=1)] = 20
    tolerance: fields.Tolerance = 1e-2
    most_passes: Annotated[int, flag("Of training, at most.", least=1)] = 200
    picture: Annotated[bool, flag("Draw the first test graph.")] = True
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None


class _Data(NamedTuple):
    """What the measurements are of."""

    drawing: Drawing
    train: list[Papers]
    test: list[Papers]
    dtype: str


def run(options: Options) -> common.Outcome:
    """Draw, train, test, print the table and write it.

    Raises:
      ValueError: an option that does not fit.
    """
    dtype = common.prepare(options)
    if options.most < options.fewest:
        raise ValueError(f"most: got {options.most}, expected at least fewest = {options.fewest}")
    if options.vocabulary < options.topics:
        raise ValueError(
            f"vocabulary: got {options.vocabulary}, expected a word a topic, {options.topics}"
        )
    rng = np.random.default_rng(options.seed)
    drawing = Drawing(
        options.fewest, options.most, options.topics, options.vocabulary, options.words,
        options.focus, options.citations, options.homophily,
    )  # fmt: skip
    train, test = ([drawn_papers(rng, drawing) for _ in range(options.graphs)] for _ in range(2))
    data = _Data(drawing, train, test, dtype)
    rows: list[dict[str, Any]] = []
    shown: dict[str, Ragged] = {}
    with common.kept_if_stopped("citation_graph", options, "citation_graph", {"rows": rows}):
        for row, read in _measurements(options, data):
            rows.append(row)
            shown[row["training"]] = read
    plots = {"citation_graph": _picture(options, data, shown)} if options.picture else {}
    table = _table(options, data, rows)
    return common.save("citation_graph", options, "citation_graph", table, {"rows": rows}, plots)


def _measurements(options: Options, data: _Data) -> Iterator[tuple[dict[str, Any], Ragged]]:
    train, test = (part_of(own, data.drawing, data.dtype) for own in (data.train, data.test))
    model = Model(data.drawing.features, options.topics, True, options.passes, data.dtype)
    stop = Stop(options.tolerance, options.most_passes, options.progress)
    for name in options.training:
        weights, row = trained(model, train, name, options.c_over_n, stop)
        read = read_by(model, test, name, weights, options.prediction)
        errors = {oracle: error_of(test.y, labelled) for oracle, labelled in read.items()}
        links = {oracle: equal_links(data.test, labelled) for oracle, labelled in read.items()}
        report = row | {"test_errors": errors, "equal_links": links}
        yield report, read[of_pictures(options.prediction)]


def _picture(options: Options, data: _Data, shown: dict[str, Ragged]) -> Plot:
    """The truth, the first labeller of papers alone and the first one with links."""
    spoken = {"independent": "papers alone, SVM", "svm": "with links, SVM"}
    read = {spoken.get(name, name): shown[name][0] for name in in_pictures(options.training)}
    title = f"The first test graph, predicted by {of_pictures(options.prediction)}"
    return graph_picture(data.test[0], read, title)


def _table(options: Options, data: _Data, rows: Sequence[dict[str, Any]]) -> Table:
    columns = [
        "trained by", "status", ("objective", "P, by the bound"), ("objective", "D"),
        *(("test papers wrong %, predicted by", name) for name in options.prediction),
        *(("links of equal labels %, by", name) for name in options.prediction), *SECONDS,
    ]  # fmt: skip
    body = [
        [row["training"], row["status"].name, f"{row['primal']:.2f}",
         None if row["dual"] is None else f"{row['dual']:.2f}",
         *(row["test_errors"][name] for name in options.prediction),
         *(row["equal_links"][name] for name in options.prediction), row["seconds"],
         row["compile_seconds"]]
        for row in rows
    ]  # fmt: skip
    papers, links = (sum(len(one[k]) for one in data.test) for k in (0, 2))
    truth = equal_links(data.test, part_of(data.test, data.drawing, data.dtype).y)
    notes = [
        f"{options.graphs} graphs train, as many test ({papers} papers, {links} links, "
        f"{truth:.1f} % of them between equal topics); {options.topics} topics, {options.words} "
        f"words a paper; C' = {options.c_over_n:g}, tolerance {options.tolerance:g}.",
        *notes_of(options.passes, "paper"),
    ]
    return Table("Topics of papers that cite one another", columns, body, notes)
