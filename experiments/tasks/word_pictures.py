"""Pictures of handwriting: words as they were read, and the course of a training.

Both come with their numbers, as every `experiments.lib.plots.Plot`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib.plots import TRAINING_SECONDS, Plot
from experiments.lib.report import Table
from experiments.tasks.handwriting import CAPITALS, Data, describe
from jaxstruct import plots
from jaxstruct.solvers.loop.trace import Trace

HEIGHT, WIDTH = 16, 8
MARGIN = 1
PITCH = WIDTH + 2 * MARGIN + 1
"""From a letter to the next, in pixels of the data, of which a letter is 16 x 8."""
LINE = 37
"""From a row of words to the next: the letter, what was read, what is written."""
GAP = 12
"""Between columns of words."""
COLUMNS = 4
UNITS_PER_INCH = 32
TOP, BOTTOM, SIDE = 26, 18, 8
PAPER, INK = "#f1f1f0", "#1f1f1f"
WRONG_PAPER, WRONG_INK = "#fbdfcd", "#8f2d00"
RIGHT_TEXT, WRONG_TEXT, TRUE_TEXT = "#007a58", "#c43c00", "#555555"


class _Place(NamedTuple):
    """Where a word stands: the left edge and the top of its first letter, in pixels."""

    left: int
    top: int


def word_picture(
    data: Data,
    described: Sequence[Mapping[str, Any]],
    title: str,
    remark: str = "",
    columns: int = COLUMNS,
) -> Plot:
    """A grid of words: each letter, under it what was read and, where wrong, what is written.

    A wrong letter has red paper and red ink besides, and only it has the true letter below, so that
    the picture does without colours.

    Args:
      data: where the images come from.
      described: words as `handwriting_machines.described` gives them, at least one.
      title: over the grid. remark: under it, on the right.
      columns: of words; short words go to the left.

    Returns:
      A Plot; its numbers hold, beside each word, its images as 32 hexadecimal digits a letter, two
      for each of the 16 rows.
    """
    ordered = sorted(described, key=lambda word: (len(word["written"]), word["word"]))
    places, width, height = _places(ordered, columns)
    canvas = np.ones((height, width, 3))
    for word, place in zip(ordered, places, strict=True):
        _draw_letters(canvas, data, word, place)
    figure, axes = _sheet(canvas)
    for word, place in zip(ordered, places, strict=True):
        _write_letters(axes, word, place)
    axes.text(SIDE, TOP / 2, title, fontsize=15, va="center", color="#111111")
    _legend(axes, remark)
    return Plot(figure, {"title": title, "words": [_with_images(data, word) for word in ordered]})


def _places(words: Sequence[Mapping[str, Any]], columns: int) -> tuple[list[_Place], int, int]:
    """Where each word goes, column by column, and the width and height of the sheet."""
    rows = -(-len(words) // columns)
    places, left = [], SIDE
    for start in range(0, len(words), rows):
        column = words[start : start + rows]
        places += [_Place(left, TOP + LINE * row) for row in range(len(column))]
        left += PITCH * max(len(word["written"]) for word in column) + GAP
    return places, max(left - GAP + SIDE, 300), TOP + LINE * rows + BOTTOM


def _images(data: Data, word: int) -> np.ndarray:
    """[letters, 16, 8] bool."""
    own = slice(*data.words.offsets[word : word + 2])
    return data.words.pixels[own].reshape(-1, HEIGHT, WIDTH).astype(bool)


def _with_images(data: Data, word: Mapping[str, Any]) -> dict[str, Any]:
    images = np.packbits(_images(data, word["word"]), axis=2)
    return dict(word) | {"images": [image.tobytes().hex() for image in images]}


def _draw_letters(canvas: np.ndarray, data: Data, word: Mapping[str, Any], place: _Place) -> None:
    from matplotlib.colors import to_rgb

    wrong = set(np.asarray(word["wrong"]).tolist())
    for t, image in enumerate(_images(data, word["word"])):
        paper, ink = (WRONG_PAPER, WRONG_INK) if t in wrong else (PAPER, INK)
        framed = np.pad(image, MARGIN)
        tile = np.where(framed[..., None], to_rgb(ink), to_rgb(paper))
        left = place.left + PITCH * t
        canvas[place.top : place.top + len(tile), left : left + tile.shape[1]] = tile


def _sheet(canvas: np.ndarray) -> tuple[Any, Any]:
    """A figure that is the canvas, one axis over all of it."""
    from matplotlib.figure import Figure

    figure = Figure((canvas.shape[1] / UNITS_PER_INCH, canvas.shape[0] / UNITS_PER_INCH))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(canvas, interpolation="nearest", aspect="equal", extent=(
        0, canvas.shape[1], canvas.shape[0], 0
    ))  # fmt: skip
    axes.set_axis_off()
    return figure, axes


def _write_letters(axes: Any, word: Mapping[str, Any], place: _Place) -> None:
    under = place.top + HEIGHT + 2 * MARGIN
    for t, (true, read) in enumerate(zip(word["written"], word["read"], strict=True)):
        centre = place.left + PITCH * t + MARGIN + WIDTH / 2
        right = true == read
        axes.text(
            centre, under + 0.3, read, ha="center", va="top", fontsize=14,
            color=RIGHT_TEXT if right else WRONG_TEXT, weight="normal" if right else "bold",
        )  # fmt: skip
        if not right:
            axes.text(
                centre, under + 8.2, true, ha="center", va="top", fontsize=12, color=TRUE_TEXT,
                style="italic",
            )  # fmt: skip


def _legend(axes: Any, remark: str) -> None:
    """One line at the foot of the sheet, each part in its own colour; the remark on the right."""
    from matplotlib.offsetbox import AnchoredOffsetbox, HPacker, TextArea

    parts = [
        ("a  read as written", RIGHT_TEXT, "normal", "normal"),
        ("a  read wrong,", WRONG_TEXT, "bold", "normal"),
        ("and below it what is written", TRUE_TEXT, "normal", "italic"),
    ]
    words = [
        TextArea(text, textprops={"color": colour, "weight": weight, "style": style, "size": 12})
        for text, colour, weight, style in parts
    ]
    line = HPacker(children=list(words), pad=0, sep=18)
    axes.add_artist(AnchoredOffsetbox(
        "lower left", child=line, frameon=False, borderpad=0, pad=0,
        bbox_to_anchor=(SIDE, axes.get_ylim()[0] - 6), bbox_transform=axes.transData,
    ))  # fmt: skip
    axes.text(
        axes.get_xlim()[1] - SIDE, axes.get_ylim()[0] - 6, remark, ha="right", va="bottom",
        fontsize=11, color=TRUE_TEXT,
    )  # fmt: skip


def course_picture(
    rows: Sequence[Mapping[str, Any]], title: str, tolerance: float | None = None
) -> Plot:
    """Primal and dual of each round of trainings, and their gap, by seconds without compiling.

    Args:
      rows: machines with "machine" and "history" (a `Trace`); rounds that were not certified show
        what their oracle calls estimate, with marks of their own.
      title: over the axes. tolerance: the gap asked for, a line across.
    """
    courses = {row["machine"]: row["history"] for row in rows}
    figure = plots.trace(courses, tolerance=tolerance, title=title)
    columns = ["machine", TRAINING_SECONDS, "primal", "dual", "certified"]
    points = [(name, *point) for name, course in courses.items() for point in _course(course)]
    return Plot(figure, Table(title, columns, points))


def _course(history: Trace) -> list[tuple]:
    """Seconds without compiling, primal, dual and "yes" or "no" of the rounds that have both."""
    columns = history.training_seconds, history.round_primal, history.round_dual
    rounds = zip(*(column.tolist() for column in columns), history.certified, strict=True)
    return [
        (*row, "yes" if certified else "no") for *row, certified in rounds if np.isfinite(row).all()
    ]


def picture_of(
    options: Any, data: Data, name: str, read: Any, chosen: np.ndarray, kind: str,
    wrong: tuple[float, float],
) -> Plot:  # fmt: skip
    """`options.picture_words` random words of those `chosen`, as `read` reads them.

    Args:
      name: of who reads. kind: of words, for the title.
      wrong: letters and words of all that are chosen, in %; the few drawn say little.
    """
    order = np.random.default_rng(options.seed).permutation(chosen)
    sample = np.sort(order[: options.picture_words])
    found = read(sample)
    title = (
        f"{len(sample)} of {len(chosen)} {kind} at random, read by {name};\nof all of them "
        f"{100 - wrong[0]:.1f} % of the letters and {100 - wrong[1]:.1f} % of the words right"
    )
    remark = "" if options.letter_data else CAPITALS
    return word_picture(data, describe(data, sample, found), title, remark)
