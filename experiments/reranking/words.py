"""Handwritten words: the k best of a chain's Viterbi, and features of whole words."""

from __future__ import annotations

from collections import Counter
from functools import partial

import jax
import numpy as np

from experiments.reranking.lists import (
    NEW_TEXTS,
    WORD_RATIO,
    Features,
    Lists,
    Options,
    folds_of,
    joined,
)
from experiments.tasks.handwriting import Data, chain_problem, load, one_split, spell
from jaxstruct import Problem, fit, take
from jaxstruct.chains.oracles.decoding import Decoded, k_best
from jaxstruct.chains.potentials import ChainInput
from jaxstruct.chains.structure import chain_potentials
from jaxstruct.core.padding import bucketed_inputs
from jaxstruct.core.types import PyTree

Word = tuple[int, ...]
EDGE = -1
"""Stands before the first and after the last letter."""
SHORTEST, LONGEST = 3, 6
"""Letters of an n-gram; pairs are in the base model."""


def wrong_letters(true: Word, word: Word) -> float:
    """The Hamming loss."""
    return float(sum(a != b for a, b in zip(true, word, strict=True)))


def letter_runs(word: Word) -> Features:
    """How often each run of 3 to 6 letters occurs, the edges of the word counted as letters."""
    text = (EDGE, *word, EDGE)
    sizes = range(SHORTEST, min(LONGEST, len(text)) + 1)
    return Counter(text[at : at + n] for n in sizes for at in range(len(text) - n + 1))


@partial(jax.jit, static_argnums=3)
def _k_best_of_batch(problem: Problem, w: PyTree, inputs: ChainInput, k: int) -> Decoded:
    def of_one(x: ChainInput) -> Decoded:
        return k_best(*chain_potentials(problem, problem.model.potentials(w, x)), k)

    return jax.vmap(of_one)(inputs)


def k_best_words(problem: Problem, w: PyTree, data: Data, chosen: np.ndarray, k: int) -> Lists:
    """The k best label sequences of some words, with what they cost."""
    buckets = bucketed_inputs(problem.padding, take(data.inputs, chosen))
    truths = [tuple(int(letter) for letter in word) for word in spell(data, chosen)]
    outputs: list[list[Word]] = [[] for _ in chosen]
    scores: list[list[float]] = [[] for _ in chosen]
    for part, index in zip(buckets.parts, buckets.index, strict=True):
        found = jax.tree.map(np.asarray, _k_best_of_batch(problem, w, part, k))
        for row, i in enumerate(index):
            for labels, score in zip(found.labels[row], found.score[row], strict=True):
                if np.isfinite(score):
                    outputs[i].append(tuple(int(letter) for letter in labels[labels >= 0]))
                    scores[i].append(float(score))
    pairs = zip(truths, outputs, strict=True)
    costs = [[wrong_letters(true, y) for y in own] for true, own in pairs]
    return Lists(outputs, scores, costs, truths)


def chosen_words(options: Options, data: Data, new: bool) -> tuple[np.ndarray, np.ndarray]:
    """(words to train on, words to test on): all of the split, or, `new`, so that no text is in
    both: a part of the texts tests, the others train.

    Raises:
      ValueError: a part is empty.
    """
    split = one_split(data.words, options.train_folds, options.examples)
    train, test = split.train, split.test
    if new:
        texts = [tuple(word) for word in spell(data, np.arange(len(data.lengths)))]
        every = sorted(set(texts))
        count = round(NEW_TEXTS * len(every))
        drawn = np.random.default_rng(options.seed).permutation(len(every))[:count]
        fresh = {every[i] for i in drawn}
        is_new = np.array([text in fresh for text in texts])
        train, test = train[~is_new[train]], test[is_new[test]]
    if not len(train) or not len(test):
        raise ValueError(
            f"train_folds: got {list(options.train_folds)}, which leave {len(train)} words to "
            f"train on and {len(test)} to test on"
        )
    return train, test[: options.test_examples or len(test)]


def load_lists(options: Options, dtype: str, new: bool) -> tuple[Lists, Lists]:
    """(training lists, each of a chain trained on the other folds; test lists).

    Args:
      new: whether the words to test on are of texts that no training word has.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    data = load(options.letter_data, dtype)
    train, test = chosen_words(options, data, new)
    problem = chain_problem("hamming", dtype)

    def trained(chosen: np.ndarray) -> PyTree:
        inputs, outputs = (take(tree, chosen) for tree in (data.inputs, data.outputs))
        return fit(
            problem, inputs, outputs, "svm1_margin", WORD_RATIO * len(chosen),
            tolerance=options.tolerance, settings=options.settings(),
        ).weights  # fmt: skip

    parts = []
    for others, held in folds_of(len(train), options.base_folds, options.seed):
        weights = trained(train[others])
        parts.append((held, k_best_words(problem, weights, data, train[held], options.k_words)))
    return joined(parts), k_best_words(problem, trained(train), data, test, options.k_words)


def measures(lists: Lists, places: list[int]) -> tuple[float, float]:
    """(words, letters) read right, in %."""
    wrong = [own[k] for own, k in zip(lists.costs, places, strict=True)]
    letters = sum(map(len, lists.truths))
    return 100 * float(np.mean(np.array(wrong) == 0)), 100 * (1 - sum(wrong) / letters)
