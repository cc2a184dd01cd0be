"""Oracles of matchings against every matching of small sets, however they are called."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from jaxstruct.assignments import (
    best_matching,
    best_wrong_matching,
    k_best_matchings,
    score_matching,
)
from jaxstruct.assignments.inference import number_of_matchings
from tests.assignments.cases import Cases, cases, listed, matchings
from tests.lib.enumeration import check_best, check_k_best
from tests.lib.refusals import refused

KINDS = pytest.mark.parametrize("complete", [True, False], ids=["complete", "unmatched"])
SHAPES = pytest.mark.parametrize("shape", [(4, 4), (3, 4), (4, 3)], ids=str)


@functools.cache
def batched(oracle, complete, **options):
    def call(pairs, sizes, rows, columns):
        more = {"rows": rows, "columns": columns, "complete": complete, **options}
        return oracle(pairs, sizes, **more)

    return jax.jit(jax.vmap(call))


def typed(given: Cases, dtype: str):
    return tuple(
        jnp.asarray(leaf) if leaf.dtype == np.int32 else jnp.asarray(leaf, dtype)
        for leaf in given[:4]
    )


@KINDS
def test_numbers_of_matchings(complete):
    for r in range(1, 5):
        for c in range(1, 5):
            assert len(matchings(r, c, complete)) == number_of_matchings(r, c, complete)


@KINDS
@SHAPES
def test_thousands_of_best_matchings(shape, complete):
    """Of all sizes, with ties, forbidden pairs and padding; some have no complete matching."""
    given = cases(0, 2_400, *shape)
    found = batched(best_matching, complete)(*typed(given, "float32"))
    every = listed(given, complete)
    empty = check_best(every, found.columns, found.score, 1e-5)
    assert found.columns.dtype == jnp.int32
    assert (0 < empty < 200) if complete else not empty


@pytest.mark.thorough
@KINDS
def test_best_matchings_of_float64(x64, complete):
    given = cases(1, 300, 4, 4)
    found = batched(best_matching, complete)(*typed(given, "float64"))
    check_best(listed(given, complete), found.columns, found.score, 1e-12)


@KINDS
def test_k_best_are_distinct_and_in_order(complete):
    given = cases(2, 480, 3, 4)
    found = batched(k_best_matchings, complete, k=8)(*typed(given, "float32"))
    check_k_best(listed(given, complete), found.columns, found.score, 1e-5)


@KINDS
def test_the_best_wrong_matching(complete):
    given, random = cases(3, 300, 4, 3, 0.1), np.random.default_rng(3)
    every = listed(given, complete)
    kept = np.array([i for i, F in enumerate(every.scores) if F.max() > -np.inf])
    allowed = [np.flatnonzero(every.scores[i] > -np.inf) for i in kept]
    y = [every.outputs[i][random.choice(own)] for i, own in zip(kept, allowed, strict=True)]
    y = np.array(y, np.int32)
    call = jax.jit(jax.vmap(functools.partial(best_wrong_matching, complete=complete)))
    pairs, sizes, rows, columns = (leaf[kept] for leaf in typed(given, "float32"))
    found = jax.tree.map(np.asarray, call(pairs, y, sizes, rows, columns))
    for at, i in enumerate(kept):
        wrong = (every.outputs[i] != y[at]).any(axis=1)
        F = np.where(wrong, every.scores[i], -np.inf)
        np.testing.assert_allclose(found.score[at], F.max(), atol=1e-5)
        own = np.flatnonzero((every.outputs[i] == found.columns[at]).all(axis=1))
        if F.max() > -np.inf:
            assert wrong[own[0]] and abs(every.scores[i][own[0]] - F.max()) < 1e-5
        else:
            assert (found.columns[at] == -1).all()


@pytest.mark.smoke
@pytest.mark.parametrize("shape", [(30, 30), (23, 37)], ids=str)
def test_larger_sets_cost_what_scipy_finds(shape):
    """Long augmenting paths: integers, so that sums are exact, from few values (ties) and many."""
    random, (R, C) = np.random.default_rng(4), shape
    most = np.where(np.arange(40) % 2, 3, 1000)[:, None, None]
    pairs = random.integers(0, most, (40, R, C)).astype(np.float32)
    pairs[::4][random.random((10, R, C)) < 0.5] = -np.inf
    sizes = np.tile(np.int32(shape), (40, 1))
    zeros = np.zeros((40, R), np.float32), np.zeros((40, C), np.float32)
    found = batched(best_matching, True)(pairs, sizes, *zeros)
    for own, y, score in zip(pairs, np.asarray(found.columns), found.score, strict=True):
        i, j = linear_sum_assignment(own, maximize=True)
        assert score == own[i, j].sum() == own[np.arange(R), y].sum()
        assert len(set(y.tolist())) == R


def test_the_derivative_of_the_score_counts_pairs():
    pairs, sizes, rows, columns = (leaf[7] for leaf in typed(cases(6, 8, 2, 4, 0), "float32"))

    def score(potentials):
        pairs, rows, columns = potentials
        found = best_matching(pairs, sizes, rows, columns, complete=False)
        return found.score, found.columns

    evaluate = jax.jit(jax.value_and_grad(score, has_aux=True))
    (expected, y), slope = evaluate((pairs, rows, columns))
    assert slope[0].sum() == (y >= 0).sum() > 0
    given = sum(jnp.vdot(a, b) for a, b in zip(slope, (pairs, rows, columns), strict=True))
    np.testing.assert_allclose(given, expected, rtol=1e-6)
    np.testing.assert_allclose(score_matching(pairs, y, sizes, rows, columns), expected, rtol=1e-6)


def test_refusals():
    pairs, sizes = jnp.zeros((3, 4)), jnp.array([3, 4])
    call = functools.partial(best_matching, complete=True)
    refused(r"pairs must be \[R, C\]", call, pairs[0], sizes)
    refused("floating-point", call, pairs.astype(int), sizes)
    refused("sizes must be integers", call, pairs, jnp.array([3.0, 4.0]))
    refused(r"rows must be \[R = 3\]", call, pairs, sizes, jnp.zeros(4))
    refused("k must", lambda: k_best_matchings(pairs, sizes, 0, complete=True))
