"""Kernel, inputs, labels and scores of named entities."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.tasks.news import (
    as_numbers,
    chosen,
    encode_labels,
    label_names,
    label_strings,
    length_classes,
    score,
    token_kernel,
    true_labels,
)
from experiments.tasks.token_features import fit_token_index, token_features, token_rows
from jaxstruct.baselines.perceptron import perceptron
from jaxstruct.chains.structure import chain
from jaxstruct.core.padding import bucketed
from jaxstruct.data.conll import Sentence
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


def test_a_machine_of_a_fold_does_not_depend_on_its_test_sentences(sentences):
    """The anchors of held-out tokens keep the coefficient 0."""
    _, kernel = corpora(sentences)
    train = np.array([0, 1, 4, 5, 8, 9, 12, 13])
    part = chosen(kernel, train)
    problem = chain(kernel.number_of_features, len(kernel.names))
    machine = perceptron(problem, part.inputs, part.outputs, max_epochs=1)
    tokens = np.repeat(np.isin(np.arange(16), train), kernel.lengths)
    weights = np.asarray(machine.weights["emissions"])
    assert not weights[~tokens].any() and weights[tokens].any()


def test_labels_come_back_in_the_order_of_the_sentences(sentences):
    sparse, _ = corpora(sentences)
    back = label_strings(sparse.outputs, sparse.names)
    assert [tuple(labels) for labels in back] == list(true_labels(sparse))
    which = np.array([5, 2, 11])
    part = chosen(sparse, which)
    assert list(true_labels(part)) == [sentences[i].labels for i in which]
    assert [tuple(y) for y in label_strings(part.outputs, part.names)] == list(true_labels(part))


def test_sparse_and_kernel_tokens_have_the_same_length_classes(sentences):
    """Sentences have 2 or 7 words; machines on both kinds are compared on the same folds."""
    for corpus in corpora(sentences):
        assert (length_classes(corpus) == (corpus.lengths > 2)).all()


def test_an_unknown_label_is_named_with_its_place(sentences):
    with pytest.raises(ValueError, match=r"b.txt: sentence 2 labels 'Ana' as 'B-X'.*B-LOC, B-PER"):
        encode_labels([sentences[0], Sentence(("Ana",), (), ("B-X",))], ["B-LOC", "B-PER", "I-LOC",
                      "I-PER", "O"], "b.txt")  # fmt: skip
    with pytest.raises(ValueError, match=r"are \['O'\]"):
        label_names([Sentence(("a",), (), ("O",))])


def test_scores_are_in_per_cent_and_without_entities_where_labels_are_not_iob2():
    found = as_numbers(score([["B-A", "O"], ["O", "O"]], [["B-A", "O"], ["B-A", "O"]]))
    assert found == {
        "token_error": 25.0, "precision": 50.0, "recall": 100.0, "f1": pytest.approx(200 / 3),
    }  # fmt: skip
    plain = score([["N", "V"]], [["N", "N"]])
    assert plain[:2] == (50.0, None) and as_numbers(plain)["f1"] is None
    assert plain.reason.startswith("labels[0]: got 'N', expected O, B-type or I-type: write B-")
    iobes = score([["B-A", "E-A", "S-A"]], [["B-A", "E-A", "O"]])
    assert iobes.entities == (1.0, 0.5, 2 / 3) and not iobes.reason
