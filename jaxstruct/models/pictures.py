"""What a model has learned as a picture: bars of rankings and support outputs, maps of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxstruct.core.checks import check_record
from jaxstruct.core.tables import Explanation, Matrix, Support, Table, shown

MOST_DRAWN = 24
"""Tables in one picture; further ones are left out, and the title says so."""
_COLUMNS = 3


def explanation_picture(explanation: Explanation) -> Any:
    """An explanation as a matplotlib figure; `figure.savefig("model.png")` writes it.

    Rankings are bars, those above 0 to the right; matrices maps, red above 0 and blue below;
    support outputs bars as long as their alpha.

    Args:
      explanation: of `explain`.

    Returns:
      A `matplotlib.figure.Figure`. No window opens, and no state of pyplot is touched.

    Raises:
      ImportError: matplotlib is missing.
      ValueError: it is no explanation.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib, which is not installed: pip install 'jaxstruct[experiments]'"
        ) from error
    check_record("explanation", explanation, Explanation, "jaxstruct.explain")
    tables = explanation.tables[:MOST_DRAWN]
    columns = min(_COLUMNS, len(tables))
    lines = -(-len(tables) // columns)
    heights = [
        max(map(_height, tables[at : at + columns])) for at in range(0, len(tables), columns)
    ]
    figure = Figure(figsize=(4.6 * columns, sum(heights)), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, height_ratios=heights)
    for axes, table in zip(grid.ravel(), tables, strict=False):
        _draw(axes, table)
    for axes in grid.ravel()[len(tables) :]:
        axes.set_axis_off()
    left_out = len(explanation.tables) - len(tables)
    more = f" ({left_out} more tables are not drawn)" if left_out else ""
    figure.suptitle(shown(explanation.title, 52 * columns) + more, fontsize=9)
    return figure


def _height(table: Table) -> float:
    """Inches."""
    rows = len(table.rows) if isinstance(table, Matrix) else len(_names(table))
    return 1.0 + 0.24 * max(rows, 3)


def _names(table: Any) -> tuple[str, ...]:
    return table.outputs if isinstance(table, Support) else table.names


def _draw(axes: Any, table: Table) -> None:
    axes.set_title(shown(table.title, 56), fontsize=9, loc="left")
    axes.tick_params(labelsize=8)
    if isinstance(table, Matrix):
        _draw_matrix(axes, table)
        return
    values = table.alpha if isinstance(table, Support) else table.weights
    places = np.arange(len(values))
    axes.barh(places, values, color=np.where(values < 0, "tab:blue", "tab:red"))
    axes.set_yticks(places, [shown(name, 34) for name in _names(table)])
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("alpha" if isinstance(table, Support) else "weight", fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_matrix(axes: Any, table: Matrix) -> None:
    most = max(float(np.abs(table.values).max(initial=0)), 1e-12)
    image = axes.imshow(table.values, cmap="coolwarm", vmin=-most, vmax=most, aspect="auto")
    axes.set_xticks(range(len(table.columns)), [shown(name, 12) for name in table.columns])
    axes.set_yticks(range(len(table.rows)), [shown(name, 12) for name in table.rows])
    axes.tick_params(axis="x", rotation=45 if max(map(len, table.columns)) > 3 else 0)
    axes.figure.colorbar(image, ax=axes, shrink=0.9).ax.tick_params(labelsize=8)
