"""Re-rankers: structural SVMs and the averaged perceptron on candidate sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import common
from experiments.lib.record import Stopwatch
from experiments.reranking.lists import (
    PERCEPTRON,
    Features,
    Index,
    Lists,
    Options,
    index_features,
    inputs_of,
    places_of,
    read_features,
    with_lists,
)
from jaxstruct import Problem, fit, fit_path, predict
from jaxstruct.baselines import perceptron
from jaxstruct.core.types import PyTree
from jaxstruct.strings import CandidateFeatures, candidates


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
    index = index_features(train, features, options.least_seen, options.base_scale)
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
    found = perceptron(
        problem, data.inputs, data.outputs, max_epochs=options.epochs, seed=options.seed
    )
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
