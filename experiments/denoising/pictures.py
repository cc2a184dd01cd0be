"""Pictures of denoised grids: the labels, what is seen of them, and what two labellers read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.denoising.data import Grids
from experiments.lib.plots import COLOURS, Plot
from experiments.lib.report import Table

WRONG = "#c43c00"


def _palette(labels: int) -> np.ndarray:
    """[S, 3] a light colour a label; two labels are light and dark grey."""
    if labels == 2:
        return np.array([[0.93, 0.93, 0.93], [0.35, 0.35, 0.35]])
    chosen = [COLOURS[1 + k % (len(COLOURS) - 2)] for k in range(labels)]
    inks = np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in chosen]) / 255
    return 0.35 + 0.65 * inks


def _mixed(channels: np.ndarray, palette: np.ndarray) -> np.ndarray:
    """[h, w, 3] the colours of all labels, each by how much its channel speaks for it."""
    weights = np.exp(2 * (channels - channels.max(axis=-1, keepdims=True)))
    return weights / weights.sum(axis=-1, keepdims=True) @ palette


def grid_picture(grids: Grids, read: Mapping[str, np.ndarray], count: int, title: str) -> Plot:
    """The first grids, one a row: truth, channels, then every labeller, its wrong cells dotted.

    Args:
      grids: what is shown. read: name -> [n, h, h] labels. count: of grids, at least one.
      title: over all of them.

    Raises:
      ImportError: matplotlib is missing.
    """
    from matplotlib.figure import Figure

    count, palette = min(count, len(grids.y)), _palette(grids.channels.shape[-1])
    figure = Figure(figsize=(2.3 * (2 + len(read)), 2.4 * count + 0.5), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(count, 2 + len(read), squeeze=False)
    body: list[list[Any]] = []
    for i, row in enumerate(axes):
        true = grids.y[i]
        panels = {"true labels": palette[true], "as seen": _mixed(grids.channels[i], palette)}
        panels |= {name: palette[labels[i]] for name, labels in read.items()}
        for axis, (name, colours) in zip(row, panels.items(), strict=True):
            axis.imshow(colours)
            axis.set_xticks([])
            axis.set_yticks([])
            wrong = read[name][i] != true if name in read else np.zeros_like(true, bool)
            rows, columns = np.nonzero(wrong)
            axis.plot(columns, rows, ".", color=WRONG, markersize=5)
            told = f": {100 * wrong.mean():.0f} % wrong" if name in read else ""
            axis.set_title(f"{name}{told}", fontsize=9)
        body += [[i, name, " ".join(map(str, labels[i].ravel()))]
                 for name, labels in ({"true labels": grids.y} | dict(read)).items()]  # fmt: skip
    return Plot(figure, Table(title, ["grid", "labels", "row after row"], body, []))
