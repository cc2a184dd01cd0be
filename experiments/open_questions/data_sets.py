"""The data sets of all questions: small samples of several output types, drawn anew each split.

Features and grammars are of the whole pool, so that all splits have the same weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import numpy as np

from experiments.corpora.multilabel import load_label_sets
from experiments.tasks import benchmarks, documents, string_pairs
from experiments.tasks.treebanks import Options as ParsingOptions
from experiments.tasks.treebanks import load_treebank, prepare
from jaxstruct import Problem, Ragged, predict, take
from jaxstruct.core.buckets import rows_of
from jaxstruct.core.sizes import size_class
from jaxstruct.core.types import PyTree
from jaxstruct.graphs.multi_label import multi_label
from jaxstruct.multiclass import multiclass
from jaxstruct.multiclass.losses import tree_loss
from jaxstruct.strings import kernel_candidates
from jaxstruct.trees import weighted_grammar


class Examples(NamedTuple):
    """Stores or arrays of n examples."""

    inputs: PyTree
    outputs: PyTree


Pool = tuple[Problem, PyTree, PyTree]
"""A problem, inputs and outputs."""


Sizes = tuple[int, int, int]
"""Examples to train on, to choose C on, and to test on."""


class Split(NamedTuple):
    """The three parts; no two share an example."""

    problem: Problem
    train: Examples
    validation: Examples
    test: Examples


class DataSet(NamedTuple):
    """Where splits come from.

    Fields:
      loss: what trains and what is measured, in words.
      least: the smallest C / n of four, each ten times the one before.
      sizes: of the three parts. draw: (seed, sizes, dtype) -> Split.
    """

    loss: str
    least: float
    sizes: Sizes
    draw: Callable[[int, Sizes, str], Split]


def mean_loss(problem: Problem, weights: PyTree, part: Examples) -> float:
    """The task loss Delta(y_i, f(x_i)), mean of the part."""
    both = part.outputs, predict(problem, weights, part.inputs)
    true, found = (jax.tree.map(partial(_padded, of), *both) for of in range(2))
    return float(np.mean(jax.vmap(problem.model.loss)(true, found)))


def _padded(which: int, *leaves: np.ndarray | Ragged) -> np.ndarray:
    """One of two leaves; stores are padded to the longest example of both."""
    leaf = leaves[which]
    if not isinstance(leaf, Ragged):
        return leaf
    longest = max(int(each.lengths.max()) for each in leaves if isinstance(each, Ragged))
    return leaf.padded(np.arange(len(leaf)), longest, -1)


def _parts(sizes: Sizes, n: int, seed: int) -> list[np.ndarray]:
    """Numbers of examples for the three parts."""
    order = np.random.default_rng([seed, n]).permutation(n)
    return np.split(order, np.cumsum(sizes))[:3]


def _of_pool(pool: Callable[[str], Pool]) -> Callable[..., Split]:
    """Splits of one pool of examples, which is read once."""
    pool = cache(pool)

    def draw(seed: int, sizes: Sizes, dtype: str) -> Split:
        problem, x, y = pool(dtype)
        parts = _parts(sizes, rows_of(y), seed)
        return Split(problem, *(Examples(take(x, part), take(y, part)) for part in parts))

    return draw


def _training(data: benchmarks.Training) -> Pool:
    return data.problem, data.inputs, data.outputs


def _short(data: benchmarks.Training, longest: int) -> Pool:
    """The sequences of at most so many labels: oracles of slack re-scaling cost their square."""
    problem, x, y = _training(data)
    short = np.flatnonzero(y.lengths <= longest)
    return problem, take(x, short), take(y, short)


def _classes(load: Callable[[], documents.Documents], most: int, dtype: str) -> Pool:
    """The first classes, at most so many, flat and under the tree loss; the training part."""
    data = load()
    kept = data.train[data.labels[data.train] < most]
    loss = tree_loss(data.taxonomy)[:most, :most]
    problem = multiclass(data.number_of_features, len(loss), loss=loss, dtype=dtype)
    return problem, take(data.inputs, kept), data.labels[kept]


def _trees(dtype: str) -> Pool:
    options = ParsingOptions(corpus="gum", longest=7, sentences=400)
    data = prepare(load_treebank(options))
    problem = weighted_grammar(data.grammar, loss="node_f1", longest=data.longest, dtype=dtype)
    return problem, data.train.inputs, data.outputs


def _label_sets(name: str, loss: str, dtype: str) -> Pool:
    data = load_label_sets(name)
    x = np.concatenate([data.train_x, np.ones((len(data.train_x), 1))], axis=1).astype(dtype)
    problem = multi_label(x.shape[1], data.train_y.shape[1], loss=loss, dtype=dtype)
    return problem, x, data.train_y


def string_kernels(n: int, seed: int) -> string_pairs.Kernels:
    """Of n pairs that are drawn, with the kernels of thesis table 4.5."""
    return string_pairs.kernels_of(
        string_pairs.draw_pairs(n, seed, "insertions"), 0.01, (3, 3), "own"
    )


def _strings(seed: int, sizes: Sizes, dtype: str) -> Split:
    """Each split is drawn anew; Gen(x) is what its training part has."""
    kernels = string_kernels(sum(sizes), seed)
    train, *others = _parts(sizes, sum(sizes), seed)
    distinct = list(dict.fromkeys(kernels.numbers[train].tolist()))
    observed = np.full(size_class(len(distinct)), -1, np.int32)
    observed[: len(distinct)] = distinct
    problem = kernel_candidates(len(train), kernels.outputs, loss=kernels.loss, dtype=dtype)
    return Split(problem, *(
        Examples(string_pairs.inputs_on(kernels, part, train, observed), kernels.numbers[part])
        for part in (train, *others)
    ))  # fmt: skip


DATA_SETS = {
    "digits": DataSet("zero-one", 0.01, (100, 100, 600),
                      _of_pool(lambda dtype: _training(benchmarks.digits(1, dtype)))),
    "clinc150": DataSet("tree", 0.1, (90, 90, 600),
                        _of_pool(partial(_classes, documents.clinc150, 30))),
    "wipo": DataSet("tree", 0.01, (240, 240, 800),
                    _of_pool(partial(_classes, documents.wipo_alpha_d, 1000))),
    "words": DataSet("Hamming", 0.01, (50, 50, 150),
                     _of_pool(lambda dtype: _short(benchmarks.words(0, dtype), 6))),
    "names": DataSet("Hamming", 0.001, (60, 60, 140),
                     _of_pool(lambda dtype: _short(benchmarks.spanish(900, dtype), 16))),
    "trees": DataSet("1 - F1 of nodes", 0.01, (60, 60, 200), _of_pool(_trees)),
    "scene": DataSet("Hamming", 0.01, (100, 100, 600),
                     _of_pool(partial(_label_sets, "scene", "hamming"))),
    "yeast": DataSet("1 - F1 of labels", 0.01, (40, 60, 200),
                     _of_pool(partial(_label_sets, "yeast", "f1"))),
    "strings": DataSet("1 - L", 0.1, (100, 100, 150), _strings),
}  # fmt: skip
"""Snakes are none of them: no oracle of graphs serves svm2_margin."""
