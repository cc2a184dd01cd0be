"""The gapped-subsequence kernel in plain Python: what a matrix would cost without arrays."""

from __future__ import annotations


def plain_subsequences(x: str, z: str, length: int, decay: float) -> float:
    """K(x, x') of Lodhi et al. (2002), their efficient recursion, O(length |x| |x'|).

    Args:
      x, z: strings. length: letters of a subsequence. decay: lambda.
    """
    begun = [[1.0] * (len(z) + 1) for _ in range(len(x) + 1)]  # K'_0 of all pairs of prefixes
    for _ in range(length - 1):
        longer = [[0.0] * (len(z) + 1) for _ in range(len(x) + 1)]  # K'_i
        for i, letter in enumerate(x):
            row = 0.0  # K''_i
            for j, other in enumerate(z):
                row *= decay
                if letter == other:
                    row += decay * decay * begun[i][j]
                longer[i + 1][j + 1] = decay * longer[i][j + 1] + row
        begun = longer
    pairs = (begun[i][j] for i, a in enumerate(x) for j, b in enumerate(z) if a == b)
    return decay * decay * sum(pairs)
