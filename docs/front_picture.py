"""The picture of the README: a noisy grid, its cells read alone, and read under a graph.

    python docs/front_picture.py

draws docs/front_picture.png and writes its numbers beside it. The grids are drawn, not anybody's.
"""

from __future__ import annotations

import json
import pathlib

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import jaxstruct as js

LABELS = ("field", "water", "wood", "town")
COLOURS = ListedColormap(["#e9d8a6", "#457b9d", "#6a994e", "#bc4749"])


def landscape(random: np.random.Generator, size: int) -> tuple[tuple, np.ndarray]:
    """((features [size^2, 4] of noisy cells, edges), labels): of the nearest centre."""
    cells = np.stack(np.meshgrid(np.arange(size), np.arange(size)), axis=-1).reshape(-1, 2)
    centres = random.uniform(0, size, (size // 2, 2))
    nearest = np.argmin(((cells[:, None] - centres) ** 2).sum(axis=-1), axis=1)
    labels = random.integers(0, len(LABELS), len(centres))[nearest]
    seen = np.eye(len(LABELS))[labels] + random.normal(size=(size**2, len(LABELS)))
    number = np.arange(size**2).reshape(size, size)
    across = np.stack([number[:, :-1], number[:, 1:]], axis=-1).reshape(-1, 2)
    down = np.stack([number[:-1], number[1:]], axis=-1).reshape(-1, 2)
    return (seen, np.concatenate([across, down])), labels


def draw(path: pathlib.Path, size: int = 28, trained: int = 4) -> dict[str, float]:
    """Train, read one more grid both ways, draw it; the shares of wrong cells."""
    random = np.random.default_rng(2)
    grids, true = zip(*(landscape(random, size) for _ in range(trained + 1)), strict=True)
    named = [[LABELS[i] for i in labels] for labels in true]
    labeller = js.estimators.GraphLabeller(C=1.0, symmetric=True, tol=0.03).fit(
        grids[:-1], named[:-1]
    )
    under_graph = np.array([LABELS.index(name) for name in labeller.predict(grids[-1:])[0]])
    panels = {
        "the truth": true[-1],
        "each cell alone": grids[-1][0].argmax(axis=1),
        "under the graph": under_graph,
    }
    wrong = {name: float(np.mean(found != true[-1])) for name, found in panels.items()}
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for axis, (name, found) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axis.imshow(found.reshape(size, size), cmap=COLOURS, vmin=0, vmax=len(LABELS) - 1)
        axis.set_title(name if name == "the truth" else f"{name}: {wrong[name]:.0%} wrong")
        axis.set_axis_off()
    figure.savefig(path, dpi=110)
    numbers = {"wrong": wrong, "primal": labeller.primal_, "dual": labeller.dual_}
    path.with_suffix(".json").write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    return wrong


if __name__ == "__main__":
    draw(pathlib.Path(__file__).with_suffix(".png"))
