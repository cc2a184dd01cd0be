"""A recursion over N states and T steps with every semiring; the k largest; Gumbel noise."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from jaxstruct.core import semiring
from jaxstruct.core.scores import draw, drawn, k_largest, largest, noise
from jaxstruct.core.semiring import Best, Levels, Ranked, Sorted, Sums, best_of_first
from tests.lib.enumeration import pearson

N, T, H, B = 3, 4, 5, 20
PATHS = np.array(list(itertools.product(range(N), repeat=T)))
TARGETS = np.array([range(H), [1, 2, 3, 4, 4], [H, 0, 1, 2, 3], [3, H, H, 0, 1]])
"""Stay; one up, the last level kept; one down; something else. H is no level."""
LEVELS = Levels(TARGETS)


def tables(ties: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scores [T, N, B] of states and [N, N, B] of neighbours, some of them forbidden."""
    random = np.random.default_rng(ties)
    draw = random.integers(-1, 2, (T + N, N, B)) if ties else random.normal(size=(T + N, N, B))
    found = np.where(random.random(draw.shape) < 0.1, -np.inf, draw).astype(np.float32)
    return found[:T], found[T:]


def path_scores(scores: np.ndarray, table: np.ndarray) -> np.ndarray:
    """[paths, B]."""
    own = scores[np.arange(T), PATHS].sum(axis=1)
    return own + table[PATHS[:, :-1], PATHS[:, 1:]].sum(axis=1)


def forward(rule, scores, table, steps):
    """The values of every position; steps [N] of the states."""
    values = [rule.moved(rule.of(scores[0]), steps[:, None])]
    for row in scores[1:]:
        moved = rule.moved(rule.contract(values[-1], table), steps[:, None])
        values.append(rule.times(moved, row))
    return values


def back(rule, values, table, at, steps, noises=None):
    """[T, B] the path at place `at` of the last reduction."""
    at = jnp.full(B, at, jnp.int32)
    nothing = jnp.zeros((N, B), jnp.float32)
    noises = [None] * T if noises is None else noises
    n, at = rule.choose(values[-1], nothing, at, noise=noises[0])
    path = [n]
    for before, own in zip(values[-2::-1], noises[1:], strict=True):
        into = jnp.take_along_axis(table, n[None, None], 1)[:, 0]
        n, at = rule.choose(before, into, at, steps[n][None], own)
        path.append(n)
    return jnp.stack(path[::-1])


@partial(jax.jit, static_argnums=(0, 4))
def every_path(rule, scores, table, steps, count):
    """(the last reduction, [count, T, B] the path at each of its places)."""
    values = forward(rule, scores, table, steps)
    places = jnp.arange(count, dtype=jnp.int32)
    return rule.reduce(values[-1]), jax.vmap(lambda at: back(rule, values, table, at, steps))(
        places
    )


def found_scores(F: np.ndarray, path: Any) -> np.ndarray:
    places = np.ravel_multi_index(tuple(np.asarray(path)), (N,) * T)
    return F[places, np.arange(B)]


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("k", "rule"), [(1, Best()), (7, Ranked(7)), (7, Sorted(7))])
def test_the_k_best(k, rule, ties) -> None:
    scores, table = tables(ties)
    F, stay = path_scores(scores, table), jnp.zeros(N, jnp.int32)
    order = np.sort(F, axis=0)[::-1][:k]
    total, paths = every_path(rule, scores, table, stay, k)
    np.testing.assert_allclose(np.stack(total) if k > 1 else total[None], order, rtol=1e-5)
    for rank, path in enumerate(paths):
        real = order[rank] > -np.inf
        np.testing.assert_allclose(found_scores(F, path)[real], order[rank][real], rtol=1e-5)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("own", [(0, 1, 1), (1, 2, 0), (3, 1, 2)])
def test_levels(own, ties) -> None:
    """Steps up, down and to and fro; what a step leads out of the levels is gone."""
    scores, table = tables(ties)
    F, steps, rule = path_scores(scores, table), jnp.array(own), LEVELS
    level = np.zeros(len(PATHS), int)
    for t in range(T):
        after = TARGETS[np.array(own)[PATHS[:, t]], np.minimum(level, H - 1)]
        level = np.where(level < H, after, H)
    truth = np.array([F[level == h].max(axis=0, initial=-np.inf) for h in range(H)])
    total, paths = map(np.asarray, every_path(rule, scores, table, steps, H))
    np.testing.assert_allclose(total, truth, rtol=1e-5)
    for h in np.flatnonzero((truth > -np.inf).any(axis=1)):
        path = paths[h]
        real = truth[h] > -np.inf
        np.testing.assert_allclose(found_scores(F, path)[real], truth[h][real], rtol=1e-5)
        places = np.ravel_multi_index(tuple(path[:, real]), (N,) * T)
        assert (level[places] == h).all()


def test_sums_their_slopes_and_samples() -> None:
    scores, table = tables(False)
    F, stay, rule = path_scores(scores, table), jnp.zeros(N, jnp.int32), Sums()
    scores, table = jnp.asarray(scores), jnp.asarray(table)

    def total(scores):
        values = forward(rule, scores, table, stay)
        return jnp.sum(rule.reduce(values[-1])), values

    @jax.jit
    def found(scores):
        return jax.value_and_grad(total, has_aux=True)(scores), rule.plus(scores[0], scores[1])

    P = np.exp(F - logsumexp(F, axis=0))
    truth = np.zeros((T, N, B))
    for t in range(T):
        np.add.at(truth[t], PATHS[:, t], P)
    ((value, values), slope), plus = found(scores)
    np.testing.assert_allclose(value, np.sum(logsumexp(F, axis=0)), rtol=1e-5)
    np.testing.assert_allclose(slope, truth, atol=1e-5)
    np.testing.assert_allclose(plus, np.logaddexp(*np.asarray(scores[:2])), 1e-5)

    draws = 4000

    @jax.jit
    @jax.vmap
    def drawn(key):
        own = [noise(each, (N, B), scores.dtype) for each in jax.random.split(key, T)]
        return back(rule, values, table, 0, stay, own)

    paths = np.asarray(drawn(jax.random.split(jax.random.key(0), draws)))
    for t in range(T):
        often = (paths[:, t, None] == np.arange(N)[:, None]).mean(axis=0)
        assert np.abs(often - truth[t]).max() < 5 * 0.5 / np.sqrt(draws)


@pytest.mark.parametrize("on_cpu", [True, False])
@pytest.mark.parametrize("rule", [Best(), Sums(), Levels(np.arange(H)[None])], ids=["b", "s", "l"])
def test_pairs_of_parts(rule, on_cpu, monkeypatch) -> None:
    """The total over the first `count` pairs of parts, and which pair made each place of it."""
    monkeypatch.setattr(semiring, "runs_on_cpu", lambda: on_cpu)
    random = np.random.default_rng(3)
    shape = (*(H,) * rule.leading, N, B)
    a, b = (random.integers(-2, 3, shape).astype(np.float32) for _ in "ab")
    a[random.random(shape) < 0.3] = -np.inf
    both = [(h, g) for h in range(H) for g in range(H - h)] if rule.leading else [(0, 0)]
    a_levels, b_levels = (each.reshape(-1, N, B) for each in (a, b))
    a, b = jnp.asarray(a), jnp.asarray(b)

    def total(count):
        return rule.total(count, N, lambda n: rule.product(rule.entry(a, n), rule.entry(b, n)))

    total, split = jax.jit(total), jax.jit(lambda *given: rule.split(*given))
    for count in range(1, N + 1):
        found = np.asarray(total(count)).reshape(-1, B)
        for level, own in enumerate(found):
            terms = [a_levels[h] + b_levels[g] for h, g in both if h + g == level]
            terms = np.stack(terms)[:, :count]
            plus = logsumexp if isinstance(rule, Sums) else np.max
            np.testing.assert_allclose(own, plus(terms, axis=(0, 1)), rtol=1e-5)
            at, nothing = jnp.full(B, level, jnp.int32), jnp.zeros((N, B), jnp.float32)
            n, h, g = map(np.asarray, split(a, b, at, nothing))
            if count == N and not isinstance(rule, Sums):
                assert (h + g == level).all()
                pair = a_levels[h, n, np.arange(B)] + b_levels[g, n, np.arange(B)]
                np.testing.assert_array_equal(pair, own)
    if isinstance(rule, Best) and not rule.leading:
        sums = a + b
        found = jax.jit(lambda count: best_of_first(count, N, lambda n: sums[n]))(2)
        np.testing.assert_array_equal(found[0], sums[:2].max(axis=0))
        np.testing.assert_array_equal(found[1], sums[:2].argmax(axis=0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size, k", [(1, 1), (1, 3), (8, 1), (8, 3), (8, 8), (5, 8)])
def test_it_is_a_stable_sort(x64: None, dtype: str, size: int, k: int) -> None:
    values = np.random.default_rng(0).choice([-np.inf, -1.0, -0.0, 0.0, 2.0], (50, size))
    padded = np.pad(values, ((0, 0), (0, max(k - size, 0))), constant_values=-np.inf)
    order = np.argsort(-padded, axis=1, kind="stable")[:, :k]
    values = values.astype(dtype)
    of = partial(largest, k=k)
    several, one = jax.jit(lambda values: (jax.vmap(of)(values), of(values[0])))(values)
    for (top, places), rows in ((several, slice(None)), (one, 0)):
        np.testing.assert_array_equal(places, order[rows])
        np.testing.assert_array_equal(top, np.take_along_axis(padded, order, 1)[rows])
        assert top.dtype == dtype


def test_what_belongs_to_the_entries_comes_along_any_axis() -> None:
    values = np.array([[1.0, -0.0], [0.0, 3.0], [0.0, -0.0]], np.float32)
    rows = np.arange(3)[:, None].repeat(2, axis=1)
    top, taken = k_largest(3, values, rows)
    assert taken.T.tolist() == [[0, 1, 2], [1, 0, 2]] and top[0].tolist() == [1, 3]


def test_the_largest_of_four_millions_are_all_different():
    """So that none of as many equal alternatives is preferred, and no rare one is left out."""
    found = np.sort(np.asarray(noise(jax.random.key(0), (2**22,), jnp.float32)))[-64:]
    assert np.isfinite(found).all() and len(set(found.tolist())) == 64


def test_forbidden_places_are_never_drawn():
    random = np.random.default_rng(8)
    logs = random.uniform(-20, 0, (30, 4000)).astype(np.float32)
    logs[random.random(logs.shape) < 0.3] = -np.inf
    own = noise(jax.random.key(1), logs.shape, jnp.float32)
    places = np.asarray(drawn(jnp.asarray(logs), own))
    assert np.isfinite(logs[places, np.arange(4000)]).all()
    assert int(draw(jax.random.key(2), jnp.full(3, -jnp.inf))) == 0


def test_draws_have_the_probabilities_whatever_the_scale():
    logs = jnp.asarray([-1000.0, -1001, -1002, -1007, -1009])
    keys = jax.random.split(jax.random.key(3), 2**18)
    places = np.asarray(jax.vmap(draw, (0, None))(keys, logs))
    p = np.exp(np.asarray(logs, float) + 1000)
    statistic, degrees = pearson(np.bincount(places, minlength=5), len(keys) * p / p.sum())
    assert degrees == 4 and statistic < 24  # chi squared of 4: beyond it 1e-4
