"""Kernel, inputs, scores and settings of named entities."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.tasks import taggers
from experiments.tasks.news import as_numbers, length_classes, score, token_kernel
from experiments.tasks.token_features import fit_token_index, token_features, token_rows
from jaxstruct.chains.structure import chain
from jaxstruct.core.padding import bucketed
from tests.experiments.named_entities.cases import FEATURES, corpora


@pytest.mark.parametrize("normalise", [False, True])
def test_the_kernel_is_the_polynomial_of_the_features(sentences, normalise):
    index = fit_token_index(sentences, FEATURES)
    tokens = sum(token_features(sentences, FEATURES), [])
    vectors = np.array([[name in token for name in index.names] for token in tokens], float)
    expected = (1 + vectors @ vectors.T) ** 2
    if normalise:
        expected /= np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    found = token_kernel(token_rows(sentences, index, FEATURES), normalise)
    assert found.dtype == np.float32 and found == pytest.approx(expected, rel=1e-6)


def test_kernel_inputs_hold_rows_places_and_gram_of_each_sentence(sentences):
    _, kernel = corpora(sentences)
    index = fit_token_index(sentences, FEATURES)
    matrix = token_kernel(token_rows(sentences, index, FEATURES), False)
    ends = np.cumsum(kernel.lengths)
    padding = chain(kernel.number_of_features, len(kernel.names)).padding
    (x,) = bucketed(padding, kernel.inputs, kernel.outputs)[0].parts
    for i, (length, end) in enumerate(zip(kernel.lengths, ends, strict=True)):
        own = np.arange(end - length, end)
        assert x.length[i] == length
        assert (x.features.rows[i, :length] == matrix[own]).all()
        assert (x.features.anchors[i, :length] == own).all()
        assert (x.features.anchors[i, length:] == len(matrix)).all()
        assert (x.gram[i, :length, :length] == matrix[np.ix_(own, own)]).all()
        assert not x.gram[i, length:].any() and not x.gram[i, :, length:].any()
        assert not x.features.rows[i, length:].any()


def test_sparse_and_kernel_tokens_have_the_same_length_classes(sentences):
    """Sentences have 2 or 7 words; machines on both kinds are compared on the same folds."""
    for corpus in corpora(sentences):
        assert (length_classes(corpus) == (corpus.lengths > 2)).all()


def test_scores_are_in_per_cent_and_without_entities_where_labels_are_not_iob2():
    found = as_numbers(score([["B-A", "O"], ["O", "O"]], [["B-A", "O"], ["B-A", "O"]]))
    assert found == {
        "token_error": 25.0, "precision": 50.0, "recall": 100.0, "f1": pytest.approx(200 / 3),
    }  # fmt: skip
    plain = score([["N", "V"]], [["N", "N"]])
    assert plain[:2] == (50.0, None) and as_numbers(plain)["f1"] is None
    iobes = score([["B-A", "E-A", "S-A"]], [["B-A", "E-A", "O"]])
    assert iobes.entities == (1.0, 0.5, 2 / 3)


@pytest.mark.parametrize(
    "word, kind",
    [("1998", "digits"), ("...", "signs"), ("EFE", "capitals"), ("Ana", "initial"),
     ("A", "initial"), ("va", "small")],
)  # fmt: skip
def test_spelling(word, kind):
    assert taggers.spelling(word) == kind


def test_c_is_divided_by_the_sentences_of_the_outer_fold(sentences):
    sparse, _ = corpora(sentences)
    fold = taggers.fold_of(sparse, np.arange(4, 16), np.arange(4))
    inner = next(taggers.inner_folds(fold, 2, 0))
    assert taggers.ratio_of("1/n", fold) == taggers.ratio_of("1/n", inner) == 1 / 12
    assert taggers.ratio_of("0.1", inner) == 0.1
