"""Segmentations of which a part is known, against enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.contract import Incomplete, Truth
from jaxstruct.core.padding import padded
from jaxstruct.segments.encoding import read_spans
from tests.lib.incomplete import check_completions
from tests.lib.refusals import refused
from tests.segments.cases import tagged

pytestmark = pytest.mark.usefixtures("x64")
LONGEST = 3
WORDS = [["a", "b", "a", "c"], ["b", "c"], ["c", "a", "b"], ["a", "b", "b", "c"]]
SEQUENCES = [[{"word": word} for word in own] for own in WORDS]
TAGGED: list[Any] = [
    ["B-x", None, "I-x", {"O", "B-y"}], None, ["O", None, {"B-x", "B-y"}],
    ["B-y", "I-y", "O", "B-x"],
]  # fmt: skip
TRIPLES: list[Any] = [
    [(0, 2, None), (2, 3)], [(0, 1, {"x", "y"})], None, [(0, 2, "y"), (3, 4, "x")],
]  # fmt: skip


def segmentations(length: int) -> list[list[tuple[int, int, str]]]:
    """All of them, "O" of single tokens among their labels."""
    if length == 0:
        return [[]]
    found = []
    for width in range(1, min(LONGEST, length) + 1):
        for label in "Oxy" if width == 1 else "xy":
            last = (length - width, length, label)
            found += [[*before, last] for before in segmentations(length - width)]
    return found


def iob2(spans: list) -> list[str]:
    return tagged([range(spans[-1][1])], [[span for span in spans if span[2] != "O"]])[0]


def tokens_right(known: Any, spans: list) -> np.ndarray:
    """[l] bool, which tokens agree with the labels of IOB2."""
    found = iob2(spans)
    may = [None] * len(found) if known is None else known
    return np.array([
        one is None or (label in one if isinstance(one, set) else label == one)
        for one, label in zip(may, found, strict=True)
    ])  # fmt: skip


def agrees_with_triples(known: Any, spans: list) -> bool:
    """Whether all known segments are there, and no others but in stretches that are not known."""
    if known is None:
        return True
    stretches = [span for span in known if len(span) == 2]
    inside = {t for start, end in stretches for t in range(start, end)}
    there = {(start, end): label for start, end, label in spans if label != "O"}
    for start, end, label in (span for span in known if len(span) == 3):
        own = there.pop((start, end), None)
        if own is None or not (label is None or own in label):
            return False
    return all({*range(start, end)} <= inside for start, end in there)


def outputs_of(known: list, triples: bool):
    """All segmentations of each sequence, which agree, and Delta; see `tests.lib.incomplete`."""

    def of(i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        every = segmentations(len(WORDS[i]))
        codes = [[2 * "Oxy".index(label[-1]) + (label[0] != "I") for label in iob2(own)]
                 for own in every]  # fmt: skip
        padded = np.full((len(every), 4), -1, np.int32)
        padded[:, : len(WORDS[i])] = codes
        if not triples:
            right = np.array([tokens_right(known[i], own) for own in every])
            return padded, right.all(axis=1), (~right).sum(axis=1)
        agrees = np.array([agrees_with_triples(known[i], own) for own in every])
        may = [np.unique(padded[agrees, t]) for t in range(4)]  # codes of a token that some have
        wrong = [[code not in own for code, own in zip(row, may, strict=True)] for row in padded]
        return padded, agrees, np.sum(wrong, axis=1)

    return of


@pytest.mark.parametrize("known", [TAGGED, TRIPLES], ids=["tagged", "triples"])
def test_what_agrees_is_found_and_costs_nothing(known: list) -> None:
    data = js.segments.prepare(
        SEQUENCES, known, longest=LONGEST, classes=["O", "x", "y"], phrases=["word"],
        phrase_count=1, start_stop=True, dtype="float64",
    )  # fmt: skip
    assert isinstance(data.outputs, Incomplete)
    check_completions(data, outputs_of(known, known is TRIPLES))


def test_what_does_not_fit_is_refused() -> None:
    for known, words in (
        ([["B-x", None, "S-x", "O"], *TAGGED[1:]], r"segments\[0\]\[2\]: 'S-x' is none of"),
        ([["B-x", set(), "O", "O"], *TAGGED[1:]], r"segments\[0\]\[1\] is an empty set"),
        ([[(0, 2, None), (1, 3)], *TRIPLES[1:]], r"segments\[0\] has segments that overlap"),
        ([[(0, 2, None), (3, 5)], *TRIPLES[1:]], r"segments\[0\] has the segment .* of 4 tokens"),
        ([[(0, 2, {"z"})], *TRIPLES[1:]], "'z' is none of the"),
        ([[], [], [], []], "nothing to learn"),
    ):
        classes = ["O", "x", "y"] if "none of" in words else None
        refused(words, js.segments.prepare, SEQUENCES, known, classes=classes)
    wrong = [["O", "I-x", None, None], *TAGGED[1:]]
    data = js.segments.prepare(SEQUENCES, wrong, longest=LONGEST)
    refused(r"outputs\[0\] does not agree with what is known", js.fit_latent, *data)
    refused("expected triples", read_spans, [[(0, 1)]], [2])
    problem, x, y = js.segments.prepare(SEQUENCES, TAGGED, loss="f1", longest=LONGEST)
    refused("does not add up over tokens", problem.check, *padded(problem.padding, x, Truth(*y)))
