"""Entities as IOB2 labels: B-type opens one, I-type carries it on, O is outside; scores and rules.

Plain B and I, of a task with one type only, have the type "".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class EntityScores(NamedTuple):
    """Precision, recall and F1 of whole entities, each in 0 .. 1."""

    precision: float
    recall: float
    f1: float


def _parts(label: str, what: str) -> tuple[str, str]:
    """("B" or "I", type) or ("O", "")."""
    prefix, _, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
    if label != "O" and prefix not in ("B", "I"):
        raise ValueError(f"{what}: got {label!r}, expected O, B-type or I-type")
    return prefix, kind


def is_iob2(names: Iterable[str]) -> bool:
    """Whether every label is O, B, I, B-type or I-type, and one of them opens an entity."""
    try:
        prefixes = {_parts(name, "names")[0] for name in names}
    except ValueError:
        return False
    return "B" in prefixes


def iob2_spans(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """Returns the entities of one sequence as (type, start, end), tokens start .. end - 1.

    An I-type that does not carry on an entity of its type (after O, another type, or at the start)
    opens one, as in conlleval, the scorer of the CoNLL shared tasks.

    Raises:
      ValueError: a label is not of IOB2.
    """
    spans = set()
    opened: tuple[str, int] | None = None  # type and start of the entity at hand
    for position, label in enumerate(labels):
        prefix, kind = _parts(label, f"labels[{position}]")
        if prefix == "I" and opened is not None and opened[0] == kind:
            continue
        if opened is not None:
            spans.add((*opened, position))
        opened = None if prefix == "O" else (kind, position)
    if opened is not None:
        spans.add((*opened, len(labels)))
    return spans


def as_iob2(labels: Sequence[str]) -> list[str]:
    """Returns the labels; an I-type that opens an entity (see `iob2_spans`) becomes B-type.

    Files in IOB1, as CoNLL-2003 was distributed, become IOB2; their entities stay the same.
    """
    starts = {start for _, start, _ in iob2_spans(labels)}
    return [
        f"B{label[1:]}" if position in starts else label for position, label in enumerate(labels)
    ]


def entity_f1(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> EntityScores:
    """Returns precision, recall and F1 over all entities of n sequences (micro-averaged).

    With E the true entities, P the predicted ones and R those in both: |R| / |P|, |R| / |E| and
    F1 = 2 |R| / (|E| + |P|). An entity is right where type, start and end are. A ratio of 0 to
    0 is 0, as in conlleval.

    Args:
      true, predicted: n label sequences each, of equal lengths, without padding.

    Raises:
      ValueError: the numbers of sequences or of labels differ, or a label is not of IOB2.

    Source: Tjong Kim Sang, Introduction to the CoNLL-2002 shared task, 2002.
    """
    if len(true) != len(predicted):
        raise ValueError(f"predicted: got {len(predicted)} sequences, expected {len(true)}")
    right = there = found = 0
    for position, (labels, guesses) in enumerate(zip(true, predicted, strict=True)):
        if len(labels) != len(guesses):
            raise ValueError(
                f"predicted[{position}]: got {len(guesses)} labels, expected {len(labels)}"
            )
        entities, guessed = iob2_spans(labels), iob2_spans(guesses)
        right += len(entities & guessed)
        there += len(entities)
        found += len(guessed)
    return EntityScores(
        right / found if found else 0.0,
        right / there if there else 0.0,
        2 * right / (there + found) if there + found else 0.0,
    )


def forbidden_transitions(names: Sequence[str]) -> np.ndarray:
    """Returns [S, S] bool, True where names[j] may not follow names[i] in IOB2.

    I-type may follow B-type and I-type of the same type only; all else is allowed.

    Args:
      names: S labels, in the order of the classes.

    Raises:
      ValueError: a label is not of IOB2.
    """
    parts = [_parts(name, f"names[{position}]") for position, name in enumerate(names)]
    return np.array(
        [
            [after == "I" and (before == "O" or kind != of_type) for after, of_type in parts]
            for before, kind in parts
        ],
        dtype=bool,
    ).reshape(len(parts), len(parts))


def forbidden_starts(names: Sequence[str]) -> np.ndarray:
    """Returns [S] bool, True where a sequence may not begin with names[i]: the I-types.

    Raises:
      ValueError: a label is not of IOB2.
    """
    parts = [_parts(name, f"names[{position}]") for position, name in enumerate(names)]
    return np.array([prefix == "I" for prefix, _ in parts], dtype=bool)
