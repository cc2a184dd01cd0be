"""How many words of dependency trees hang where they should: UAS and LAS.

Every word counts, punctuation too, as in the CoNLL 2018 shared task of Universal Dependencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Attachment(NamedTuple):
    """Shares of the words of n trees.

    Fields:
      uas: with the right head. las: with the right head and label, None where trees have no labels.
      whole: the share of trees that are right throughout.
    """

    uas: float
    las: float | None
    whole: float


def attachment(trees: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> Attachment:
    """The attachment scores of predicted trees.

    Args:
      trees, predicted: n trees, lists of heads or of pairs (head, label), both of one kind.

    Raises:
      ValueError: they are of different numbers, lengths or kinds, or hold no word.
    """
    if len(trees) != len(predicted):
        raise ValueError(f"predicted: got {len(predicted)} trees, expected {len(trees)}")
    words = right_heads = right = whole = 0
    kinds = set()
    for i, (true, found) in enumerate(zip(trees, predicted, strict=True)):
        if len(true) != len(found):
            raise ValueError(f"predicted[{i}] has {len(found)} words, expected {len(true)}")
        pairs = [(_pair(a), _pair(b)) for a, b in zip(true, found, strict=True)]
        kinds |= {len(one) for pair in pairs for one in pair}
        words += len(pairs)
        right_heads += sum(a[0] == b[0] for a, b in pairs)
        correct = sum(a == b for a, b in pairs)
        right, whole = right + correct, whole + (correct == len(pairs))
    if len(kinds) != 1:
        raise ValueError(
            "trees and predicted must hold a word, and be lists of heads or of pairs (head, label)"
        )
    las = right / words if kinds == {2} else None
    return Attachment(right_heads / words, las, whole / len(trees))


def _pair(one: Any) -> tuple:
    return tuple(one) if isinstance(one, (tuple, list)) else (int(one),)
