"""The table and the picture of errors of `experiments.neural_handwriting`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.handwriting.data import Data, Split
from experiments.handwriting.report import CAPITALS
from experiments.lib.plots import COLOURS, DOTS_PER_INCH, STYLE, Plot
from experiments.lib.report import Table
from jaxstruct.evaluation.metrics import mean_and_deviation

ERRORS = {"train": "train_letter_error", "test": "test_letter_error"}
SAID = {
    "linear": "pixels + pairs, linear",
    "letters": "network, no chain",
    "chain": "network + pairs",
    "triples": "network + triples",
}


def spoken(machine: str) -> tuple[str, str]:
    """(what reads, its loss)."""
    head, _, loss = machine.partition("_")
    return SAID[head], loss or "svm1_margin"


def _spread(rows: Sequence[dict[str, Any]], name: str) -> str:
    mean, deviation = mean_and_deviation([row[name] for row in rows])
    return f"{mean:.2f} ± {deviation:.2f}" if len(rows) > 1 else f"{mean:.2f}"


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if name in row]
    return float(np.mean(values)) if values else None


def by_machine(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each machine, in the order of the first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["machine"], []).append(row)
    return found


def folds_table(
    options: Any, data: Data, splits: Sequence[Split], rows: Sequence[dict[str, Any]]
) -> Table:
    """A row a machine: means over the folds, and their deviation."""
    columns = [
        "reads", "loss", ("letters wrong %", "train"), ("letters wrong %", "test"),
        ("words wrong %", "test"), ("seconds a fold", "wall"), ("seconds a fold", "processor"),
    ]  # fmt: skip
    body = [
        [*spoken(machine), _spread(own, "train_letter_error"), _spread(own, "test_letter_error"),
         _spread(own, "test_word_error"), _mean(own, "seconds"), _mean(own, "processor_seconds")]
        for machine, own in by_machine(rows).items()
    ]  # fmt: skip
    words = ", ".join(str(len(split.train)) for split in splits)
    notes = [
        f"{len(splits)} folds; one trains ({words} words), the words of all others test; mean ± "
        "sample standard deviation. Seconds are those of training, with compiling in the first "
        "fold." + ("" if options.letter_data else f" {CAPITALS}"),
        f"Network: convolutions of {options.channels} and {2 * options.channels} channels, "
        f"{', '.join(options.hidden)} features a letter; AdamW, rate {', '.join(options.rate)}, "
        f"decay {', '.join(options.decay)}, drop {', '.join(options.drop)}, "
        f"{', '.join(options.epochs)} epochs of {options.batch} words a step; images move by "
        f"{options.shift:g} pixels and slant by {options.slant:g}.",
    ]
    if any(row.get("tried") for row in rows):
        notes.append(
            f"Of several values the best on {100 * options.held_out:g} % of each fold's training "
            "words, held out; then trained on all of them."
        )
    return Table(f"Handwritten words by networks, {len(splits)} folds", columns, body, notes)


def error_plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Letters read wrong in every fold, a dot each, and their means; a machine a line."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    title = "Handwritten words: letters read wrong, one fold in training"
    groups = by_machine(rows)
    names = [", ".join(spoken(machine)) for machine in groups]
    with rc_context(STYLE):
        figure = Figure((9.0, 1.6 + 0.5 * len(groups)), dpi=DOTS_PER_INCH)
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for place, own in enumerate(groups.values()):
            for j, (part, name) in enumerate(ERRORS.items()):
                values, colour = [row[name] for row in own], COLOURS[j]
                label = part if place == 0 else None
                axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.7, label=label)
                if part == "test":
                    axes.annotate(
                        f"{np.mean(values):.1f}", (max(values), place), xytext=(8, -4),
                        textcoords="offset points", fontsize=11,
                    )  # fmt: skip
        axes.set_yticks(range(len(groups)), names)
        axes.invert_yaxis()
        axes.margins(x=0.12, y=0.12)
        axes.set(xlabel="letters wrong, %", xlim=(0, None))
        figure.suptitle(title, x=0.01, ha="left", fontsize=14)
        figure.legend(loc="outside lower right", ncols=2)
    body = [[*spoken(row["machine"]), row["split"], row[ERRORS["train"]], row[ERRORS["test"]]]
            for row in rows]  # fmt: skip
    return Plot(figure, Table(title, ["reads", "loss", "split", *ERRORS], body))
