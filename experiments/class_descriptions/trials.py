"""One draw of training examples: every method, its constants chosen on held-out queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.clinc150 import load_clinc150
from experiments.corpora.splits import per_class_subsample
from experiments.lib.record import Stopwatch
from jaxstruct import fit, from_scipy
from jaxstruct.core.labels import encode, fit_codec
from jaxstruct.multiclass import (
    description_features,
    multiclass,
    similarity_features,
    taxonomy_features,
)
from jaxstruct.multiclass.taxonomy import Taxonomy, taxonomy_from_paths

LATENT = 100
"""Dimensions of the latent semantic space."""


class Part(NamedTuple):
    """Queries: `x` [n, d] tf-idf of unit length (SciPy), `y` [n] classes."""

    x: Any
    y: np.ndarray


class Queries(NamedTuple):
    """The corpus.

    Fields:
      train, held_out, test: its three parts. names: [k] words of each class, "order checks".
      name_rows: [k, d] the names as if they were queries. latent_names: [k, r] where a singular
        value decomposition of the training queries, without their labels, places them.
      taxonomy: the classes under their domains.
    """

    train: Part
    held_out: Part
    test: Part
    names: tuple[str, ...]
    name_rows: Any
    latent_names: np.ndarray
    taxonomy: Taxonomy


def load_queries(folder: Path | None = None) -> Queries:
    """CLINC150; words and their weights from the texts of the training part, not from its labels.

    Args:
      folder: with the corpus's files; None: where `experiments.corpora.locate` finds it.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    corpus = load_clinc150(folder)
    codec = fit_codec(list(corpus.domains))
    intents = [str(each) for each in codec.classes]
    names = tuple(intent.replace("_", " ") for intent in intents)
    taxonomy = taxonomy_from_paths({each: (f"domain {corpus.domains[each]}",) for each in intents})
    number: Any = np.float32  # its annotation has float64 alone
    vectoriser = TfidfVectorizer(sublinear_tf=True, dtype=number).fit(corpus.train.texts)

    def part(queries: Any) -> Part:
        return Part(vectoriser.transform(queries.texts), encode(codec, list(queries.labels)))

    train, held_out, test = map(part, (corpus.train, corpus.validation, corpus.test))
    rows: Any = vectoriser.transform(names)
    space = TruncatedSVD(min(LATENT, rows.shape[1] - 1), random_state=0).fit(train.x)
    latent = np.asarray(space.transform(rows), np.float64)
    return Queries(train, held_out, test, names, rows, latent, taxonomy)


# Similarities L(y, y') of classes (thesis 4.3.1), [k, k] with a unit diagonal.
#
# Each is a positive semi-definite matrix, so that any Lambda with Lambda Lambda' = L makes the same
# machine: features of thousands of characters cost what k features do.

PARTS = ("tree", "words", "characters", "latent", "centroids")
METHODS: Mapping[str, tuple[str, ...]] = {
    "flat": (),
    "tree": ("tree",),
    "words": ("words",),
    "characters": ("characters",),
    "latent": ("latent",),
    "centroids": ("centroids",),
    "tree + words": ("tree", "words"),
    "all": PARTS,
}
"""Method -> the similarities that it averages."""
OF_EXAMPLES = ("centroids",)
"""Similarities that need examples of every class."""


def cosines(rows: np.ndarray) -> np.ndarray:
    """Cosines of rows [k, k]; 0 beside a row of zeros, 1 on the diagonal."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1)
    table = unit @ unit.T
    np.fill_diagonal(table, 1.0)
    return table


def similarities_of(queries: Queries, drawn: Part) -> dict[str, np.ndarray]:
    """Every similarity of PARTS.

    tree: features of the taxonomy (4.19). words, characters: tf-idf of the names' words and of
    2 to 4 neighbouring characters in a word. latent: the names' words as a singular value
    decomposition of all training queries, without their labels, places them. centroids: mean
    vectors of the training examples drawn; a class without any is like no other.
    """
    k = len(queries.names)
    characters = {"analyzer": "char_wb", "ngram_range": (2, 4)}
    means = np.zeros((k, drawn.x.shape[1]))
    for y in np.unique(drawn.y):
        means[y] = np.asarray(drawn.x[drawn.y == y].mean(axis=0))
    return {
        "tree": cosines(taxonomy_features(queries.taxonomy)),
        "words": cosines(description_features(queries.names, 0.0)),
        "characters": cosines(description_features(queries.names, 0.0, characters)),
        "latent": cosines(queries.latent_names),
        "centroids": cosines(means),
    }


def output_features(
    parts: Sequence[str], similarities: Mapping[str, np.ndarray], identity_weight: float
) -> np.ndarray:
    """Lambda [k, k] with Lambda Lambda' = (mean of the parts + g^2 I) / (1 + g^2), g the weight.

    The identity where there are no parts. The corollary 4 of the thesis: with g > 0 this moves no
    function in or out of reach, only its norm.
    """
    k = len(next(iter(similarities.values())))
    if not parts:
        return np.eye(k)
    mean = sum(similarities[part] for part in parts) / len(parts)
    g = identity_weight**2
    features = similarity_features((mean + g * np.eye(k)) / (1 + g))
    return np.hstack([features, np.zeros((k, k - features.shape[1]))])


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
      choosing, testing: the classes among which held-out and test queries are distinguished.
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

    Among m classes of the largest score the right one counts 1 / m: classes that nothing
    distinguishes are guessed, whatever their order.
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
