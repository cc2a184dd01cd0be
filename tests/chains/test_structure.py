"""F = <w, Psi>, the inner products (4.22), and every hook of the problem against its definition."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from jaxstruct import Space, joint_feature, make_problem
from jaxstruct.chains.token_features import KernelTokens, token_gram
from tests.chains.structure_cases import (
    PLAIN,
    RICH,
    Model,
    by_differences,
    check_hooks,
    differences,
    evaluated,
    flat_psi,
    monomials,
    quick_jit,
    random_sequences,
    sparse_tokens,
)
from tests.lib.thorough import thorough_after
from tests.solvers.cases import flat

TRIPLES = Model(order=2, start_stop=True)
EVERY = [("dense", PLAIN), ("kernel", TRIPLES), ("sparse", RICH)]
HOOKS = [("dense", TRIPLES), ("kernel", RICH)]
"""Sparse tokens have those of `test_a_window_is_the_chain_of_wide_tokens`."""


def each(cases, plain=99):
    """Of so many cases in a plain run."""
    names = [f"{way}-{model.name}" for way, model in cases]
    return pytest.mark.parametrize("way, model", thorough_after(plain, cases), ids=names)


N, K, T, S, D = 12, 5, 4, 3, 3


@functools.cache
def sequences():
    """Lengths 0 to T."""
    return random_sequences(0, N, T, D, S, shortest=0)


@functools.cache
def inputs(way):
    return sequences().inputs(way)


def random_like(random, tree):
    return jax.tree.map(lambda leaf: random.normal(size=np.shape(leaf)), tree)


def planes_of(random, y):
    """[N, K, T] random labels, the true ones first, padded as y."""
    wrong = random.integers(0, S, (N, K, T))
    planes = np.where(y[:, None] >= 0, wrong, -1).astype(np.int32)
    planes[:, 0] = y
    return planes


@quick_jit
def scored(problem, w, x, planes):
    """[N, K] F, and Psi of the true outputs."""
    theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
    score = jax.vmap(jax.vmap(problem.model.score, (None, 0)))(theta, planes)
    return score, jax.vmap(lambda x, y: joint_feature(problem, x, y))(x, planes[:, 0])


def of_case(way, model):
    """(sequences, problem, random arguments of `evaluated`)."""
    data, random = sequences(), np.random.default_rng(1)
    problem = data.problem(model, way)
    w = random_like(random, problem.initial_weights)
    planes, c = planes_of(random, data.y), random.normal(size=(N, K))
    return data, problem, (w, inputs(way), planes, c)


def explicit(way, data, w):
    """Weights as one vector in the space of Psi: coefficients on anchors become weights."""
    if way == "kernel":
        lift = monomials(data.pool)
        w = {k: lift.T @ v if k in ("emissions", "pairs") else v for k, v in w.items()}
    return flat(w)


def psi_of(model, way, data, planes):
    """[N, K, D] Psi of the planes, written down."""
    features = data.features(way)
    return np.array(
        [
            [flat_psi(model, data.S, x, y) for y in rows]
            for x, rows in zip(features, planes, strict=True)
        ]
    )


@each(EVERY)
def test_score_is_the_inner_product_with_psi(x64, way, model):
    """(4.20) is <w, Psi> with Psi of (4.21) and the extensions of 4.4.1."""
    data, problem, (w, x, planes, _) = of_case(way, model)
    score, feature = scored(problem, w, x, planes)
    psi, v = psi_of(model, way, data, planes), explicit(way, data, w)
    np.testing.assert_allclose(score, psi @ v, rtol=0, atol=1e-12)
    feature = jax.tree.map(np.asarray, feature)
    for i in range(N):
        own = jax.tree.map(lambda leaf, i=i: leaf[i], feature)
        np.testing.assert_allclose(explicit(way, data, own), psi[i, 0], rtol=0, atol=1e-12)
    assert np.abs(score).max() > 1


@each(HOOKS)
def test_hooks_against_numpy(x64, way, model):
    """Sums of Psi are what w moves by, and <Psi, Psi'> is (4.22)."""
    data, problem, (w, x, planes, c) = of_case(way, model)
    found = evaluated(problem, w, x, planes, c)
    psi, v = psi_of(model, way, data, planes), explicit(way, data, w)
    check_hooks(found, psi, v, c, functools.partial(explicit, way, data), 1e-12)


@pytest.mark.thorough
def test_float32_and_one_position():
    """T = 1: no transitions at all; the dtype is that of the problem."""
    data = random_sequences(0, 6, 1, D, S, shortest=0)
    problem, random = data.problem(RICH, "sparse", dtype="float32"), np.random.default_rng(0)
    w = random_like(random, problem.initial_weights)
    w, x = jax.tree.map(
        lambda leaf: leaf.astype(np.float32) if leaf.dtype == float else leaf,
        (w, data.inputs("sparse")),
    )
    labels = np.where(data.y[:, None] >= 0, np.arange(S)[None, :, None], -1).astype(np.int32)
    planes, c = np.concatenate([data.y[:, None], labels], axis=1), np.ones((6, S + 1), np.float32)
    found = evaluated(problem, w, x, planes, c)
    psi = psi_of(RICH, "sparse", data, planes)
    for name in ("plane_scores", "plane_values"):
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], psi @ flat(w), rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["plane_norms"], ((psi[:, :1] - psi) ** 2).sum(2), atol=1e-5)


@quick_jit
def products(problem, x, y):
    """[N, N] <Psi(x_i, y_i), Psi(x_j, y_j)>."""
    feature = jax.vmap(lambda x, y: joint_feature(problem, x, y))(x, y)
    theta = jax.vmap(lambda w: jax.vmap(problem.model.potentials, (None, 0))(w, x))(feature)
    return jax.vmap(jax.vmap(problem.model.score), (0, None))(theta, y)


def test_inner_products_of_two_kernel_sequences(x64):
    """(4.22) between different sequences, without degree-2 features, against those written down."""
    data = sequences()
    found = products(data.problem(PLAIN, "kernel"), inputs("kernel"), data.y)
    psi = psi_of(PLAIN, "kernel", data, data.y[:, None])[:, 0]
    np.testing.assert_allclose(found, psi @ psi.T, rtol=0, atol=1e-11)
    K = (1 + np.einsum("itd,jsd->ijts", data.tokens, data.tokens)) ** 2
    same = (data.y[:, None, :, None] == data.y[None, :, None]) & (data.y[:, None, :, None] >= 0)
    pairs = same[:, :, :-1, :-1] & same[:, :, 1:, 1:]
    written = (K * same).sum(axis=(2, 3)) + PLAIN.eta**2 * pairs.sum(axis=(2, 3))
    np.testing.assert_allclose(found, written, rtol=0, atol=1e-11)


@quick_jit
def norms_of(problem, x, planes):
    return jax.vmap(problem.space.plane_norms)(x, planes[:, 0], planes)


@pytest.mark.thorough
@pytest.mark.parametrize("eta", [0.0, 0.7, 3.0])
def test_proposition_24(x64, eta):
    """|Psi(x, y) - Psi(x, y')|^2 <= 2 l^2 (R^2 + eta^2), all but attained by equal tokens."""
    for way in ("dense", "kernel"):
        data, problem, (_, x, planes, _) = of_case(way, PLAIN._replace(eta=eta))
        norms, length = np.asarray(norms_of(problem, x, planes)), data.length
        radius = (data.features(way) ** 2).sum(axis=2).max(axis=1)
        assert (norms <= 2 * (length**2 * (radius + eta**2))[:, None] + 1e-12).all()
        assert norms.max() > 1
        equal = data._replace(places=np.where(data.places >= 0, 1, -1).astype(np.int32))
        planes = np.where(data.y[:, None] >= 0, np.minimum(np.arange(K), 1)[None, :, None], -1)
        norms = np.asarray(norms_of(problem, equal.inputs(way), planes.astype(np.int32)))
        radius = (equal.features(way) ** 2).sum(axis=2).max(axis=1)
        attained = 2 * (length**2 * radius + eta**2 * np.maximum(length - 1, 0) ** 2)
        np.testing.assert_allclose(norms[:, 1], attained, rtol=1e-12)


@pytest.mark.parametrize("way", ["dense", "sparse", "kernel"])
def test_squared_norms(x64, way):
    """Coordinates of features are orthonormal, coefficients of anchors are not."""
    data, problem, (w, x, _, _) = of_case(way, RICH)
    found = problem.space.squared_norm(w, x)
    if way == "kernel":
        assert found is None
        return
    np.testing.assert_allclose(found, flat(w) @ flat(w), rtol=1e-14)
    given = problem.initial_weights, problem.model, problem.oracles
    derived = make_problem(*given).space
    np.testing.assert_allclose(derived.squared_norm(w, x), found, rtol=1e-14)
    said = make_problem(*given, Space(add=problem.space.add)).space
    np.testing.assert_allclose(said.squared_norm(w, x), found, rtol=1e-14)


def test_gram_matrices_of_small_integers():
    """Binary tokens take a quarter of the memory, and nothing is rounded."""
    random = np.random.default_rng(0)
    binary = (random.random((3, 5, 7)) < 0.4).astype(float)
    wanted = binary @ np.swapaxes(binary, 1, 2)
    for tokens in (binary, sparse_tokens(binary)):
        assert token_gram(tokens).dtype == np.int8
        np.testing.assert_array_equal(token_gram(tokens), wanted)
        tokens = jax.tree.map(lambda leaf: leaf * 12 if leaf.dtype == float else leaf, tokens)
        assert token_gram(tokens).dtype == float  # 144 does not fit
        np.testing.assert_array_equal(token_gram(tokens), 144 * wanted)
    assert token_gram(binary * 0.5).dtype == float
    nothing = token_gram(np.full_like(binary, np.nan))  # no warning here: `fit` refuses it
    assert nothing.dtype == float and np.isnan(nothing).all()
    mixed = sparse_tokens(np.concatenate([binary, 0.5 * binary]))
    np.testing.assert_array_equal(token_gram(mixed)[3:], wanted / 4)


@quick_jit
def by_gram(problem, w, x, planes, c):
    """The hooks that read inner products of tokens."""
    theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
    u = jax.vmap(problem.space.combine)(theta, planes, c)
    y = planes[:, 0]
    return (
        jax.vmap(problem.space.gram_action)(x, u),
        jax.vmap(problem.space.plane_gram)(x, y, planes, planes[:, 1]),
        jax.vmap(problem.space.plane_norms)(x, y, planes),
    )


@each([("sparse", RICH), ("kernel", PLAIN)], plain=1)
def test_features_serve_as_well_as_their_gram(x64, way, model):
    """Planes of long sequences are multiplied through their features."""
    _, problem, (w, x, planes, c) = of_case(way, model)
    found, wanted = (by_gram(problem, w, x, planes, c) for x in (x._replace(gram=None), x))
    close = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-11)
    jax.tree.map(close, found, wanted)
    assert np.abs(np.asarray(found[1])).max() > 1


@quick_jit
def by_planes(problem, w, x, planes, c):
    return problem.space.plane_values(w, x, planes), problem.space.add_planes(w, x, planes, c)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@each([("sparse", TRIPLES), ("kernel", PLAIN)], plain=1)
def test_plane_differences(x64, way, model, share):
    """Only parts at which planes differ are read; differences and balanced sums are the same."""
    _check_differences(way, model, share, T=20, S=3)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "model, T, S, kinds",
    [(PLAIN, 127, 127, ("int8", "int8")), (PLAIN, 128, 128, ("int16", "int16"))],
)
def test_places_are_as_narrow_as_they_fit(x64, model, T, S, kinds):
    apart = _check_differences("dense", model, 0.3, T, S)
    assert tuple(str(leaf.dtype) for leaf in (apart.tokens.positions, apart.labels)) == kinds


def _check_differences(way, model, share, T, S):
    n = 9
    data, random = random_sequences(0, n, T, D, S, shortest=0), np.random.default_rng(2)
    problem, x = data.problem(model, way), data.inputs(way)
    planes = np.repeat(data.y[:, None], 4, axis=1)
    redrawn = (random.random(planes.shape) < share) & (planes >= 0)
    redrawn[:, 0] = False
    planes = np.where(redrawn, random.integers(0, S, planes.shape), planes)
    w, c = random_like(random, problem.initial_weights), random.normal(size=(n, 4))
    c -= c.mean(axis=1, keepdims=True)
    index = random.permutation(n)[: n - 2]
    whole, moved = by_planes(
        problem, w, x, planes, np.where(np.isin(range(n), index)[:, None], c, 0)
    )
    cut, also, apart = by_differences(problem, w, x, planes, index, c[index])
    differs = (planes != planes[:, :1]).any(axis=1)
    np.testing.assert_array_equal(apart.tokens.count, differs.sum(axis=1))
    inside = planes[:, 0, 1:] >= 0
    pairs = (differs[:, 1:] | differs[:, :-1]) & inside
    np.testing.assert_array_equal(apart.pairs.count, pairs.sum(axis=1))
    close = dict(rtol=0, atol=1e-11)
    np.testing.assert_allclose(differences(cut), differences(whole)[index], **close)
    np.testing.assert_allclose(flat(also), flat(moved), **close)
    assert share == 0 or np.abs(flat(moved) - flat(w)).max() > 0.1
    return apart


@pytest.mark.thorough
def test_a_long_gram_matrix_of_integers_serves_as_well(x64):
    """It is widened some rows at a time where these fill it, as of 128 positions."""
    data = random_sequences(0, 3, 128, D, S, shortest=0)
    data = data._replace(pool=np.round(2 * data.pool))
    problem, x = data.problem(PLAIN, "dense"), data.inputs("dense")
    assert x.gram.dtype == np.int8
    random = np.random.default_rng(1)
    w, c = random_like(random, problem.initial_weights), random.normal(size=(3, 2))
    planes = np.stack([data.y, np.where(data.y >= 0, (data.y + 1) % S, -1)], axis=1)
    found = by_gram(problem, w, x, planes, c)
    wanted = by_gram(problem, w, x._replace(gram=x.gram.astype(float)), planes, c)
    for one, other in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_label_pairs_with_features_are_read_whole():
    data, problem, _ = of_case("dense", PLAIN)
    assert problem.space.differences is not None
    assert data.problem(RICH).space.differences is None


def test_kernel_tokens_that_are_no_anchors_only_predict(x64):
    """An anchor out of range moves nothing."""
    data, problem, (w, x, planes, c) = of_case("kernel", RICH)
    strangers = KernelTokens(x.features.rows, np.full_like(x.features.anchors, len(data.pool)))
    moved = evaluated(problem, w, x._replace(features=strangers), planes, c)["add_planes"]
    np.testing.assert_array_equal(moved["emissions"], w["emissions"])
    np.testing.assert_array_equal(moved["pairs"], w["pairs"])
    assert np.abs(moved["transitions"] - w["transitions"]).max() > 0.1
