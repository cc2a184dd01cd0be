"""Feature names as columns 0 .. d-1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class FeatureIndex(NamedTuple):
    """Which feature is which column. Made by `fit_index` or `index_of_names`.

    Fields:
      names: the d features, column j is names[j].
      columns: feature -> column.
    """

    names: tuple[str, ...]
    columns: Mapping[str, int]

    @property
    def number_of_features(self) -> int:
        """The dimension d."""
        return len(self.names)


def fit_index(counts: Mapping[str, int], *, min_count: int = 1) -> FeatureIndex:
    """Numbers the features that occur at least `min_count` times in the training set.

    Frequent features come first; ties go by name. The order of the examples does not matter.

    Args:
      counts: feature -> how many rows have it, of the training set alone.
      min_count: at least 1.

    Raises:
      ValueError: `min_count` is below 1, or no feature is left.
    """
    if min_count < 1:
        raise ValueError(f"min_count: got {min_count}, expected at least 1")
    kept = sorted(name for name, count in counts.items() if count >= min_count)
    if not kept:
        raise ValueError(
            f"counts: none of the {len(counts)} features occurs {min_count} times; lower min_count"
        )
    kept.sort(key=counts.__getitem__, reverse=True)  # names of one count stay in their order
    return index_of_names(kept)


def index_of_names(names: Iterable[str]) -> FeatureIndex:
    """The index in which column j is the j-th of these names, each once."""
    names = tuple(names)
    return FeatureIndex(names, {name: column for column, name in enumerate(names)})
