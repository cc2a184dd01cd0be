"""What `experiments.random_field_certificates` trains: handwritten words and Spanish sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.handwriting import data as handwriting
from experiments.handwriting.machines import chain_problem, read_words
from experiments.named_entities.data import label_strings, score, sparse_inputs
from experiments.named_entities.model import prepare
from jaxstruct import Problem, predict, take
from jaxstruct.core.types import PyTree
from jaxstruct.data.conll import load_conll2002
from jaxstruct.data.ocr_letters import LETTERS, PIXELS
from jaxstruct.data.token_features import FeatureOptions, token_features

if TYPE_CHECKING:
    from experiments.random_field_certificates.command import Options

FEATURES = FeatureOptions(4, 1, False)
"""Of the Spanish sentences: words, up to 4 letters of affixes, shapes, one neighbour each side."""


class Strings(NamedTuple):
    """The training set as CRFsuite reads it, and where its strings stand in our weights.

    Fields:
      features: the strings of every token of every sequence. labels: of every sequence.
      columns: feature -> row of the emissions. names: label -> its number.
    """

    features: Sequence[Sequence[Sequence[str]]]
    labels: Sequence[Sequence[str]]
    columns: Mapping[str, int]
    names: Mapping[str, int]


class FieldTask(NamedTuple):
    """A chain to train.

    Fields:
      name: of the files. title: of rows. error: what the test error counts.
      problem, inputs, outputs: the training set. test: weights -> test error in %.
      strings: makes the training set for CRFsuite.
    """

    name: str
    title: str
    error: str
    problem: Problem
    inputs: PyTree
    outputs: PyTree
    test: Callable[[PyTree], float]
    strings: Callable[[], Strings]

    @property
    def n(self) -> int:
        """Training sequences."""
        return len(self.outputs)


def words(options: Options, dtype: str) -> FieldTask:
    """The words of fold 1, or the first of them; the other folds test.

    Raises:
      CorpusMissing, MalformedFile, FileNotFoundError: as `handwriting.load`.
    """
    data = handwriting.load(options.letter_data, dtype)
    split = handwriting.one_split(data.words, ("1",), options.examples)
    problem = chain_problem("hamming", dtype)

    def test(weights: PyTree) -> float:
        read = read_words(problem, weights, data, split.test)
        return handwriting.errors(data, split.test, read).letters

    def strings() -> Strings:
        names = [f"p{j}" for j in range(PIXELS)]
        shown = [[names[j] for j in np.flatnonzero(row)] for row in data.words.pixels]
        bounds = [data.words.offsets[i : i + 2] for i in split.train]
        letters = [LETTERS[letter] for letter in data.words.letters]
        return Strings(
            [shown[a:b] for a, b in bounds], [letters[a:b] for a, b in bounds],
            {name: j for j, name in enumerate(names)},
            {letter: j for j, letter in enumerate(LETTERS)},
        )  # fmt: skip

    x, y = take(data.inputs, split.train), take(data.outputs, split.train)
    title = f"{len(split.train)} OCR words"
    return FieldTask("words", title, "letters", problem, x, y, test, strings)


def sentences(options: Options, dtype: str) -> FieldTask:
    """The first Spanish sentences of CoNLL-2002, named entities; testb tests.

    Raises:
      CorpusMissing, MalformedFile, FileNotFoundError: as `load_conll2002`.
    """
    corpus = load_conll2002("esp", Path(options.path) if options.path else None)
    train = corpus.train[: options.sentences or None]
    data = prepare(train, FEATURES, False, dtype)
    names = data.corpus.names
    known = sparse_inputs(corpus.testb, data.index, FEATURES)

    def test(weights: PyTree) -> float:
        found = label_strings(predict(data.problem, weights, known), names)
        return score([one.labels for one in corpus.testb], found).token_error

    def strings() -> Strings:
        return Strings(
            token_features(train, FEATURES), [one.labels for one in train],
            data.index.columns, {name: j for j, name in enumerate(names)},
        )  # fmt: skip

    title = f"{len(train)} Spanish sentences"
    given = data.corpus
    return FieldTask(
        "sentences", title, "tokens", data.problem, given.inputs, given.outputs, test, strings
    )


TASKS = {"words": words, "sentences": sentences}


def weights_of_strings(
    task: FieldTask,
    strings: Strings,
    states: Mapping[tuple[str, str], float],
    transitions: Mapping[tuple[str, str], float],
) -> PyTree:
    """Weights of our chain from those of CRFsuite, named by strings."""
    weights = {name: np.array(leaf) for name, leaf in task.problem.initial_weights.items()}
    for (feature, label), value in states.items():
        weights["emissions"][strings.columns[feature], strings.names[label]] = value
    for (first, second), value in transitions.items():
        weights["transitions"][strings.names[first], strings.names[second]] = value
    return {name: jnp.asarray(leaf) for name, leaf in weights.items()}
