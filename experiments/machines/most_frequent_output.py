"""The output that occurs most often in training, whatever the input (thesis, table 4.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from jaxstruct.core.checks import as_list, text_of


def most_frequent_output(outputs: Sequence[Hashable]) -> int:
    """Returns the position of the most frequent training output, where it first occurs.

    Of equally frequent ones the one that occurs first.

    Args:
      outputs: n training outputs that can be compared: strings, tuples of labels, class numbers.

    Raises:
      ValueError: there are none, or they are not hashable.
    """
    outputs = as_list("outputs", outputs, "a non-empty sequence of outputs")
    if not outputs:
        raise ValueError("outputs must be a non-empty sequence of outputs, got none")
    try:
        counts = Counter(outputs)
    except TypeError as error:
        raise ValueError(
            f"outputs must be hashable, got {text_of(outputs)}: make tuples of lists and arrays"
        ) from error
    return outputs.index(max(counts, key=counts.__getitem__))
