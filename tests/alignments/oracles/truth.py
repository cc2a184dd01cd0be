"""All alignments of short sequences, and their scores letter by letter."""

from __future__ import annotations

from functools import cache

from jaxstruct.alignments.potentials import DELETE, INSERT, PAIR

STEP = {PAIR: (1, 1), DELETE: (1, 0), INSERT: (0, 1)}


@cache
def strings(m, n):
    """All strings of operations that use up m and n letters."""
    if m == n == 0:
        return [()]
    found = []
    for kind, (a, b) in STEP.items():
        if a <= m and b <= n:
            found += [(kind, *rest) for rest in strings(m - a, n - b)]
    return found


def score(pairs, gap_open, gap_extend, operations, begin):
    """F of one alignment, letter by letter."""
    (i, j), total, before = begin, 0.0, None
    for kind in operations:
        if kind == PAIR:
            total += pairs[i, j]
        else:
            total -= gap_extend if kind == before else gap_open
        i, j, before = i + STEP[kind][0], j + STEP[kind][1], kind
    return total


@cache
def every(m, n, local):
    """[(operations, begin)] of all alignments of m and n letters."""
    if not local:
        return [(operations, (0, 0)) for operations in strings(m, n)]
    found = [((), (0, 0))]
    for i in range(m + 1):
        for j in range(n + 1):
            for a in range(m - i + 1):
                for b in range(n - j + 1):
                    found += [(operations, (i, j)) for operations in strings(a, b) if operations]
    return found
