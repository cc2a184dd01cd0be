"""A picture of one graph of papers: topics as they are, and as labellers read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.citation_graph.data import Papers
from experiments.lib.plots import COLOURS, Plot
from experiments.lib.report import Table
from jaxstruct.graphs.pictures import graph_places

WRONG = "#c40000"


def graph_picture(papers: Papers, read: Mapping[str, np.ndarray], title: str) -> Plot:
    """One graph, a panel for the truth and one a labeller; wrong nodes have a red ring.

    Args:
      papers: the graph. read: name -> [V] labels. title: over all of it.

    Raises:
      ImportError: matplotlib is missing.
    """
    from matplotlib.figure import Figure

    places = graph_places(len(papers.y), papers.links)
    inks = np.array(COLOURS[1:7] + COLOURS[:1])
    figure = Figure(figsize=(5.2 * (1 + len(read)), 5.4), layout="constrained")
    figure.suptitle(title)
    panels = {"true topics": papers.y} | dict(read)
    body: list[list[Any]] = []
    for axis, (name, labels) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        wrong = labels != papers.y
        for a, b in papers.links:
            axis.plot(*places[[a, b]].T, color="#bbbbbb", linewidth=0.8, zorder=1)
        axis.scatter(
            *places.T, c=inks[labels % len(inks)], s=np.where(wrong, 90, 55), zorder=2,
            edgecolors=np.where(wrong, WRONG, "white"), linewidths=np.where(wrong, 2.5, 0.8),
        )  # fmt: skip
        told = f": {int(wrong.sum())} of {len(wrong)} wrong" if name in read else ""
        axis.set_title(f"{name}{told}", fontsize=11)
        axis.set_axis_off()
        axis.set_aspect("equal")
        body += [[v, name, int(label)] for v, label in enumerate(labels)]
    return Plot(figure, Table(title, ["paper", "labels", "topic"], body, []))
