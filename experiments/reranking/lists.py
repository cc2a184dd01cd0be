"""Lists of candidates with the base model's scores, what each costs, and features.

Re-rankers are structural SVMs and the averaged perceptron on candidate sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.record import Stopwatch
from jaxstruct import Problem, SparseFeatures, fit, fit_path, predict
from jaxstruct.baselines import perceptron
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.strings import CandidateFeatures, candidates, feature_inputs

TASKS = ("words", "new_words", "trees")
PERCEPTRON = "perceptron"
MACHINES = (*FORMULATIONS, PERCEPTRON)
NEW_TEXTS = 0.2
"""Part of the distinct words that only test, of new_words."""
WORD_RATIO = 0.1
"""C' of the base chains of words."""
EPOCHS = 20
"""Of the perceptron."""


class Options(fields.Training):
    """The flags of this command."""

    tasks: Sequence[str] = flag(TASKS, "Lists to re-rank.", TASKS, some=True)
    machines: Sequence[str] = flag(
        ("svm1", "svm1_margin", "svm2_slack", PERCEPTRON),
        "Re-rankers: formulations, or perceptron (averaged).",
        MACHINES,
        some=True,
    )
    k_words: int = flag(20, "Candidates of a word.", least=2)
    k_trees: int = flag(5, "Candidates of a sentence; time grows faster than k.", least=2)
    base_folds: int = flag(
        5, "Parts of the training set, each read by a base model of the others.", least=2
    )
    examples: int = flag(0, "The first so many training examples; 0: all.", least=0)
    test_examples: int = flag(0, "The first so many test examples; 0: all.", least=0)
    letter_data: str | None = flag(
        None, "Words of your own: a file as letter.data, see experiments.handwriting."
    )
    train_folds: Sequence[str] = flag(("1",), "Folds of words that train.", each=int)
    train_trees: str | None = flag(None, "Your file of bracketed trees to train on.")
    test_trees: str | None = flag(None, "Your file of bracketed trees to test on.")
    least_seen: int = flag(
        2, "A feature counts if it differs among the candidates of so many lists.", least=1
    )
    c_path: Sequence[str] = flag(
        ("0.001", "0.01", "0.1", "1"),
        "Values of C' = C / n to choose from on held-out lists.",
        each=float,
        above=0,
        some=True,
    )
    held_out: float = flag(0.25, "Part of the training lists that c_path compares on.")
    tolerance: float = 1e-2


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
    """The features of a re-ranker.

    Fields:
      places: feature -> number, from 1 on. deviation: of the base scores below the best.
    """

    places: Mapping[Hashable, int]
    deviation: float

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
    """What distinguishes the candidates of each list."""
    return [told_apart([describe(y) for y in own]) for own in lists.outputs]


def index_features(lists: Lists, features: Sequence[Sequence[Features]], least: int) -> Index:
    """Features that distinguish candidates in at least `least` training lists."""
    seen = Counter(name for own in features for name in {name for one in own for name in one})
    kept = (name for name, count in seen.items() if count >= least)
    gaps = np.array([score - own[0] for own in lists.scores for score in own[1:]] or [1.0])
    return Index({name: 1 + i for i, name in enumerate(kept)}, float(gaps.std()) or 1.0)


def inputs_of(
    index: Index, lists: Lists, features: Sequence[Sequence[Features]], dtype: str
) -> CandidateFeatures:
    """Candidates numbered one after the other: the base's score below its best, then features."""
    rows: list[dict[int, float]] = []
    for scores, own in zip(lists.scores, features, strict=True):
        for score, one in zip(scores, own, strict=True):
            gap = (score - scores[0]) / index.deviation
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


class Prepared(NamedTuple):
    """Training and test lists as a re-ranker reads them; inputs without a candidate are left out.

    Fields:
      index: of the features. train, test: lists. inputs, new_inputs: of both.
      outputs: [n] the targets. losses: [M] what each training candidate costs.
      kept: which inputs of the test part have candidates.
    """

    index: Index
    train: Lists
    test: Lists
    inputs: CandidateFeatures
    outputs: np.ndarray
    losses: np.ndarray
    new_inputs: CandidateFeatures
    kept: np.ndarray


def prepare_lists(
    options: Options, train: Lists, test: Lists, describe: Callable[[Any], Features], dtype: str
) -> Prepared:
    """Features of all candidates, numbered by those of the training lists."""
    train = train.take(with_lists(train))
    kept = with_lists(test)
    known = test.take(kept)
    features = read_features(train, describe)
    index = index_features(train, features, options.least_seen)
    inputs = inputs_of(index, train, features, dtype)
    starts = np.cumsum([0, *map(len, train.outputs)])[:-1]
    losses = np.array([cost for own in train.costs for cost in own])
    new_inputs = inputs_of(index, known, read_features(known, describe), dtype)
    outputs = (starts + train.targets()).astype(np.int32)
    return Prepared(index, train, known, inputs, outputs, losses, new_inputs, kept)


class Reranked(NamedTuple):
    """What a re-ranker made of the test lists.

    Fields:
      places: the place that it chose in each list. numbers: of its training.
    """

    places: list[int]
    numbers: dict[str, Any]


def rerank(options: Options, data: Prepared, machine: str, dtype: str) -> Reranked:
    """Train one machine and re-rank the test lists with it."""
    problem = candidates(data.index.size, loss=data.losses, dtype=dtype)
    watch = Stopwatch()
    train = _train_perceptron if machine == PERCEPTRON else _train_svm
    weights, numbers = train(options, problem, data, machine)
    numbers |= watch.numbers(weights)
    numbers["features"] = data.index.size
    found = places_of(data.test, np.asarray(predict(problem, weights, data.new_inputs)))
    return Reranked(found, numbers)


def _train_perceptron(
    options: Options, problem: Problem, data: Prepared, machine: str
) -> tuple[PyTree, dict[str, Any]]:
    found = perceptron(problem, data.inputs, data.outputs, max_epochs=EPOCHS, seed=options.seed)
    return found.averaged, {"status": found.status.name, "mistakes": found.mistakes.tolist()}


def _train_svm(
    options: Options, problem: Problem, data: Prepared, machine: str
) -> tuple[PyTree, dict[str, Any]]:
    ratio, path = _chosen(options, problem, data, machine)
    solution = fit(
        problem, data.inputs, data.outputs, machine, ratio * len(data.outputs),
        tolerance=options.tolerance, settings=options.settings(),
    )  # fmt: skip
    return solution.weights, {
        "c_over_n": ratio, "c_path": path, "status": solution.status.name,
        "primal": solution.primal, "dual": solution.dual,
        "planes": solution.statistics.planes_added,
    }  # fmt: skip


def mean_cost(lists: Lists, places: Sequence[int]) -> float:
    """What the chosen candidates cost on average."""
    return float(np.mean([own[k] for own, k in zip(lists.costs, places, strict=True)]))


def _chosen(
    options: Options, problem: Problem, data: Prepared, machine: str
) -> tuple[float, list[dict[str, float]]]:
    """(C', the path): the least mean cost on held-out training lists, of equal ones the smallest.

    Held-out lists have weight 0, so that the path runs in one program.
    """
    n, ratios = len(data.outputs), sorted(map(float, options.c_path))
    if len(ratios) == 1:
        return ratios[0], []
    held, _ = common.held_out_parts(options, n)
    weights = np.ones(n)
    weights[held] = 0
    solutions = fit_path(
        problem, data.inputs, data.outputs, machine, [ratio * n for ratio in ratios],
        tolerance=options.tolerance, example_weights=weights,
        settings=options.settings(),
    )  # fmt: skip
    path, lists = [], data.train.take(held)
    for ratio, solution in zip(ratios, solutions, strict=True):
        found = places_of(data.train, np.asarray(predict(problem, solution.weights, data.inputs)))
        cost = mean_cost(lists, [found[i] for i in held])
        path.append({"c_over_n": ratio, "held_out_cost": cost})
    return min(path, key=lambda point: point["held_out_cost"])["c_over_n"], path
