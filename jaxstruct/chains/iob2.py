"""Entities as IOB2 labels: B-type opens one, I-type carries it on, O is outside; scores and rules.

Entities are read from IOB1, IOBES (BIOES) and BILOU, too. Plain B and I, of a task with one type
only, have the type "".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class EntityScores(NamedTuple):
    """Precision, recall and F1 of whole entities, each in 0 .. 1."""

    precision: float
    recall: float
    f1: float


_EVERY = ("B", "I", "E", "S", "L", "U")
"""E and L end an entity of several tokens, S and U are one of a single token."""


def _parts(label: str, what: str, letters: Sequence[str] = ("B", "I")) -> tuple[str, str]:
    """(letter, type) or ("O", "")."""
    letter, _, kind = label.partition("-") if isinstance(label, str) else ("", "", "")
    if label == "O" or letter in letters:
        return letter, kind
    kind, _, last = label.rpartition("-") if isinstance(label, str) else ("", "", "")
    if letter in _EVERY:
        advice = "as_iob2 makes these of IOBES and BILOU"
    elif kind and last in _EVERY:
        advice = f"write the letter first, {last}-{kind}"
    else:
        advice = "write B-type for the first token of an entity and I-type for its others"
    raise ValueError(f"{what}: got {label!r}, expected O, B-type or I-type: {advice}")


def iob2_spans(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """Returns the entities of one sequence as (type, start, end), tokens start .. end - 1.

    Labels of IOB1, IOBES and BILOU are read as `as_iob2` converts them.

    Raises:
      ValueError: a label is of none of these.
    """
    spans = set()
    opened: tuple[str, int] | None = None  # type and start of the entity at hand
    for position, label in enumerate([*as_iob2(labels), "O"]):
        letter, _, kind = label.partition("-")
        if letter == "I":
            continue
        if opened is not None:
            spans.add((*opened, position))
        opened = None if letter == "O" else (kind, position)
    return spans


def as_iob2(labels: Sequence[str]) -> list[str]:
    """Returns labels of IOB1, IOBES (BIOES) or BILOU in IOB2; those of IOB2 stay as they are.

    S-type and U-type become B-type, E-type and L-type I-type. What does not carry on an entity of
    its type (after O, S, U, E, L or another type, or at the start) opens one and becomes B-type, as
    in conlleval, the scorer of the CoNLL shared tasks; of IOB1 that is what I-type means.

    Raises:
      ValueError: a label is of none of these; the message says what to write.
    """
    found = []
    opened: str | None = None  # the type that the next label may carry on
    for position, label in enumerate(labels):
        letter, kind = _parts(label, f"labels[{position}]", _EVERY)
        if letter == "O":
            found.append(label)
            opened = None
            continue
        begins = letter in ("B", "S", "U") or opened != kind
        found.append(f"{'B' if begins else 'I'}{label[1:]}")
        opened = kind if letter in ("B", "I") else None
    return found


def entity_f1(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> EntityScores:
    """Returns precision, recall and F1 over all entities of n sequences (micro-averaged).

    With E the true entities, P the predicted ones and R those in both: |R| / |P|, |R| / |E| and
    F1 = 2 |R| / (|E| + |P|). An entity is right where type, start and end are. A ratio of 0 to
    0 is 0, as in conlleval.

    Args:
      true, predicted: n label sequences each, of equal lengths, without padding; of IOB2, or what
        `as_iob2` converts.

    Raises:
      ValueError: the numbers of sequences or of labels differ, or a label is of no such scheme.

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
