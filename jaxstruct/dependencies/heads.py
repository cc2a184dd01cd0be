"""Heads of one sentence on the host: what makes them a tree, whether arcs cross, how to lift them.

Heads are a list of l integers, 0 for the root and 1..l for words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

Heads: TypeAlias = Sequence[int] | np.ndarray


def fault_of(heads: Heads) -> str:
    """Why heads are no tree with one word on the root; "" if they are one."""
    above = np.concatenate([[0], np.asarray(heads, int)])
    at, words = above[1:], len(heads)
    if not words:
        return "it has no word"
    if at.min() < 0 or at.max() > words:
        return f"a head is not in 0..{words}, the words"
    roots = int(np.sum(at == 0))
    if roots != 1:
        return f"{roots} words hang on the root (head 0), not one"
    for _ in range(words.bit_length()):  # heads of 2, 4, 8 .. steps up
        above = above[above]
        at = above[1:]
    if at.any():
        return f"word {int(np.flatnonzero(at)[0]) + 1} hangs on a circle"
    return ""


def crossing_arcs(heads: Heads) -> np.ndarray:
    """[l] bool: the words whose arc crosses another one; none of a projective tree."""
    ends = np.stack([np.asarray(heads), np.arange(1, len(heads) + 1)])
    low, high = ends.min(axis=0), ends.max(axis=0)
    inside = (low[:, None] < low[None]) & (low[None] < high[:, None]) & (high[:, None] < high[None])
    return np.any(inside | inside.T, axis=1)


def lifted(heads: Heads) -> list[int]:
    """The heads of a projective tree near a given one, by moving arcs up.

    As long as arcs cross, the shortest that does hangs on the head of its head (J. Nivre and J.
    Nilsson, Pseudo-projective dependency parsing, ACL 2005); the word on the root stays the only
    one there.

    Raises:
      ValueError: the heads are no tree.
    """
    fault = fault_of(heads)
    if fault:
        raise ValueError(f"heads: {fault}")
    found = np.array(heads)
    while (crossing := crossing_arcs(found)).any():
        movable = crossing & (found > 0)
        movable[movable] &= found[found[movable] - 1] > 0
        child = np.arange(1, len(found) + 1)
        lengths = np.where(movable, np.abs(found - child), len(found) + 1)
        word = int(np.argmin(lengths))
        found[word] = found[found[word] - 1]
    return found.tolist()
