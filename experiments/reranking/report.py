"""The table and the pictures of `experiments.reranking`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.lib.plots import Plot, bar_groups
from experiments.lib.record import SECONDS
from experiments.lib.report import Table
from experiments.reranking.lists import Lists
from experiments.reranking.options import Options
from jaxstruct.evaluation.significance import mcnemar

WHAT = {"words": "words", "new_words": "words of new texts", "trees": "parse trees"}


def one_best(lists: Lists) -> list[int]:
    """The base model's own choice."""
    return [0] * len(lists.outputs)


def oracle(lists: Lists) -> list[int]:
    """The cheapest candidate of each list, which no re-ranker can beat."""
    return [int(np.argmin(own)) if own else 0 for own in lists.costs]


def described(train: Lists, test: Lists) -> dict[str, Any]:
    """Sizes, and how often the true output is a candidate."""
    parts = {}
    for name, lists in (("train", train), ("test", test)):
        parts[name] = {
            "inputs": len(lists.outputs),
            "without candidates": sum(not own for own in lists.outputs),
            "mean length": float(np.mean([len(own) for own in lists.outputs])),
            "with the true output": float(
                np.mean([y in own for y, own in zip(lists.truths, lists.outputs, strict=True)])
            ),
        }
    return parts


def against_one_best(row: Mapping[str, Any]) -> list[Any]:
    """(inputs where the re-ranked is cheaper, dearer, p of McNemar's test); none of the base."""
    if "costs" not in row:
        return [None] * 3
    before, after = np.array(row["costs"], float).reshape(-1, 2).T
    better, worse = after < before, before < after
    if not (better | worse).any():
        return [0, 0, "1"]
    return [int(better.sum()), int(worse.sum()), _p_text(mcnemar(better, worse).p_value)]


def _p_text(value: float) -> str:
    """Two digits; what a float64 rounds to 0 is below its smallest number."""
    return f"{value:.2g}" if value else "< 1e-300"


def make_table(
    options: Options, sizes: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> Table:
    """One best, the best of the list, and every re-ranker."""
    columns = [
        "task", "chosen by", "C'", ("right %", "whole"), ("right %", "letters, F1"),
        ("against one best", "better"), ("against one best", "worse"), ("against one best", "p"),
        "features", *SECONDS, "status",
    ]  # fmt: skip
    body = []
    for row in rows:
        spent = (row.get("seconds"), row.get("compile_seconds"))
        body.append([
            WHAT[row["task"]], row["who"], row.get("c_over_n"), row["whole"], row["second"],
            *against_one_best(row), row.get("features"),
            *(None if s is None else round(s, 1) for s in spent), row.get("status"),
        ])  # fmt: skip
    notes = [_note(name, own) for name, own in sizes.items()]
    notes += [
        "whole: words or trees right; then letters right, or F1 of labelled constituents. best of "
        "k: the cheapest candidate, which no re-ranker can beat.",
        "better, worse: inputs whose re-ranked output costs less or more than the one best (wrong "
        "letters, 1 - F1); p of McNemar's two-sided test on them.",
        f"Training candidates are of base models trained on the other of {options.base_folds} "
        "folds; C' = C / n by the mean cost on held-out training lists.",
    ]
    return Table("Re-ranking the k best of a base model", columns, body, notes)


def _note(name: str, own: Mapping[str, Mapping[str, Any]]) -> str:
    parts = [
        f"{part} {of['inputs']} inputs ({of['without candidates']} without a candidate), "
        f"{of['mean length']:.1f} candidates each, the true output in "
        f"{100 * of['with the true output']:.1f} % of the lists"
        for part, of in own.items()
    ]
    return f"{WHAT[name]}: {'; '.join(parts)}."


def make_plots(rows: Sequence[Mapping[str, Any]]) -> dict[str, Plot]:
    """Whole outputs right, and letters right or F1, a picture a task."""
    plots = {}
    for name in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == name]
        second = {"letters": "letters right", "F1": "F1"}[own[0]["of"]]
        series = {
            f"{'trees' if name == 'trees' else 'words'} right": [row["whole"] for row in own],
            second: [row["second"] for row in own],
        }
        series = {label: [round(value, 1) for value in values] for label, values in series.items()}
        plots[f"reranking_{name}"] = bar_groups(
            [row["who"] for row in own], series, title=f"Re-ranking: {WHAT[name]}",
            ylabel="per cent",
        )  # fmt: skip
    return plots
