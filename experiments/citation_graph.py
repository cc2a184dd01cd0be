"""Topics of papers that cite one another: papers alone against collective classification.

    python -m experiments.citation_graph
    python -m experiments.citation_graph --homophily=0.5 --words=12
    python -m experiments.citation_graph --training=logistic,pseudo --prediction=icm,lbp

The graphs are drawn: a paper has a bag of words, and cites earlier papers, most of them of its own
topic. The table has the test papers that every way of training gets wrong under every oracle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import common, graph_training
from experiments.lib.factor_pictures import graph_places
from experiments.lib.graph_training import (
    Model,
    Part,
    Stop,
    error_of,
    in_pictures,
    notes_of,
    of_pictures,
    read_by,
    trained,
)
from experiments.lib.options import flag
from experiments.lib.plots import COLOURS, Plot
from experiments.lib.record import SECONDS
from experiments.lib.report import Columns, Table, rows_table
from experiments.tasks.papers import Drawing, Papers, drawn_papers
from jaxstruct import Ragged, ragged
from jaxstruct.core.types import SparseFeatures
from jaxstruct.graphs.inputs import graph_inputs


def _rows(papers: Papers, drawing: Drawing, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """([V, words + 1] indices, their values): each word once, then padding; the last is the 1."""
    words = np.sort(papers.words, axis=1)
    again = np.pad(words[:, 1:] == words[:, :-1], [(0, 0), (1, 0)])
    indices = np.where(again, drawing.features, words)
    indices = np.pad(indices, [(0, 0), (0, 1)], constant_values=drawing.vocabulary)
    return indices.astype(np.int32), (indices < drawing.features).astype(dtype)


def part_of(graphs: list[Papers], drawing: Drawing, dtype: str) -> Part:
    """As labelled graphs: a node a paper, its words (and a 1) as sparse features."""
    rows = [_rows(one, drawing, dtype) for one in graphs]
    nodes = SparseFeatures(
        ragged([own[0] for own in rows], drawing.features), ragged([own[1] for own in rows])
    )
    y = ragged([one.y.astype(np.int32) for one in graphs])
    return Part(
        graph_inputs(nodes, [one.links for one in graphs]),
        graph_inputs(nodes, [np.zeros((0, 2), np.int32)] * len(graphs)),
        Ragged(y.rows, y.offsets, -1),
    )


def equal_links(graphs: list[Papers], y: Ragged) -> float:
    """Citations that join equal labels, in %."""
    alike = [own[one.links[:, 0]] == own[one.links[:, 1]]
             for one, own in zip(graphs, y, strict=True)]  # fmt: skip
    return 100 * float(np.concatenate(alike).mean())


# A picture of one graph of papers: topics as they are, and as labellers read them.

WRONG = "#c40000"


def graph_picture(papers: Papers, read: Mapping[str, np.ndarray], title: str) -> Plot:
    """One graph, a panel for the truth and one a labeller; wrong nodes have a red ring.

    Args:
      papers: the graph. read: name -> [V] labels. title: over all of it.

    Raises:
      ImportError: matplotlib is missing.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    places = graph_places(len(papers.y), papers.links)
    inks = np.array(COLOURS[1:7] + COLOURS[:1])
    figure = Figure(figsize=(5.2 * (1 + len(read)), 5.4), layout="constrained")
    figure.suptitle(title)
    panels = {"true topics": papers.y} | dict(read)
    legend: dict[str, dict[str, Any]] = {
        f"topic {k}": {"color": inks[k % len(inks)]} for k in np.unique([*panels.values()])
    }
    legend["read wrong"] = {"color": "white", "markeredgecolor": WRONG, "markeredgewidth": 2.5}
    handles = [Line2D([], [], marker="o", linestyle="", **style) for style in legend.values()]
    figure.legend(handles, list(legend), loc="outside lower center", ncols=len(legend))
    body: list[list[Any]] = []
    for axis, (name, labels) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        wrong = labels != papers.y
        for a, b in papers.links:
            axis.plot(*places[[a, b]].T, color="#bbbbbb", linewidth=0.8, zorder=1)
        axis.scatter(
            *places.T, c=inks[labels % len(inks)], s=np.where(wrong, 90, 55), zorder=2,
            edgecolors=np.where(wrong, WRONG, "white"), linewidths=np.where(wrong, 2.5, 0.8),
        )  # fmt: skip
        count = f": {int(wrong.sum())} of {len(wrong)} wrong" if name in read else ""
        axis.set_title(f"{name}{count}", fontsize=11)
        axis.set_axis_off()
        axis.set_aspect("equal")
        body += [[v, name, int(label)] for v, label in enumerate(labels)]
    return Plot(figure, Table(title, ["paper", "labels", "topic"], body, []))


class Options(graph_training.Options):
    """The flags of this command."""

    graphs: int = flag(30, "Graphs to learn from, and as many to test.", least=1)
    fewest: int = flag(40, "Papers of a graph, at least.", least=2)
    most: int = flag(80, "Papers of a graph, at most.", least=2)
    topics: int = flag(6, "Number of topics, which are the labels.", least=2)
    vocabulary: int = flag(
        120, "Words of the vocabulary, which the topics share out among them.", least=2
    )
    words: int = flag(6, "Words drawn for a paper.", least=1)
    focus: float = flag(0.3, "Share of a paper's words that are of its topic.", least=0, most=1)
    citations: int = flag(3, "Papers that a paper cites, at most.", least=1)
    homophily: float = flag(0.8, "Share of the citations that stay in the topic.", least=0, most=1)
    picture: bool = flag(True, "Draw the first test graph.")


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
    with common.kept_if_stopped(options, {"rows": rows}):
        for row, read in _measurements(options, data):
            rows.append(row)
            shown[row["training"]] = read
    plots = {"citation_graph": _picture(options, data, shown)} if options.picture else {}
    table = _table(options, data, rows)
    return common.save(options, table, {"rows": rows}, plots)


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
    titles = {"independent": "papers alone, SVM", "svm": "with links, SVM"}
    read = {titles.get(name, name): shown[name][0] for name in in_pictures(options.training)}
    title = f"The first test graph, predicted by {of_pictures(options.prediction)}"
    return graph_picture(data.test[0], read, title)


def _table(options: Options, data: _Data, rows: Sequence[dict[str, Any]]) -> Table:
    columns: Columns = {
        "trained by": "training", "status": "status",
        ("objective", "P, by the bound"): "primal:.2f", ("objective", "D"): "dual:.2f",
        **{
            ("test papers wrong %, predicted by", name): f"test_errors.{name}"
            for name in options.prediction
        },
        **{
            ("links of equal labels %, by", name): f"equal_links.{name}"
            for name in options.prediction
        },
        **SECONDS,
    }  # fmt: skip
    papers, links = (sum(len(one[k]) for one in data.test) for k in (0, 2))
    truth = equal_links(data.test, part_of(data.test, data.drawing, data.dtype).y)
    notes = [
        f"{options.graphs} graphs train, as many test ({papers} papers, {links} links, "
        f"{truth:.1f} % of them between equal topics); {options.topics} topics, {options.words} "
        f"words a paper; C' = {options.c_over_n:g}, tolerance {options.tolerance:g}.",
        *notes_of(options.passes, "paper"),
    ]
    worst = max(rows, key=lambda row: max(row["test_errors"].values()))
    if worst["training"] == "pseudo":
        notes.append(
            "pseudo is worst: it is trained on the true topics of neighbours alone, which makes "
            "links so strong that the best labelling has nearly one topic; what stops early reads "
            "better."
        )
    return rows_table("Topics of papers that cite one another", columns, rows, notes)
