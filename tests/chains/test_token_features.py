"""Windows of tokens against neighbours written down, and chains with windows against plain ones."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct import SparseFeatures, fit
from jaxstruct.chains import token_features
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.chains.token_features import (
    UNROLLED,
    KernelTokens,
    Window,
    sequence_scores,
    token_gram,
    token_scores,
    windowed,
    windowed_gram,
)
from jaxstruct.core.padding import bucketed
from jaxstruct.solvers.validation.checks import checked_buckets
from tests.chains.oracles.truth import all_labelings
from tests.chains.structure_cases import (
    Model,
    by_differences,
    check_hooks,
    evaluated,
    flat_psi,
    quick_jit,
    random_sequences,
    sparse_tokens,
)
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.solvers.cases import flat

N, T, D, S = 8, 5, 3, 3
RICH = Model(order=2, start_stop=True, pair_features=True)


def written(tokens: np.ndarray, length: np.ndarray, radius: int) -> np.ndarray:
    """[n, T, (2 r + 1) d] neighbour by neighbour."""
    n, T, d = tokens.shape
    wide = np.zeros((n, T, 2 * radius + 1, d))
    for i in range(n):
        for t in range(length[i]):
            for s in range(max(0, t - radius), min(length[i], t + radius + 1)):
                wide[i, t, s - t + radius] = tokens[i, s]
    return wide.reshape(n, T, -1)


def padded_with_junk(data):
    """Tokens whose padding holds numbers: none of them may be read."""
    return np.where(data.places[:, :, None] >= 0, data.tokens, 7.0)


def psi_of(model, wide, planes):
    """[n, k, D] Psi of wide tokens, written down."""
    return np.array(
        [[flat_psi(model, S, x, y) for y in rows] for x, rows in zip(wide, planes, strict=True)]
    )


def inputs_of(way, data):
    tokens = padded_with_junk(data)
    features = tokens if way == "dense" else sparse_tokens(tokens)
    return chain_inputs(features, data.length, token_gram(features))


@quick_jit
def windows_of(features, grams, length, window):
    """Of dense and of sparse tokens."""
    grams = [windowed_gram(gram, length, window) for gram in grams]
    return [windowed(each, length, window) for each in features], grams


@pytest.mark.parametrize("radius", thorough_after(2, [1, 7, 0]))
def test_windows_and_their_inner_products(x64, radius):
    data = random_sequences(0, N, T, D, S, shortest=0)
    window, wide = Window(radius, D), written(data.tokens, data.length, radius)
    both = [inputs_of(way, data) for way in ("dense", "sparse")]
    given = [x.features for x in both], [x.gram for x in both], data.length
    for found, gram in zip(*windows_of(*given, window), strict=True):
        if isinstance(found, SparseFeatures):
            assert (np.asarray(found.indices)[np.asarray(found.values) == 0] == wide.shape[2]).all()
            dense = np.zeros((N, T, wide.shape[2] + 1))
            places = np.arange(N)[:, None, None], np.arange(T)[:, None], np.asarray(found.indices)
            np.add.at(dense, places, np.asarray(found.values))
            found = dense[:, :, :-1]
        np.testing.assert_array_equal(found, wide)
        np.testing.assert_allclose(gram, token_gram(wide), rtol=0, atol=1e-12)
    eights = np.full((1, 2, 2), 100, np.int8), np.array([2]), Window(1, 1)
    whole = jax.jit(windowed_gram)(*eights)
    np.testing.assert_array_equal(whole, [[[200, 100], [100, 200]]])  # int8 does not wrap


@pytest.mark.parametrize("dtype", thorough_after(1, [np.int8, np.uint8, np.int16, np.int64]))
def test_windows_of_narrow_indices_are_those_of_wide_ones(dtype):
    """d = 100 fits 8 bits, 300 features of a window do not."""
    random, window = np.random.default_rng(0), Window(1, 100)
    indices, length = random.integers(0, 101, (4, 6, 3)), np.array([6, 4, 1, 0])
    values = np.where(indices < 100, random.normal(size=indices.shape), 0)
    found, wanted = (
        jax.jit(windowed)(SparseFeatures(indices.astype(kind), values), length, window)
        for kind in (dtype, np.int32)
    )
    np.testing.assert_array_equal(found.indices, wanted.indices)
    assert wanted.indices.max() == 300 and (np.asarray(wanted.indices) >= 256).any()


@pytest.mark.thorough
def test_a_window_is_the_chain_of_wide_tokens(x64, model=RICH):
    """Every hook, on lengths 0 to T; and F is <w, Psi> of the wide tokens written down."""
    data, random, radius = random_sequences(1, N, T, D, S, shortest=0), np.random.default_rng(0), 1
    wide = written(data.tokens, data.length, radius)
    options = dict(model._asdict(), dtype="float64")
    plain, problem = chain(3 * D, S, **options), chain(D, S, window=radius, **options)
    w = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), plain.initial_weights)
    assert jax.tree.map(np.shape, problem.initial_weights) == jax.tree.map(np.shape, w)
    planes = np.where(data.y[:, None] >= 0, random.integers(0, S, (N, 4, T)), -1).astype(np.int32)
    planes[:, 0], c = data.y, random.normal(size=(N, 4))
    found = jax.tree.map(np.asarray, evaluated(problem, w, inputs_of("sparse", data), planes, c))
    psi, v = psi_of(model, wide, planes), flat(w)
    check_hooks(found, psi, v, c, flat, 1e-11)
    for tokens, length, decoded in zip(wide, data.length, found["decode"], strict=True):
        every = all_labelings(S, int(length), T)
        best = every[(psi_of(model, tokens[None], every[None])[0] @ v).argmax()]
        np.testing.assert_array_equal(decoded, best)  # without ties


@pytest.mark.thorough
def test_windows_of_long_sequences_are_read_where_planes_differ(x64):
    """Only the tokens at which planes differ are kept, with their neighbours."""
    data, random = random_sequences(0, 6, 20, D, S, shortest=17), np.random.default_rng(2)
    problem, x = chain(D, S, window=1, eta=Model().eta, dtype="float64"), inputs_of("sparse", data)
    planes = np.repeat(data.y[:, None], 3, axis=1)
    planes[:, 1, 4], planes[:, 2, 9] = (planes[:, 1, 4] + 1) % S, (planes[:, 2, 9] + 1) % S
    w = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), problem.initial_weights)
    index = np.array([5, 0, 3])
    c = random.normal(size=(3, 3))
    c -= c.mean(axis=1, keepdims=True)
    found = by_differences(problem, w, x, planes, index, c)
    cut, also, _ = jax.tree.map(np.asarray, found)
    psi = psi_of(Model(), written(data.tokens, data.length, 1), planes)[index]
    values = psi @ flat(w)
    np.testing.assert_allclose(cut - cut[:, :1], values - values[:, :1], rtol=0, atol=1e-11)
    moved = flat(w) + np.einsum("nk,nkd->d", c, psi)
    np.testing.assert_allclose(flat(also), moved, rtol=0, atol=1e-11)


def test_windows_that_are_refused():
    refused("window must be at least 0, got -1", chain, D, S, window=-1)
    refused("window must be at least 0, a Python integer, got 1.5", chain, D, S, window=1.5)
    tokens = KernelTokens(np.ones((2, 3, 4), np.float32), np.zeros((2, 3), np.int32))
    refused("window the tokens before", lambda: windowed(tokens, np.array([3, 3]), Window(1, 4)))
    x = chain_inputs(tokens, np.array([3, 3]), np.ones((2, 3, 3), np.float32))
    with refused("KernelTokens, which window cannot look into"):
        fit(chain(4, 2, window=1), x, np.zeros((2, 3), np.int32))


SPARSE = [
    (1, np.float32, token_scores), (5, np.float64, sequence_scores),
    (UNROLLED + 3, np.float32, sequence_scores), (UNROLLED + 3, np.float64, token_scores),
]  # fmt: skip


@pytest.mark.parametrize(("m", "dtype", "scores"), thorough_after(3, SPARSE))
def test_scores_of_sparse_tokens_and_their_derivatives(x64, m, dtype, scores):
    """Of one sequence and of a batch, against dense rows, with repeated features and padding."""
    random = np.random.default_rng(m)
    d, u = 6, random.normal(size=(6, S)).astype(dtype)
    indices = random.integers(0, d + 1, (2, T, m))  # d is padding
    values = np.where(indices < d, random.normal(size=indices.shape), 0).astype(dtype)
    dense = np.zeros((2, T, d + 1), dtype)
    np.add.at(dense, (np.arange(2)[:, None, None], np.arange(T)[:, None], indices), values)
    dense, tolerance = dense[..., :d], 1e-5 if dtype == np.float32 else 1e-12

    def squares(u, values):
        found = scores(u, SparseFeatures(indices, values))
        return jax.numpy.sum(found**2), (found, scores(u, SparseFeatures(indices[1], values[1])))

    slopes = jax.jit(jax.grad(squares, argnums=(0, 1), has_aux=True))
    (of_u, of_values), (found, alone) = slopes(u, values)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, dense @ u, atol=tolerance)
    np.testing.assert_allclose(alone, dense[1] @ u, atol=tolerance)
    np.testing.assert_allclose(
        of_u, 2 * np.einsum("btd,bts->ds", dense, dense @ u), atol=40 * tolerance
    )
    rows = np.concatenate([u, u[-1:]])[indices]  # padding reads the last row, as of any value
    np.testing.assert_allclose(
        of_values, 2 * np.einsum("btms,bts->btm", rows, dense @ u), atol=40 * tolerance
    )


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


def test_long_sequences_are_foretold():
    """30,000 tokens have 900 million inner products."""
    tokens, length, y = long(30_000, 2)
    data = chain(8, 3), chain_inputs(tokens, length), y
    assert js.memory(*data).total < 3e8
