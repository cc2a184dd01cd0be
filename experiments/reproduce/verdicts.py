"""What the numbers of a table say, in a sentence or two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.alignment.command import PAPER_TABLE_4, distance, mean_of
from experiments.lib.peers import DIGITS_OPTIMA
from experiments.taxonomy.command import PAPER_GAINS
from jaxstruct import Status


def verdict(name: str, numbers: Mapping[str, Any]) -> str:
    """Of a table that was made; nothing where its numbers say nothing of trainings.

    Args:
      name: of the experiment. numbers: its Outcome's.
    """
    return " ".join(filter(None, [VERDICTS.get(name, lambda _: "")(numbers), certified(numbers)]))


def certified(numbers: Mapping[str, Any]) -> str:
    """How many of the trainings are solved as exactly as they were to be."""
    rows = [row for row in numbers.get("rows", ()) if isinstance(row, Mapping)]
    states = [row["status"] for row in rows if row.get("status") is not None]
    if not states:
        return ""
    ended = sum(Status[str(getattr(state, "name", state))].solved for state in states)
    return f"{ended} of {len(states)} trainings ended with a proof of their optimum."


def _digits(numbers: Mapping[str, Any]) -> str:
    rows = numbers["rows"]
    above = [
        row["primal"] / DIGITS_OPTIMA[row["c_over_n"]] - 1
        for row in rows
        if row["formulation"] == "svm1" and row["c_over_n"] in DIGITS_OPTIMA
    ]
    errors = [row["test_error"] for row in rows]
    known = f"svm1 ends {100 * max(above):.3f} % above the known optimum at most; " if above else ""
    return f"{known}{min(errors):.1f} to {max(errors):.1f} % of the test images are wrong."


def _taxonomy(numbers: Mapping[str, Any]) -> str:
    """The gain of the last column over the first, as in the paper's table 1."""
    found = {}
    for size, means in numbers["sizes"].items():
        flat, *_, taxonomic = (stat.mean for stat in means["tree_loss"].values())
        found[int(size)] = 100 * (flat / taxonomic - 1)
    gains = ", ".join(
        f"{gain:+.1f} % for {size} examples a class (the paper's documents: "
        f"{PAPER_GAINS[size]['tree_loss']:+.1f} %)"
        for size, gain in found.items()
        if size in PAPER_GAINS
    )
    return f"Gain in tree loss by the taxonomy: {gains}."


def _alignment(numbers: Mapping[str, Any]) -> str:
    rows = [row for row in numbers["rows"] if row["part"] == "table"]
    sizes = sorted({row["n"] for row in rows} & set(PAPER_TABLE_4))
    apart = [
        distance(mean_of([row["test_error"] for row in rows if row["n"] == n]), PAPER_TABLE_4[n][3])
        for n in sizes
    ]
    near = sum(each <= 2 for each in apart)
    return (
        f"Test errors of SVM2 lie within two standard errors of the paper's for {near} of "
        f"{len(sizes)} sizes, {max(apart):.1f} apart at most."
    )


def _denoising(numbers: Mapping[str, Any]) -> str:
    parts = []
    for labels in dict.fromkeys(row["labels"] for row in numbers["rows"]):
        wrong = {
            row["training"]: min(row["test_errors"].values())
            for row in numbers["rows"]
            if row["labels"] == labels
        }
        if {"independent", "svm"} <= set(wrong):
            parts.append(
                f"{wrong['independent']:.1f} % of the pixels are wrong when each is labelled "
                f"alone, {wrong['svm']:.1f} % with edges ({labels} labels)"
            )
    return f"{'; '.join(parts)}." if parts else ""


VERDICTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "digits": _digits, "taxonomy_synthetic": _taxonomy, "alignment": _alignment,
    "denoising": _denoising,
}  # fmt: skip
"""Experiment -> what its own numbers say, beside their certificates."""
