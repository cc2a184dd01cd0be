"""Lists of candidates with the base model's scores, what each costs, and features of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxstruct import SparseFeatures
from jaxstruct.strings import CandidateFeatures, feature_inputs

BASE = 0
"""The number of the feature that holds the base model's score."""
Features = Mapping[Hashable, float]


class Lists(NamedTuple):
    """The k best of n inputs, the base model's best first.

    Fields:
      outputs: n lists. scores: n lists of F of the base model.
      costs: n lists of what each candidate costs against the true output.
      truths: the n true outputs.
    """

    outputs: list[list[Any]]
    scores: list[list[float]]
    costs: list[list[float]]
    truths: list[Any]

    def targets(self) -> list[int]:
        """The place of the candidate of least cost in each list, of equal ones the base's best."""
        return [int(np.argmin(own)) for own in self.costs]

    def take(self, which: Sequence[int] | np.ndarray) -> Lists:
        """Some of the inputs."""
        return Lists(*([column[i] for i in which] for column in self))


def with_lists(lists: Lists) -> np.ndarray:
    """The inputs for which the base model has a candidate."""
    return np.array([i for i, own in enumerate(lists.outputs) if own], int)


class Index(NamedTuple):
    """The features that a re-ranker knows.

    Fields:
      places: feature -> number, from 1 on. deviation: of the base scores below the best.
      scale: of the base model's score, in units of that deviation.
    """

    places: Mapping[Hashable, int]
    deviation: float
    scale: float

    @property
    def size(self) -> int:
        """d, the base model's score among them."""
        return len(self.places) + 1


def told_apart(features: Sequence[Features]) -> list[Features]:
    """The features of a list's candidates without those that all of them have alike."""
    common = dict(features[0].items())
    for one in features[1:]:
        common = {name: value for name, value in common.items() if one.get(name) == value}
    return [{name: value for name, value in one.items() if name not in common} for one in features]


def read_features(lists: Lists, describe: Callable[[Any], Features]) -> list[list[Features]]:
    """What tells the candidates of each list apart."""
    return [told_apart([describe(y) for y in own]) for own in lists.outputs]


def index_features(
    lists: Lists, features: Sequence[Sequence[Features]], least: int, scale: float
) -> Index:
    """Features that tell the candidates of at least `least` training lists apart."""
    seen = Counter(name for own in features for name in {name for one in own for name in one})
    kept = (name for name, count in seen.items() if count >= least)
    gaps = np.array([score - own[0] for own in lists.scores for score in own[1:]] or [1.0])
    return Index({name: 1 + i for i, name in enumerate(kept)}, float(gaps.std()) or 1.0, scale)


def inputs_of(
    index: Index, lists: Lists, features: Sequence[Sequence[Features]], dtype: str
) -> CandidateFeatures:
    """Candidates numbered one after the other: the base's score below its best, then features."""
    rows: list[dict[int, float]] = []
    for scores, own in zip(lists.scores, features, strict=True):
        for score, one in zip(scores, own, strict=True):
            gap = index.scale * (score - scores[0]) / index.deviation
            known = {index.places[n]: float(v) for n, v in one.items() if n in index.places}
            rows.append({BASE: gap} | dict(sorted(known.items())))
    width = max(map(len, rows))
    indices = np.full((len(rows), width), index.size, np.int32)
    values = np.zeros((len(rows), width), dtype)
    for row, found in enumerate(rows):
        indices[row, : len(found)] = list(found)
        values[row, : len(found)] = list(found.values())
    starts = np.cumsum([0, *map(len, lists.outputs)])
    numbers = [np.arange(a, b) for a, b in zip(starts[:-1], starts[1:], strict=True)]
    return feature_inputs(numbers, SparseFeatures(indices, values), index.size)


def places_of(lists: Lists, predicted: np.ndarray) -> list[int]:
    """Predicted numbers as places in the lists."""
    starts = np.cumsum([0, *map(len, lists.outputs)])[:-1]
    return (np.asarray(predicted) - starts).tolist()


def folds_of(n: int, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(others, held) of each fold of n training examples, drawn at random."""
    parts = np.array_split(np.random.default_rng(seed).permutation(n), folds)
    every = np.arange(n)
    return [(np.setdiff1d(every, held), np.sort(held)) for held in parts]


def joined(parts: Sequence[tuple[np.ndarray, Lists]]) -> Lists:
    """Lists of several folds in the order of the training examples."""
    order = np.argsort(np.concatenate([held for held, _ in parts]))
    columns = zip(*(lists for _, lists in parts), strict=True)
    whole = [[one for column in own for one in column] for own in columns]
    return Lists(*([column[i] for i in order] for column in whole))
