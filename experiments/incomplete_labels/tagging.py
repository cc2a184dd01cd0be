"""Named entities of Spanish news, the labels of some tokens taken away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from experiments.corpora.conll2002 import load_conll2002
from experiments.incomplete_labels.options import Job, Options, incomplete, trainer
from experiments.tasks.news import (
    Corpus,
    as_numbers,
    label_names,
    label_strings,
    score,
    sparse_corpus,
    true_labels,
)
from experiments.tasks.token_features import fit_token_index
from jaxstruct import Problem, Ragged, SparseFeatures, predict
from jaxstruct.chains.potentials import ChainInput
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.data.conll import Sentence

RATIO = 0.1
"""C' = C / n of all machines. An SVM of 300 whole sentences has an F1 of 56.3 at .1, 55.5 at 1."""
SPARE = 4096
"""Numbers of features are multiples of it, so that more data sets share compiled programs."""
WAYS = ("tokens", "stretches")
"""Each token by itself at random; of each sentence one stretch, its share of it."""


class Data(NamedTuple):
    """The machine's structure, training and test sentences."""

    problem: Problem
    train: Corpus
    test: Corpus


def drawn(options: Options, dtype: str, seed: int) -> Data:
    """Sentences of the training part, and of the part testa.

    Those of all seeds have the same lengths, one after the other, so that they share compiled
    programs.
    """
    news = load_conll2002("esp")
    lengths = [len(sentence.words) for sentence in news.train]
    wanted = np.random.default_rng(options.seed).permutation(lengths)[: options.sentences]
    rng = np.random.default_rng([options.seed, seed])
    of_length: dict[int, list[Sentence]] = defaultdict(list)
    for i in rng.permutation(len(lengths)):
        of_length[lengths[i]].append(news.train[i])
    train = [of_length[length].pop() for length in wanted]
    test = [news.testa[i] for i in rng.permutation(len(news.testa))[: options.test_sentences]]
    index, names = fit_token_index(train), label_names(news.train)
    d = -(-index.number_of_features // SPARE) * SPARE
    problem = chain(d, len(names), dtype=dtype)
    return Data(problem, *(sparse_corpus(own, names, index) for own in (train, test)))


def setting_of(share: int, way: str) -> str:
    """What a table calls it."""
    return f"{share} % of {way} blank"


def blanks(y: Ragged, share: float, way: str, rng: np.random.Generator) -> np.ndarray:
    """[tokens] bool, which labels are taken away; a stretch has the share of its sentence."""
    if way == "tokens":
        return rng.random(len(y.rows)) < share
    lengths = np.diff(y.offsets)
    sizes = np.round(share * lengths).astype(int)
    starts = y.offsets[:-1] + rng.integers(0, lengths - sizes + 1)
    places = np.arange(len(y.rows))
    return (places >= np.repeat(starts, lengths)) & (places < np.repeat(starts + sizes, lengths))


def runs(x: ChainInput, y: Ragged, blank: np.ndarray) -> tuple[ChainInput, Ragged]:
    """The stretches whose labels are left, each a sentence of its own, the features as they are."""
    kept = np.flatnonzero(~blank)
    first = np.append(True, np.diff(kept) > 1) | np.isin(kept, y.offsets)
    offsets = np.append(np.flatnonzero(first), len(kept))
    table, values = (Ragged(part.rows[kept], offsets, part.fill) for part in x.features)
    return chain_inputs(SparseFeatures(table, values)), Ragged(y.rows[kept], offsets, -1)


def jobs(options: Options, dtype: str, seed: int) -> Iterator[Job]:
    """All trainings on the sentences of one seed."""
    problem, train, test = drawn(options, dtype, seed)
    true, names = true_labels(test), test.names

    def f1(found: Any) -> float:
        read = label_strings(predict(problem, found.weights, test.inputs), names)
        return as_numbers(score(true, read))["f1"]

    def job(setting: str, method: str, x: ChainInput, y: Any, **how: Any) -> Job:
        C = RATIO * len(x.features.indices)
        return Job(setting, method, trainer(options, method, problem, x, y, C, **how), f1)

    x, y = train.inputs, train.outputs
    yield job("all", "known", x, y)
    yield job("all", "field", x, y)
    rng = np.random.default_rng(options.seed)  # of places, which are those of every seed
    for way in WAYS:
        for share in map(int, options.shares):
            setting, blank = setting_of(share, way), blanks(y, share / 100, way, rng)
            part = incomplete(y, blank, len(names))
            yield job(setting, "latent", x, part)
            yield job(setting, "field", x, part)
            yield job(setting, "rest", *runs(x, y, blank))
            whole = np.add.reduceat(blank, y.offsets[:-1]) == 0
            if whole.any():
                yield job(setting, "whole", x, y, example_weights=whole.astype(float))
            read = np.where(blank, names.index("O"), y.rows).astype(np.int32)
            yield job(setting, "outside", x, Ragged(read, y.offsets, -1))
