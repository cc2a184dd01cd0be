"""Pictures of labelled grids: the cells as they are, as they are labelled, and which are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.lib.plots import Plot
from experiments.lib.report import Table
from experiments.snakes.data import Grids
from jaxstruct import Ragged

COLUMNS = 6
WRONG = "#c43c00"


def chosen_grids(grids: Grids, read: Ragged, count: int) -> list[int]:
    """The first grids with a wrong label, then the first ones without."""
    wrong = [bool((a != b).any()) for a, b in zip(grids.y, read, strict=True)]
    return sorted(range(len(wrong)), key=lambda i: (not wrong[i], i))[:count]


def grid_picture(grids: Grids, read: Ragged, which: Sequence[int], title: str) -> Plot:
    """Labels of some grids as numbers on shades; a wrong one has red ink and the true label below.

    Args:
      grids: what is shown. read: their labels as predicted. which: numbers of grids, at least one.
      title: over all of them.

    Raises:
      ImportError: matplotlib is missing.
    """
    from matplotlib.figure import Figure

    rows = -(-len(which) // COLUMNS)
    figure = Figure(figsize=(2.1 * COLUMNS, 2.1 * rows + 0.5), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for one in axes:
        one.set_axis_off()
    body: list[list[Any]] = []
    for axis, i in zip(axes, which, strict=False):
        h, w = (int(size) for size in grids.shapes[i])
        found, true = read[i].reshape(h, w), grids.y[i].reshape(h, w)
        axis.imshow(np.where(found > 0, found + 4, 0), cmap="Greys", vmin=0, vmax=24)
        axis.set_title(f"grid {i}", fontsize=8)
        for a, b in np.ndindex(h, w):
            right = found[a, b] == true[a, b]
            if right and not true[a, b]:
                continue
            text = f"{found[a, b]}" if right else f"{found[a, b]}\n({true[a, b]})"
            style = {} if right else {"color": WRONG, "weight": "bold"}
            axis.text(b, a, text, ha="center", va="center", fontsize=6, **style)
        body.append([i, h, w, int((found != true).sum()), " ".join(map(str, found.ravel()))])
    columns = ["grid", "height", "width", "wrong cells", "labels as predicted"]
    return Plot(figure, Table(title, columns, body, []))
