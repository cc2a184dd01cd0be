"""What `experiments.random_field_certificates` trains: handwritten words and Spanish sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.corpora.conll2002 import load_conll2002
from experiments.corpora.ocr_letters import LETTERS, PIXELS
from experiments.lib import fields
from experiments.lib.options import flag
from experiments.tasks import handwriting
from experiments.tasks.letter_machines import chain_problem, read_words
from experiments.tasks.news import label_strings, score, sparse_inputs
from experiments.tasks.token_features import FeatureOptions, token_features
from experiments.tasks.token_model import prepare
from jaxstruct import Problem, Ragged, predict, take
from jaxstruct.chains import chain, chain_inputs
from jaxstruct.chains.inputs import ChainInput
from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.types import PyTree

DATA = ("words", "sentences", "kernel_words")
METHODS = ("lbfgs", "dual", "stochastic", "crfsuite", "svm", "svm_stochastic")


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    data: Sequence[str] = flag(
        ("words", "sentences"),
        "Data to train on; kernel_words: words by a kernel of degree 2.",
        DATA,
        some=True,
    )
    methods: Sequence[str] = flag(
        METHODS, "Trainers to compare; CRFsuite where it is installed.", METHODS, some=True
    )
    letter_data: str | None = flag(
        None, "A file as letter.data; default: the corpus, see third_party_data."
    )
    path: str | None = flag(
        None, "A folder as conll2002; default: the corpus, see third_party_data."
    )
    examples: int = flag(0, "Words of fold 1 that train; 0: all.", least=0)
    sentences: int = flag(300, "Spanish sentences that train; 0: all.", least=0)
    kernel_examples: int = flag(200, "Words of fold 1 in kernel_words.", least=1)
    c_over_n: float = flag(0.1, "C' = C / n.", above=0)
    kernel_c_over_n: float = flag(10.0, "C' of kernel_words.", above=0)
    tolerance: float = flag(1e-4, "Relative duality gap at which dual ascent stops.", above=0)
    max_passes: int = flag(200, "Passes of dual ascent, at most.", least=1)
    group: int = flag(4, "Examples that a step of dual ascent moves.", least=1)
    gradient_tolerance: float = flag(
        1e-3, "L-BFGS stops at |gradient| <= this times max(1, |w|).", above=0
    )
    svm_tolerance: float = flag(1e-3, "Relative duality gap at which working sets stop.", above=0)
    epochs: int = flag(50, "Epochs of stochastic gradients.", least=1)
    batch: int = flag(4, "Examples of a stochastic gradient.", least=1)
    rate: float = flag(0.1, "Rate of the first stochastic step.", above=0)
    evaluate_every: int = flag(
        1, "Epochs after which P of stochastic gradients is evaluated.", least=1
    )
    compilation_cache: bool = False


FEATURES = FeatureOptions(4, 1, False)
"""Of the Spanish sentences: words, up to 4 letters of affixes, shapes, one neighbour each side."""
WORDS = 512
"""Words whose kernel values are made at once."""


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
      problem, inputs, outputs: the training set. c_over_n: its C / n.
      test: weights -> test error in %.
      strings: makes the training set for CRFsuite; None of kernel values.
    """

    name: str
    title: str
    error: str
    problem: Problem
    inputs: PyTree
    outputs: PyTree
    c_over_n: float
    test: Callable[[PyTree], float]
    strings: Callable[[], Strings] | None

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
    return FieldTask("words", title, "letters", problem, x, y, options.c_over_n, test, strings)


def _kernel_rows(pixels: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """[a, b] K(x, z) = (<x, z> + 1)^2 / sqrt(K(x, x) K(z, z)) of letters, float32."""
    products = pixels @ anchors.T + 1
    lengths = [np.sum(each * each, axis=1) + 1 for each in (pixels, anchors)]
    return (products**2 / (lengths[0][:, None] * lengths[1])).astype(np.float32)


def _chosen_letters(data: handwriting.Data, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(pixels of the letters of some words in float64, [words + 1] where each word begins)."""
    letters = handwriting.letters_of(data, chosen)
    offsets = np.concatenate([[0], np.cumsum(data.lengths[chosen])])
    return data.words.pixels[letters].astype(np.float64), offsets


def kernel_words(options: Options, dtype: str) -> FieldTask:
    """The first words of fold 1 by a kernel of degree 2: all their letters are anchors.

    Raises:
      CorpusMissing, MalformedFile, FileNotFoundError: as `handwriting.load`.
    """
    data = handwriting.load(options.letter_data, dtype)
    split = handwriting.one_split(data.words, ("1",), options.kernel_examples)
    anchors, offsets = _chosen_letters(data, split.train)
    m = len(anchors)
    problem = chain(m, len(LETTERS), dtype=dtype)

    def inputs(chosen: np.ndarray, places: np.ndarray | None = None) -> ChainInput:
        pixels, begins = _chosen_letters(data, chosen)
        places = np.full(len(pixels), m) if places is None else places
        rows = Ragged(_kernel_rows(pixels, anchors), begins)
        return chain_inputs(KernelTokens(rows, Ragged(places.astype(np.int32), begins, m)))

    def test(weights: PyTree) -> float:
        read = []
        for first in range(0, len(split.test), WORDS):
            read += list(predict(problem, weights, inputs(split.test[first : first + WORDS])))
        return handwriting.errors(data, split.test, read).letters

    title = f"{len(split.train)} OCR words, kernel"
    return FieldTask(
        "kernel_words", title, "letters", problem, inputs(split.train, np.arange(m)),
        take(data.outputs, split.train), options.kernel_c_over_n, test, None,
    )  # fmt: skip


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
        "sentences",
        title,
        "tokens",
        data.problem,
        given.inputs,
        given.outputs,
        options.c_over_n,
        test,
        strings,
    )


TASKS: dict[str, Callable[[Options, str], FieldTask]] = dict(
    zip(DATA, (words, sentences, kernel_words), strict=True)
)


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
