"""Entities and their F1 against an independent counter, and the rules of IOB2 against its spans."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from jaxstruct.chains.iob2 import (
    EntityScores,
    as_iob2,
    entity_f1,
    forbidden_starts,
    forbidden_transitions,
    iob2_spans,
)
from tests.lib.refusals import refused

NAMES = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def _opens(labels: list[str], at: int) -> bool:
    """Whether an entity starts here: B, or I after anything but B or I of its own type."""
    if labels[at] == "O":
        return False
    before = labels[at - 1] if at else "O"
    return labels[at][0] == "B" or before == "O" or before[2:] != labels[at][2:]


def _slow_spans(labels: list[str]) -> set[tuple[str, int, int]]:
    """Every (type, start, end) tried: opens at the start, runs on without opening, ends there."""
    n = len(labels)
    found = set()
    for start, end in itertools.combinations(range(n + 1), 2):
        inside = range(start + 1, end)
        kind = labels[start][2:]
        carries_on = all(labels[t] == f"I-{kind}" and not _opens(labels, t) for t in inside)
        stops = end == n or labels[end] == "O" or _opens(labels, end)
        if _opens(labels, start) and carries_on and stops:
            found.add((kind, start, end))
    return found


def _random_labels(rng: np.random.Generator, n: int) -> list[str]:
    return [NAMES[i] for i in rng.integers(0, len(NAMES), n)]


def _disturbed(rng: np.random.Generator, labels: list[str]) -> list[str]:
    """Three in ten labels drawn anew."""
    drawn = _random_labels(rng, len(labels))
    return [a if rng.random() < 0.7 else b for a, b in zip(labels, drawn, strict=True)]


SPANS = {
    "": set(), "O O": set(), "B-LOC": {("LOC", 0, 1)}, "O B-PER I-PER O": {("PER", 1, 3)},
    "B-LOC B-LOC": {("LOC", 0, 1), ("LOC", 1, 2)}, "I-LOC I-LOC": {("LOC", 0, 2)},
    "B-LOC I-LOC B-LOC I-LOC": {("LOC", 0, 2), ("LOC", 2, 4)}, "O I-PER": {("PER", 1, 2)},
    "B-LOC I-PER I-PER": {("LOC", 0, 1), ("PER", 1, 3)}, "B I O I": {("", 0, 2), ("", 3, 4)},
    "B-a-b I-a-b I-a": {("a-b", 0, 2), ("a", 2, 3)},
}  # fmt: skip


def test_spans_by_hand() -> None:
    for labels, spans in SPANS.items():
        assert iob2_spans(labels.split()) == spans


def test_spans_of_every_short_sequence() -> None:
    """All 5^l sequences up to length 5, and random longer ones, against trying every span."""
    for length in range(6):
        for labels in itertools.product(NAMES, repeat=length):
            assert iob2_spans(labels) == _slow_spans(list(labels)), labels
    rng = np.random.default_rng(0)
    for _ in range(200):
        labels = _random_labels(rng, 12)
        assert iob2_spans(labels) == _slow_spans(labels)


SCHEMES = {"IOB2": "BIBI", "IOBES": "BIES", "BILOU": "BILU", "IOB1": "IIII"}
"""The first, the inner ones, the last of several tokens, and a single one."""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_becomes_iob2(scheme: str) -> None:
    """Random entities, apart by O or of other types, written in the scheme and in IOB2."""
    begin, inner, last, single = SCHEMES[scheme]
    last = "I" if scheme == "IOB2" else last
    rng = np.random.default_rng(0)
    for _ in range(50):
        written, wanted = [], []
        for kind in itertools.islice(itertools.cycle(["LOC", "PER"]), 6):
            n = int(rng.integers(0, 5))
            letters = [single] if n == 1 else [begin, *[inner] * (n - 2), last][: max(n, 0)]
            written += [f"{letter}-{kind}" for letter in letters] or ["O"]
            wanted += [f"{'BI'[t > 0]}-{kind}" for t in range(n)] or ["O"]
        assert as_iob2(written) == wanted
        assert iob2_spans(written) == iob2_spans(wanted) == _slow_spans(wanted)
        assert entity_f1([written], [wanted]).f1 == float(any(one != "O" for one in wanted))


def test_what_ends_an_entity_is_carried_on_by_none() -> None:
    """Neighbours of one type, and sequences that break their scheme, as a model may give them."""
    for given, wanted in (
        ("B-X E-X B-X E-X", "B-X I-X B-X I-X"), ("S-X S-X", "B-X B-X"), ("U L U", "B B B"),
        ("E-X I-X E-X", "B-X B-X I-X"), ("B-X E-Y O E-Y", "B-X B-Y O B-Y"), ("B E I", "B I B"),
    ):  # fmt: skip
        assert as_iob2(given.split()) == wanted.split()


def test_as_iob2_keeps_the_entities_and_changes_what_is_forbidden() -> None:
    """A sequence is IOB2 exactly if its start and transitions are allowed, as those made are."""
    forbidden, starts = forbidden_transitions(NAMES), forbidden_starts(NAMES)

    def legal(labels: Sequence[str]) -> bool:
        numbers = [NAMES.index(label) for label in labels]
        pairs = itertools.pairwise(numbers)
        return not (starts[numbers[0]] or any(forbidden[a, b] for a, b in pairs))

    for labels in itertools.product(NAMES, repeat=4):
        made = as_iob2(labels)
        assert iob2_spans(made) == iob2_spans(labels)
        assert legal(made) and legal(labels) == (made == list(labels))
    assert forbidden.dtype == starts.dtype == np.bool_
    assert forbidden.sum() == 2 * 3  # each I-type after O, and after B and I of the other type
    plain = forbidden_transitions(["O", "B", "I"])
    assert np.argwhere(plain).tolist() == [[0, 2]]
    assert forbidden_transitions([]).shape == (0, 0) and forbidden_starts([]).shape == (0,)


LOC = "O B-LOC I-LOC O"


@pytest.mark.parametrize(
    ("true", "predicted", "scores"),
    [
        (["B-PER I-PER O B-LOC", "O O"], ["B-PER I-PER O B-PER", "O B-LOC"], (1 / 3, 1 / 2, 2 / 5)),
        *(([LOC], [wrong], (0, 0, 0)) for wrong in (
            "O B-PER I-PER O", "B-LOC I-LOC I-LOC O", "O B-LOC I-LOC I-LOC", "O B-LOC B-LOC O",
        )),
        ([LOC], ["O I-LOC I-LOC O"], (1, 1, 1)),
        # 0 / 0 is 0, and no entity moves from one sentence to the next
        (["O", "O"], ["O", "O"], (0, 0, 0)), ([], [], (0, 0, 0)),
        (["O", "B-PER"], ["O", "O"], (0, 0, 0)), (["O", "O"], ["O", "B-PER"], (0, 0, 0)),
        (["O", "B-PER"], ["B-PER", "O"], (0, 0, 0)),
    ],
)  # fmt: skip
def test_f1_by_hand(true: list, predicted: list, scores: tuple) -> None:
    """The type and both ends count."""
    found = entity_f1(*([own.split() for own in each] for each in (true, predicted)))
    assert found == EntityScores(*scores)


def test_f1_of_random_sequences() -> None:
    """Micro-averaged over sentences, against counting with the slow spans."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        lengths = rng.integers(0, 9, 6)
        true = [_random_labels(rng, n) for n in lengths]
        predicted = [_disturbed(rng, labels) for labels in true]
        e = {(i, *span) for i, labels in enumerate(true) for span in _slow_spans(labels)}
        p = {(i, *span) for i, labels in enumerate(predicted) for span in _slow_spans(labels)}
        scores = entity_f1(true, predicted)
        precision, recall = len(e & p) / max(len(p), 1), len(e & p) / max(len(e), 1)
        assert scores[:2] == (precision, recall)
        if precision:
            harmonic = 2 / (1 / precision + 1 / recall)
            assert scores.f1 == pytest.approx(harmonic, rel=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: iob2_spans(["O", "NN"]), r"labels\[1\]: got 'NN', expected O, B-type or I-type"),
        (lambda: iob2_spans(["O-PER"]), r"labels\[0\]: got 'O-PER'"),
        (lambda: iob2_spans([3]), r"labels\[0\]: got 3"),
        (lambda: forbidden_transitions(["O", "E-PER"]), r"names\[1\]: got 'E-PER'.*as_iob2 makes"),
        (lambda: as_iob2(["PER-B"]), r"got 'PER-B', .* write the letter first, B-PER"),
        (lambda: as_iob2(["PER"]), "got 'PER', .* write B-type for the first token of an entity"),
        (lambda: forbidden_starts(["o"]), r"names\[0\]: got 'o'"),
        (lambda: entity_f1([["O"]], []), "predicted: got 0 sequences, expected 1"),
        (lambda: entity_f1([["O"]], [["O", "O"]]), r"predicted\[0\]: got 2 labels, expected 1"),
    ],
)
def test_errors(call, message: str) -> None:
    refused(message, call)
