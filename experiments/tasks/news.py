"""Sentences as chain inputs: sparse features or kernel values of the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.tasks.token_features import (
    DEFAULT,
    FeatureOptions,
    TokenRows,
    token_rows,
    token_table,
)
from jaxstruct import Ragged, SparseFeatures, take
from jaxstruct.chains.iob2 import EntityScores, entity_f1
from jaxstruct.chains.potentials import ChainInput
from jaxstruct.chains.structure import chain_inputs
from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.feature_encoding import FeatureIndex
from jaxstruct.core.sizes import bucket_lengths
from jaxstruct.data.conll import Sentence
from jaxstruct.kernels.gram import gram_matrix
from jaxstruct.kernels.input import polynomial

Labels = Sequence[Sequence[str]]


class Scores(NamedTuple):
    """What predictions are worth.

    Fields:
      token_error: wrong labels, in % of the tokens.
      entities: precision, recall and F1 of whole entities; None where the labels are of none.
    """

    token_error: float
    entities: EntityScores | None


class Corpus(NamedTuple):
    """Sentences, ready to train a chain on.

    Fields:
      sentences: n of them. names: of the classes. lengths: [n] tokens.
      number_of_features: of `chain`: features or anchors.
      inputs, outputs: stores of the sentences and of their classes.
    """

    sentences: Sequence[Sentence]
    names: tuple[str, ...]
    lengths: np.ndarray
    number_of_features: int
    inputs: ChainInput
    outputs: Ragged


def sparse_corpus(
    sentences: Sequence[Sentence],
    names: tuple[str, ...],
    index: FeatureIndex,
    options: FeatureOptions = DEFAULT,
) -> Corpus:
    """Labelled sentences with the binary features of their tokens.

    Args:
      sentences: labelled. names: of the classes. index: fitted on the training sentences.
      options: of the features.
    """
    labels = encode_labels(sentences, names)
    inputs = sparse_inputs(sentences, index, options)
    return _corpus(sentences, names, index.number_of_features, inputs, labels)


def kernel_corpus(
    sentences: Sequence[Sentence],
    names: tuple[str, ...],
    index: FeatureIndex,
    normalise: bool,
    options: FeatureOptions = DEFAULT,
) -> Corpus:
    """Labelled sentences with the kernel values of their tokens; see `kernel_inputs`."""
    labels = encode_labels(sentences, names)
    inputs = kernel_inputs(sentences, index, normalise, options)
    return _corpus(sentences, names, len(labels), inputs, labels)


def _corpus(
    sentences: Sequence[Sentence],
    names: tuple[str, ...],
    d: int,
    inputs: ChainInput,
    labels: np.ndarray,
) -> Corpus:
    lengths = np.array([len(sentence.words) for sentence in sentences])
    outputs = Ragged(labels, np.concatenate([[0], np.cumsum(lengths)]), -1)
    return Corpus(sentences, names, lengths, d, inputs, outputs)


def chosen(corpus: Corpus, which: np.ndarray) -> Corpus:
    """The sentences `which` of a corpus."""
    return corpus._replace(
        sentences=[corpus.sentences[i] for i in which], lengths=corpus.lengths[which],
        inputs=take(corpus.inputs, which), outputs=take(corpus.outputs, which),
    )  # fmt: skip


def true_labels(corpus: Corpus) -> Labels:
    """The labels of each sentence."""
    return [sentence.labels for sentence in corpus.sentences]


def label_names(sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """The labels that occur, sorted; class s is names[s]."""
    return tuple(sorted({label for sentence in sentences for label in sentence.labels}))


def encode_labels(sentences: Sequence[Sentence], names: Sequence[str]) -> np.ndarray:
    """[tokens] int32 classes of all tokens, one sentence after the other."""
    number = {name: place for place, name in enumerate(names)}
    return np.array([number[y] for sentence in sentences for y in sentence.labels], np.int32)


def sparse_inputs(
    sentences: Sequence[Sentence], index: FeatureIndex, options: FeatureOptions = DEFAULT
) -> ChainInput:
    """A store of the sentences with the binary features of each token."""
    rows = token_rows(sentences, index, options)
    return chain_inputs(_features(rows, rows.sentence_offsets))


def _features(rows: TokenRows, offsets: np.ndarray) -> SparseFeatures:
    """The features of all tokens, 1 each, as sequences that start at `offsets`."""
    table, d = token_table(rows), rows.number_of_features
    values = (table < d).astype(np.float32)
    return SparseFeatures(Ragged(table, offsets, d), Ragged(values, offsets))


def kernel_inputs(
    sentences: Sequence[Sentence],
    index: FeatureIndex,
    normalise: bool,
    options: FeatureOptions = DEFAULT,
) -> ChainInput:
    """A store of the sentences with the kernel values of each token against all tokens.

    All tokens are anchors, those of held-out sentences too: an anchor that no training sentence
    holds keeps the coefficient 0, so the machine of a fold is that of its training sentences, and
    all folds have the same shapes.

    Args:
      sentences: training and test sentences together. index: of their features.
      normalise: see `token_kernel`.
    """
    rows = token_rows(sentences, index, options)
    kernel, offsets = token_kernel(rows, normalise), rows.sentence_offsets
    anchors = Ragged(np.arange(len(kernel), dtype=np.int32), offsets, len(kernel))
    return chain_inputs(KernelTokens(Ragged(kernel, offsets), anchors))


def token_kernel(rows: TokenRows, normalise: bool) -> np.ndarray:
    """[tokens, tokens] float32, K = (1 + <x, x'>)^2 of binary features (degree 2, thesis 4.4.4).

    From the sparse inner products, so that no feature of degree 2 is ever formed. Normalised, it
    is K(x, x') / sqrt(K(x, x) K(x', x')), so that every token has length 1 in feature space.
    """
    tokens = _features(rows, np.array([0, len(rows.token_offsets) - 1]))
    features = SparseFeatures(tokens.indices.rows, tokens.values.rows)
    kernel = np.array(
        gram_matrix(polynomial(2, 1.0), features, num_features=rows.number_of_features)
    )
    if normalise:
        lengths = np.sqrt(np.diagonal(kernel))
        kernel /= lengths[:, None]
        kernel /= lengths[None, :]
    return kernel


def length_classes(corpus: Corpus) -> np.ndarray:
    """[n] which of a few classes the length of each sentence is in; folds have as many of each.

    The same for sparse features and kernel values, so that their folds are the same sentences. A
    position of kernel tokens takes as many numbers as there are tokens, so classes are cheap.
    """
    return np.searchsorted(bucket_lengths(corpus.lengths, 4, price=0), corpus.lengths)


def label_strings(outputs: Ragged, names: Sequence[str]) -> Labels:
    """The label names of each sentence."""
    return [[names[int(y)] for y in labels] for labels in outputs]


def score(true: Labels, predicted: Labels) -> Scores:
    """Token error and, where the labels are of entities, as IOB2, the scores of whole entities."""
    pairs = [
        (a, b) for x, y in zip(true, predicted, strict=True) for a, b in zip(x, y, strict=True)
    ]
    wrong = 100 * float(np.mean([a != b for a, b in pairs]))
    try:
        return Scores(wrong, entity_f1(true, predicted))
    except ValueError:
        return Scores(wrong, None)


def as_numbers(scores: Scores) -> dict[str, Any]:
    """token_error in %, precision, recall and f1 in % (None without entities)."""
    percent: dict[str, float | None] = dict.fromkeys(EntityScores._fields)
    if scores.entities is not None:
        percent = {name: 100 * value for name, value in scores.entities._asdict().items()}
    return {"token_error": scores.token_error, **percent}
