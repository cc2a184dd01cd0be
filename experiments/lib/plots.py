"""Figures of results, each saved with its numbers beside it.

A plot function returns a `Plot`: the figure, and a `Table` of the very numbers that it shows.

    plot = bar_groups(["HMM", "CRF"], {"paper": [9.36, 5.17], "measured": [9.41, 5.23]})
    save_figure(plot.figure, "results", "label_sequences", plot.data)
"""

from __future__ import annotations

import importlib
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from experiments.lib.files import file_in, write_results
from experiments.lib.report import Table, write_csv
from jaxstruct.core.files import write_file

COLOURS = ("#9a9a9a", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Grey, then the colours of Okabe and Ito (2008), which colour-blind readers can distinguish."""
DASHES = ("-", "--", "-.", ":")
SIZE = (8.0, 4.5)
DOTS_PER_INCH = 150
UNDATED: dict[str, dict[str, Any]] = {
    "png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None},
}  # fmt: skip
"""The formats of a picture, and what of their metadata would differ from run to run."""
MAX_LABELLED_BARS = 16
MAX_MARKERS = 12
LINE = 80
STYLE: dict[Any, Any] = {
    "font.size": 12, "axes.titlesize": 14, "axes.titlelocation": "left", "axes.titlepad": 14,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "axes.grid": True, "grid.color": "#e2e2e2", "grid.linewidth": 0.8, "axes.edgecolor": "#555555",
    "xtick.color": "#333333", "ytick.color": "#333333", "legend.frameon": False,
    "lines.linewidth": 2.0, "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.12, "figure.constrained_layout.h_pad": 0.1,
    "axes.ymargin": 0.1, "legend.borderaxespad": 0.2, "legend.borderpad": 0.2,
}  # fmt: skip


Heights: TypeAlias = Mapping[str, Sequence[float]]
"""Name of a series -> a number for each group."""
TRAINING_SECONDS = "seconds of training, without compiling"
"""What an axis of them is called."""


class Plot(NamedTuple):
    """A figure and its numbers.

    Fields:
      figure: a matplotlib Figure (Agg canvas; no global state is touched).
      data: the numbers shown, for `save_figure`.
    """

    figure: Any
    data: Table | Mapping[str, Any]


def save_figure(
    figure: Any, folder: str | os.PathLike, name: str, data: Table | Mapping[str, Any]
) -> tuple[Path, Path]:
    """Save folder/name.png and its numbers: name.plot.csv of a Table, otherwise name.plot.json.

    The same picture lies beside it as .pdf and .svg. All are written under temporary names and
    then renamed; the same figure makes the same files.

    Returns:
      The paths of the picture and of the numbers.

    Raises:
      ValueError: a path separator in `name`.
    """

    def save(kind: str) -> Path:
        options = {"format": kind, "dpi": DOTS_PER_INCH, "metadata": UNDATED[kind]}
        with _matplotlib().rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
            path = file_in(folder, f"{name}.{kind}")
            return write_file(path, lambda file: figure.savefig(file, **options))

    picture, *_ = (save(kind) for kind in UNDATED)
    if isinstance(data, Table):
        return picture, write_csv(folder, f"{name}.plot", data)
    return picture, write_results(folder, f"{name}.plot", data)


def bar_groups(
    groups: Sequence[str],
    series: Heights,
    errors: Heights | None = None,
    title: str = "",
    ylabel: str = "",
    baseline: float = 0.0,
) -> Plot:
    """Groups of bars, such as the paper's numbers beside the measured ones.

    Args:
      groups: [G] names along the axis.
      series: name -> [G] heights; nan where there is none, shown as "n/a". The first is grey.
      errors: name -> [G] half lengths of error bars, for some or all of the series.
      title, ylabel: words; the title also names the data.
      baseline: where the bars and the axis start; other than 0 cuts the bars, so say so.

    Raises:
      ValueError: lengths that differ from the number of groups, errors of an unknown series.
      ImportError: matplotlib is missing.
    """
    errors = errors or {}
    _check_bars(groups, series, errors)
    with _matplotlib().rc_context(STYLE):
        figure, axes = _axes(title)
        width, labelled = 0.8 / len(series), len(series) * len(groups) <= MAX_LABELLED_BARS
        for j, (name, heights) in enumerate(series.items()):
            places = [i + (j - (len(series) - 1) / 2) * width for i in range(len(groups))]
            bars = axes.bar(
                places, [height - baseline for height in heights], 0.92 * width, baseline,
                label=name, color=COLOURS[j % len(COLOURS)], yerr=errors.get(name), capsize=3,
                error_kw={"elinewidth": 1.2, "ecolor": "#222222"},
            )  # fmt: skip
            if labelled:
                axes.bar_label(bars, _labels(heights), padding=2, fontsize=10)
            _mark_missing(axes, places, heights, baseline)
        axes.set_xticks(range(len(groups)), [textwrap.fill(str(g), 14) for g in groups])
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set_ylabel(ylabel)
        _legend(figure, axes)
    return Plot(figure, _bar_table(title, groups, series, errors))


def factors_across(names: Sequence[str], factors: Sequence[float], title: str, xlabel: str) -> Plot:
    """A bar a name, from 1 to a factor on a logarithmic axis; for names that are many or long."""
    _check_bars(names, {xlabel: factors}, {})
    with _matplotlib().rc_context(STYLE):
        figure, axes = _axes(title)
        figure.set_size_inches(SIZE[0], max(SIZE[1], 0.25 * len(names)))
        axes.set_xscale("log")
        colours = [COLOURS[1] if factor >= 1 else COLOURS[2] for factor in factors]
        axes.barh(names, [factor - 1 for factor in factors], left=1, color=colours)
        axes.tick_params(axis="y", length=0, labelsize=9)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(xlabel)
    return Plot(figure, _bar_table(title, names, {xlabel: factors}, {}))


def curve_lines(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    title: str = "",
    xlabel: str = "passes",
    ylabel: str = "relative duality gap",
    tolerance: float | None = None,
    log_x: bool = False,
    log_y: bool = True,
    ticks: Sequence[float] | None = None,
    apart: Sequence[str] = (),
    spread: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> Plot:
    """Curves, such as the duality gap against passes or seconds.

    Args:
      curves: name -> (places [T], heights [T]); lengths may differ between curves. Heights that
        are not finite leave a hole in the line, on a logarithmic axis those that are not positive.
      title, xlabel, ylabel: words; `xlabel` says what the places are.
      tolerance: where to draw a line across, the gap that was asked for.
      log_x, log_y: which axes are logarithmic.
      ticks: the places to mark on the axis, such as those that were measured; None: round ones.
      apart: names of curves of another size, which go into a panel of their own on the right.
      spread: name -> [T] what a band of its colour reaches above and below its curve.

    Raises:
      ValueError: a curve whose two sequences differ in length, or a name in `apart` of no curve.
      ImportError: matplotlib is missing.
    """
    for name, (x, gaps) in curves.items():
        if len(x) != len(gaps):
            raise ValueError(f"curves[{name!r}]: got {len(x)} places for {len(gaps)} gaps.")
    unknown = [name for name in apart if name not in curves]
    if unknown:
        raise ValueError(f"apart: got {unknown}, expected some of {list(curves)}.")
    with _matplotlib().rc_context(STYLE):
        figure, panels = _panels(title, 2 if apart else 1)
        axes = panels[0]
        for j, (name, (x, gaps)) in enumerate(curves.items()):
            drawn, colour = [_draw(gap, log_y) for gap in gaps], COLOURS[1:][j % (len(COLOURS) - 1)]
            panel = panels[-1 if name in apart else 0]
            if name in spread:
                reach = np.nan_to_num(spread[name])
                panel.fill_between(
                    x, gaps - reach, gaps + reach, color=colour, alpha=0.15, linewidth=0
                )
            panel.plot(
                x, drawn, label=name, color=colour,
                linestyle=DASHES[j % len(DASHES)], marker="o" if len(x) <= MAX_MARKERS else None,
                markersize=4,
            )  # fmt: skip
        if tolerance is not None:
            axes.axhline(tolerance, color="#555555", linewidth=1.2, linestyle=(0, (2, 2)))
            axes.annotate(
                f"tolerance {tolerance:g}", (0.0, tolerance), xycoords=("axes fraction", "data"),
                xytext=(4, 4), textcoords="offset points", color="#444444", fontsize=10,
            )  # fmt: skip
        for panel in panels:
            panel.set_yscale("log" if log_y else "linear")
            panel.set_xscale("log" if log_x else "linear")
            for axis, log in ((panel.yaxis, log_y), (panel.xaxis, log_x)):
                if log:  # 60 and not 6 x 10^1, on axes so short that such ticks have labels
                    axis.set_minor_formatter(
                        importlib.import_module("matplotlib.ticker").LogFormatter()
                    )
            panel.set_xlabel(xlabel)
            _mark_places(panel, ticks)
        axes.set_ylabel(ylabel)
        _legend(figure, *panels)
    rows = [(name, *point) for name, (x, g) in curves.items() for point in zip(x, g, strict=True)]
    return Plot(figure, Table(title, ["curve", xlabel, ylabel], rows))


def _draw(height: float, log: bool) -> float:
    return height if math.isfinite(height) and (height > 0 or not log) else math.nan


def _matplotlib() -> Any:
    try:
        return importlib.import_module("matplotlib")
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib, which is not installed: pip install 'jaxstruct[plots]'."
        ) from error


def _axes(title: str) -> tuple[Any, Any]:
    """A figure with one panel."""
    figure, (axes,) = _panels(title, 1)
    return figure, axes


def _panels(title: str, number: int) -> tuple[Any, list[Any]]:
    """A figure of its own, so that neither a display nor pyplot's state is needed."""
    figure = importlib.import_module("matplotlib.figure").Figure(SIZE)
    panels = list(figure.subplots(1, number, squeeze=False)[0])
    panels[0].set_title(textwrap.fill(title, 64))
    return figure, panels


def _mark_places(axes: Any, ticks: Sequence[float] | None) -> None:
    """Ticks at these places and nowhere else, as plain numbers; None leaves them as they are."""
    if ticks is not None:
        axes.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)


def _legend(figure: Any, *panels: Any) -> None:
    """Below the panels, on one line where the names fit, else in columns."""
    found = [
        pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)
    ]
    handles, names = [handle for handle, _ in found], [name for _, name in found]
    if len(names) > 1:
        one_line = sum(len(name) + 6 for name in names) <= LINE
        fitting = max(1, LINE // (max(map(len, names)) + 6))
        columns = len(names) if one_line else min(len(names), fitting)
        figure.legend(handles, names, loc="outside lower center", ncols=columns)


def _labels(heights: Sequence[float]) -> list[str]:
    """The same decimals for all, such that the largest has four significant digits at most.

    Where these leave the smallest one fewer than two, each has three significant digits.
    """
    sizes = [abs(height) for height in heights if math.isfinite(height) and height]
    most = max((max(0, 3 - math.floor(math.log10(size))) for size in sizes), default=0)
    least = min((max(0, 3 - math.floor(math.log10(size))) for size in sizes), default=0)
    needed = max((len(f"{size:.4g}".partition(".")[2]) for size in sizes), default=0)

    def shown(height: float) -> str:
        if not math.isfinite(height):
            return ""
        if most - least < 3 or not height:
            return f"{height:.{min(least, needed)}f}"
        return f"{height:.{max(0, 2 - math.floor(math.log10(abs(height))))}f}"

    return [shown(height) for height in heights]


def _mark_missing(
    axes: Any, places: Sequence[float], heights: Sequence[float], floor: float
) -> None:
    for place, height in zip(places, heights, strict=True):
        if not math.isfinite(height):
            axes.annotate(
                "n/a", (place, floor), xytext=(0, 3), textcoords="offset points", ha="center",
                color="#777777", fontsize=10,
            )  # fmt: skip


def _bar_table(title: str, groups: Sequence[str], series: Heights, errors: Heights) -> Table:
    columns: list[str] = ["group"]
    for name in series:
        columns += [name, f"{name} (error)"] if name in errors else [name]
    values = {name: series[name] for name in series} | {f"{n} (error)": errors[n] for n in errors}
    rows = [(group, *(values[c][i] for c in columns[1:])) for i, group in enumerate(groups)]
    return Table(title, columns, rows)


def _check_bars(groups: Sequence[str], series: Heights, errors: Heights) -> None:
    if not series or not len(groups):
        raise ValueError("series and groups: got none; expected at least one of each.")
    for argument, values in (("series", series), ("errors", errors)):
        for name, numbers in values.items():
            if name not in series:
                raise ValueError(f"errors: got {name!r}, expected one of {list(series)}.")
            if len(numbers) != len(groups):
                raise ValueError(
                    f"{argument}[{name!r}]: got {len(numbers)} values for {len(groups)} groups; "
                    "use nan for a missing value."
                )
