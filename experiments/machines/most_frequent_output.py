"""The output that occurs most often in training, whatever the input (thesis, table 4.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence


def most_frequent_output(outputs: Sequence[Hashable]) -> int:
    """Returns the position of the most frequent training output, where it first occurs.

    Of equally frequent ones the one that occurs first.

    Args:
      outputs: n training outputs that can be compared: strings, tuples of labels, class numbers.
    """
    counts = Counter(outputs)
    return outputs.index(max(counts, key=counts.__getitem__))
