"""One draw of training examples: every method, its constants chosen on held-out queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.class_descriptions.queries import Part, Queries
from experiments.class_descriptions.similarities import (
    METHODS,
    output_features,
    similarities_of,
)
from experiments.lib.record import Stopwatch
from jaxstruct import fit, from_scipy
from jaxstruct.data.splits import per_class_subsample
from jaxstruct.multiclass import multiclass

ALONE = "names alone"
"""No machine: the class whose name is closest to the query."""
MATCHES = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Weights of the match with the name, for the column that adds it."""


class Grid(NamedTuple):
    """What is chosen on held-out data, and how exactly is trained.

    Fields:
      c: values of C' = C / n. identity: weights of the identity beside descriptions.
      tolerance: relative gap. dtype: of the weights. held_out: queries a class to choose by.
    """

    c: tuple[float, ...]
    identity: tuple[float, ...]
    tolerance: float
    dtype: str
    held_out: int


class Cell(NamedTuple):
    """One method on one draw.

    Fields:
      plain, matched: [N, k] scores of the test queries; with the weighted match beside them.
      chosen: constants by name. seconds: of all trainings, compile_seconds among them.
      unsolved: trainings without a proof.
    """

    plain: np.ndarray
    matched: np.ndarray
    chosen: dict[str, float]
    seconds: float
    unsolved: int
    compile_seconds: float = 0.0


class Task(NamedTuple):
    """What is learned from, chosen by and tested on.

    Fields:
      train, held_out, test: the queries.
      learned: classes whose constraints are trained.
      choosing, testing: the classes among which held-out and test queries are told apart.
    """

    train: Part
    held_out: Part
    test: Part
    learned: np.ndarray
    choosing: np.ndarray
    testing: np.ndarray


def some_of(part: Part, per_class: int, seed: int) -> Part:
    """So many queries of each class."""
    index = per_class_subsample(part.y, per_class, seed)
    return Part(part.x[index], part.y[index])


def of_classes(part: Part, classes: np.ndarray) -> Part:
    """The queries of some classes."""
    index = np.flatnonzero(np.isin(part.y, classes))
    return Part(part.x[index], part.y[index])


def accuracy(scores: np.ndarray, truth: np.ndarray, classes: np.ndarray) -> float:
    """Per cent of queries whose class has the largest score among `classes`; a tie is shared.

    Among m classes of the largest score the right one counts 1 / m: classes that nothing tells
    apart are guessed, whatever their order.
    """
    own = scores[:, classes]
    best = np.isclose(own, own.max(axis=1, keepdims=True), rtol=0, atol=1e-6)
    right = np.any(best & (classes[None, :] == truth[:, None]), axis=1)
    return 100 * float(np.mean(right / best.sum(axis=1)))


def matches(queries: Queries, x: Any) -> np.ndarray:
    """[N, k] cosine of each query and each class's name, in words."""
    return np.asarray((x @ queries.name_rows.T).todense(), np.float64)


def run_methods(
    queries: Queries, task: Task, methods: Sequence[str], grid: Grid
) -> dict[str, Cell]:
    """Every method on one task, and the names alone."""
    drawn = similarities_of(queries, task.train)
    of_held, of_test = (matches(queries, part.x) for part in (task.held_out, task.test))
    cells = {name: _cell(name, drawn, task, grid, of_held, of_test) for name in methods}
    return {ALONE: Cell(of_test, of_test, {}, 0.0, 0)} | cells


def _cell(
    name: str,
    similarities: Mapping[str, np.ndarray],
    task: Task,
    grid: Grid,
    of_held: np.ndarray,
    of_test: np.ndarray,
) -> Cell:
    watch, unsolved = Stopwatch(), 0
    best: dict[str, tuple] = {}
    weights = grid.identity if METHODS[name] else (1.0,)
    for identity in weights:
        features = output_features(METHODS[name], similarities, identity)
        for c in grid.c:
            scores, solved = _trained(features, task, c, grid)
            unsolved += not solved
            held, test = (scores(part.x) for part in (task.held_out, task.test))
            for weight in MATCHES:
                value = accuracy(held + weight * of_held, task.held_out.y, task.choosing)
                found = (value, test + weight * of_test, identity, c, weight)
                for column in ("plain", "matched") if weight == 0 else ("matched",):
                    if column not in best or value > best[column][0]:
                        best[column] = found
    plain, matched = best["plain"], best["matched"]
    chosen = {
        "identity": plain[2], "c": plain[3], "held_out": plain[0], "matched_identity": matched[2],
        "matched_c": matched[3], "match": matched[4],
    }  # fmt: skip
    return Cell(
        plain[1], matched[1], chosen, watch.elapsed().wall, unsolved, watch.compiling().wall
    )


def _trained(features: np.ndarray, task: Task, c: float, grid: Grid) -> tuple[Any, bool]:
    """(x -> scores [N, k] of all classes, whether the training was solved)."""
    train, (_, d) = task.train, task.train.x.shape
    own = features[task.learned]
    problem = multiclass(d, len(own), output_features=own, dtype=grid.dtype)
    labels = np.searchsorted(task.learned, train.y).astype(np.int32)
    solution = fit(
        problem, from_scipy(train.x), labels, "svm1", c * len(labels), tolerance=grid.tolerance
    )
    side = np.asarray(solution.weights["weights"], np.float64) @ features.T
    return (lambda x: np.asarray(x @ side)), solution.status.solved


def few_examples(queries: Queries, per_class: int, seed: int, grid: Grid) -> Task:
    """All classes, with so many training examples each."""
    k = np.arange(len(queries.names))
    held_out = some_of(queries.held_out, grid.held_out, seed)
    return Task(some_of(queries.train, per_class, seed), held_out, queries.test, k, k, k)


def no_examples(
    queries: Queries, per_class: int, unseen: int, seed: int, grid: Grid
) -> tuple[Task, Task]:
    """(to choose by, to test): `unseen` classes of each domain have a description alone.

    The classes of a domain are dealt at random: some are tested without examples, as many others
    are held out in the same way to choose the constants, and then give their examples, too.
    """
    random = np.random.default_rng(seed)
    parents = np.array([queries.taxonomy.parents[node][0] for node in queries.taxonomy.classes])
    dealt = [random.permutation(np.flatnonzero(parents == each)) for each in np.unique(parents)]
    tested = np.sort(np.concatenate([own[:unseen] for own in dealt]))
    chosen_by = np.sort(np.concatenate([own[unseen : 2 * unseen] for own in dealt]))
    every = np.arange(len(queries.names))
    drawn = some_of(queries.train, per_class, seed)
    known = np.setdiff1d(every, tested)
    first = np.setdiff1d(known, chosen_by)
    held_out = of_classes(queries.held_out, chosen_by)
    choosing = Task(of_classes(drawn, first), held_out, held_out, first, chosen_by, chosen_by)
    return choosing, Task(
        of_classes(drawn, known), held_out, queries.test, known, chosen_by, tested
    )


def zero_shot(
    queries: Queries, tasks: tuple[Task, Task], methods: Sequence[str], grid: Grid
) -> dict[str, Cell]:
    """Every method: constants by the classes held out, then trained on all that have examples."""
    choosing, testing = tasks
    found = run_methods(queries, choosing, methods, grid)
    drawn, of_test = similarities_of(queries, testing.train), matches(queries, testing.test.x)
    cells = {ALONE: Cell(of_test, of_test, {}, 0.0, 0)}
    for name in methods:
        watch, chosen = Stopwatch(), found[name].chosen
        pairs = [
            (chosen["identity"], chosen["c"]),
            (chosen["matched_identity"], chosen["matched_c"]),
        ]
        scores = {}
        for identity, c in dict.fromkeys(pairs):
            features = output_features(METHODS[name], drawn, identity)
            scores[identity, c] = _trained(features, testing, c, grid)
        plain, matched = (scores[pair][0](testing.test.x) for pair in pairs)
        unsolved = found[name].unsolved + sum(not solved for _, solved in scores.values())
        seconds = found[name].seconds + watch.elapsed().wall
        compiling = found[name].compile_seconds + watch.compiling().wall
        matched = matched + chosen["match"] * of_test
        cells[name] = Cell(plain, matched, chosen, seconds, unsolved, compiling)
    return cells
