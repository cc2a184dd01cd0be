"""Memory of long sequences: where inner products of tokens are made, and where not."""

from __future__ import annotations

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.chains import token_features
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.core.padding import bucketed
from jaxstruct.solvers.validation.checks import checked_buckets
from tests.chains.structure_cases import PLAIN, random_sequences, sparse_tokens

LIMIT = token_features.POSITIONS


def long(T, n=3):
    random = np.random.default_rng(0)
    tokens = random.normal(size=(n, T, 8)).astype(np.float32)
    return tokens, np.full(n, T), (tokens[:, :, :3].argmax(axis=2)).astype(np.int32)


def test_gram_matrices_end_with_128_positions():
    for T, made in ((LIMIT, True), (LIMIT + 1, False)):
        tokens, length, y = long(T)
        for features in (tokens, sparse_tokens(tokens)):
            assert (chain_inputs(features, length).gram is not None) == made
        ragged = chain_inputs(js.ragged(list(tokens))), js.ragged(list(y))
        x, _ = bucketed(chain(8, 3).padding, *ragged)
        assert (x.parts[0].gram is not None) == made


def test_without_a_dual_there_is_none():
    tokens, _, y = long(20)
    data = chain(8, 3), chain_inputs(js.ragged(list(tokens))), js.ragged(list(y))
    for dual in (False, True):
        x, _ = checked_buckets(*data, None, dual=dual)
        assert (x.parts[0].gram is not None) == dual


@pytest.mark.thorough
def test_a_training_by_features_is_that_by_products(x64, way="sparse"):
    data = random_sequences(0, 12, 9, 4, 3)
    problem, x = data.problem(PLAIN, way), data.inputs(way)
    by_gram, by_features = (
        js.fit(problem, each, data.y, "svm1_margin", 5.0) for each in (x, x._replace(gram=None))
    )
    assert by_features.status == js.Status.CONVERGED
    assert by_features.dual <= by_gram.primal and by_gram.dual <= by_features.primal


def test_long_sequences_are_foretold():
    """30,000 tokens have 900 million inner products."""
    tokens, length, y = long(30_000, 2)
    data = chain(8, 3), chain_inputs(tokens, length), y
    assert js.memory(*data).total < 3e8
