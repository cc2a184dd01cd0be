"""Figures of matplotlib on a canvas of their own: no display, and no global state is touched."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from jaxstruct.core.checks import text_of
from jaxstruct.core.files import write_file

DOTS_PER_INCH = 150
FORMATS = (".png", ".pdf", ".svg")


def new_figure(width: float, height: float) -> Any:
    """An empty Figure of so many inches.

    Raises:
      ImportError: matplotlib is not installed.
    """
    try:
        figures = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib, which is not installed: pip install 'jaxstruct[plots]'"
        ) from error
    figure = figures.Figure((width, height), layout="constrained")
    importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    return figure


def check_picture_path(path: Any) -> None:
    """Raise ValueError unless it is None or the path of a PNG, PDF or SVG file."""
    if path is None:
        return
    if not isinstance(path, (str, os.PathLike)) or Path(path).suffix.lower() not in FORMATS:
        raise ValueError(f"path must end in .png, .pdf or .svg, got {text_of(path)}")


def save_picture(figure: Any, path: str | os.PathLike) -> Path:
    """Writes a figure, whole or not at all, in the format that the name ends in."""
    kind = Path(path).suffix.lower().removeprefix(".")
    return write_file(path, lambda file: figure.savefig(file, format=kind, dpi=DOTS_PER_INCH))
