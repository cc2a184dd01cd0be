"""The course of a training as a picture: primal and dual, and their gap, by seconds of training.

Figures of matplotlib are on a canvas of their own: no display, and no global state is touched.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxstruct.core.checks import kind_and_text_of, text_of
from jaxstruct.core.files import write_file
from jaxstruct.solvers.loop.trace import Trace

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Those of Okabe and Ito (2008), which colour-blind readers can distinguish."""
SIZE = (10.0, 4.4)
DOTS_PER_INCH = 150
FORMATS = (".png", ".pdf", ".svg")
MOST_MARKED = 60


def _new_figure() -> Any:
    try:
        figures = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib, which is not installed: pip install 'jaxstruct[plots]'"
        ) from error
    figure = figures.Figure(SIZE, layout="constrained")
    importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    return figure


def _format_of(path: Any) -> str:
    """The format that the name of a picture ends in."""
    if not isinstance(path, (str, os.PathLike)) or Path(path).suffix.lower() not in FORMATS:
        raise ValueError(f"path must end in .png, .pdf or .svg, got {text_of(path)}")
    return Path(path).suffix.lower().removeprefix(".")


def _trace_of(solution: Any) -> Trace:
    trace = solution if isinstance(solution, Trace) else getattr(solution, "trace", None)
    if not isinstance(trace, Trace):
        raise ValueError(
            "solution must be a Solution of fit, its trace, or {name: one of them}, got "
            f"{kind_and_text_of(solution)}"
        )
    return trace


def trace(
    solution: Any,
    path: str | os.PathLike | None = None,
    *,
    tolerance: float | None = None,
    title: str = "",
) -> Any:
    """Draws P and D of each round, and (P - D) / |P|, against seconds without compiling.

    Of each round its own numbers: certified ones with full marks; with hollow marks what the
    oracle calls of a round estimate, which proves nothing. What was compiled stands under the axes.

    Args:
      solution: a `Solution`, or its `trace`; or {name: solution} for several in one picture.
      path: where to save it (.png, .pdf or .svg), whole or not at all; None for nowhere.
      tolerance: a gap at which to draw a line.
      title: over the panels.

    Returns:
      The matplotlib Figure.

    Raises:
      ImportError: matplotlib is not installed.
      ValueError: an argument does not fit.
      OSError: the picture cannot be written.
    """
    kind = "" if path is None else _format_of(path)
    courses = solution if isinstance(solution, Mapping) else {"": solution}
    traces = {str(name): _trace_of(one) for name, one in courses.items()}
    if not traces:
        raise ValueError("solution is an empty mapping: expected at least one solution")
    figure = _new_figure()
    objective, gap = figure.subplots(1, 2)
    for number, (name, course) in enumerate(traces.items()):
        _draw(objective, gap, course, COLOURS[number % len(COLOURS)], name)
    for style, word in (("-", "primal"), ("--", "dual")):
        objective.plot([], [], style, color="#333333", label=word)
    for fill, word in (("#333333", "certified"), ("white", "estimated")):
        objective.plot([], [], "o", color="#333333", markerfacecolor=fill, label=word)
    if tolerance is not None:
        gap.axhline(tolerance, color="#555555", linewidth=1.2, linestyle=(0, (2, 2)))
        gap.annotate(
            f"tolerance {tolerance:g}", (0.02, tolerance), color="#444444", fontsize=9,
            xycoords=("axes fraction", "data"), xytext=(0, 4), textcoords="offset points",
        )  # fmt: skip
    _label(figure, objective, gap, title, traces)
    if path is not None:
        write_file(path, lambda file: figure.savefig(file, format=kind, dpi=DOTS_PER_INCH))
    return figure


def _draw(objective: Any, gap: Any, course: Trace, colour: str, name: str) -> None:
    """One training in both panels."""
    primal, dual = (
        np.where(np.isfinite(own), own, np.nan) for own in (course.round_primal, course.round_dual)
    )
    seconds, proven = course.training_seconds, course.certified
    curves = (
        (objective, primal, "-", name or None),
        (objective, dual, "--", None),
        (gap, _relative(primal - dual, primal), "-", None),
    )
    for axes, heights, style, label in curves:
        axes.plot(seconds, heights, style, color=colour, linewidth=1.5, label=label)
        if len(seconds) > MOST_MARKED:
            continue
        for chosen, fill in ((proven, colour), (~proven, "white")):
            marks = {"color": colour, "markerfacecolor": fill, "markersize": 4.5}
            axes.plot(seconds[chosen], heights[chosen], "o", **marks)


def _relative(gap: np.ndarray, primal: np.ndarray) -> np.ndarray:
    """gap / |primal| where a logarithmic axis can show it, nan elsewhere."""
    usable = np.isfinite(gap) & (gap > 0) & np.isfinite(primal) & (primal != 0)
    return np.where(usable, gap, np.nan) / np.where(usable, np.abs(primal), 1.0)


def _label(figure: Any, objective: Any, gap: Any, title: str, traces: dict[str, Trace]) -> None:
    apart = sum(float(np.max(one.compile_seconds, initial=0.0)) for one in traces.values())
    left_out = f" (and {apart:.1f} of compiling, left out)" if apart >= 0.05 else ""
    for axes in (objective, gap):
        axes.set_xlim(left=0)
        axes.grid(color="#e2e2e2", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(f"seconds of training{left_out}")
    objective.set_ylabel("primal and dual")
    gap.set_ylabel("relative duality gap")
    gap.set_yscale("log")
    handles, words = objective.get_legend_handles_labels()
    figure.legend(
        handles, words, loc="outside lower center", ncols=min(6, len(words)), frameon=False
    )
    if title:
        figure.suptitle(title, x=0.01, ha="left")
