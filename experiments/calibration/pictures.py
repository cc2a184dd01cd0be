"""Reliability diagrams: the share that is right against the probability that was stated."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.lib.plots import COLOURS, STYLE, Plot
from experiments.lib.report import Table

SIZE = (8.0, 5.2)
MARKERS = ("o", "s", "^", "D")


def reliability_diagram(name: str, rows: Sequence[Mapping[str, Any]], fewest: int) -> Plot:
    """The diagram of one data set: a colour a machine, T = 1 dashed, the fitted T drawn through.

    Args:
      name: of the data set.
      rows: of the table of `experiments.calibration`, those of one data set.
      fewest: predictions that a bin needs to be drawn.

    Returns:
      A Plot; its numbers are the bins that are drawn.

    Raises:
      ImportError: matplotlib is missing.
    """
    matplotlib = importlib.import_module("matplotlib")
    machines = list(dict.fromkeys(row["machine"] for row in rows))
    numbers = []
    with matplotlib.rc_context(STYLE):
        figure = importlib.import_module("matplotlib.figure").Figure(SIZE)
        importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color=COLOURS[0], linewidth=1.2, label="right as often as stated")
        for row in rows:
            which = machines.index(row["machine"])
            bins = {key: np.asarray(leaf) for key, leaf in row["reliability"].items()}
            drawn = bins["count"] >= fewest
            plain = row["temperature"] == 1
            label = f"{row['machine']}, T = {row['temperature']:.3g}"
            axes.plot(
                bins["confidence"][drawn], bins["accuracy"][drawn], color=COLOURS[1 + which],
                linestyle="--" if plain else "-", marker=MARKERS[which % len(MARKERS)],
                markersize=5, markerfacecolor="white" if plain else COLOURS[1 + which],
                label=f"{label} (ECE {row['error']:.1f} %)",
            )  # fmt: skip
            columns = (bins[key][drawn].tolist() for key in ("confidence", "accuracy", "count"))
            numbers += [[label, *cells] for cells in zip(*columns, strict=True)]
        axes.set(
            xlim=(0, 1), ylim=(0, 1.03), xlabel="stated probability", ylabel="share that is right",
            title=f"Reliability, {name}",
        )  # fmt: skip
        axes.legend(loc="lower right", fontsize=10, frameon=True, facecolor="white", framealpha=0.9)
    columns = ["machine", "stated", "right", "predictions"]
    return Plot(figure, Table(f"Reliability, {name}", columns, numbers))
