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
from jaxstruct.assignments.structure import number_of_matchings
from tests.assignments.cases import Cases, cases, listed, matchings
from tests.lib.enumeration import check_best, check_best_wrong, check_k_best, with_garbage
from tests.lib.refusals import refused
from tests.lib.thorough import repeats

KINDS = pytest.mark.parametrize("complete", [True, False], ids=["complete", "unmatched"])


@functools.cache
def together(complete):
    """All that oracles say of an example."""

    def answers(pairs, sizes, rows, columns, y):
        of_items = {"rows": rows, "columns": columns, "complete": complete}
        return (
            best_matching(pairs, sizes, **of_items),
            k_best_matchings(pairs, sizes, 8, **of_items),
            best_wrong_matching(pairs, y, sizes, **of_items),
        )

    return jax.jit(jax.vmap(answers))


def typed(given: Cases, dtype: str):
    """What oracles take, garbage beyond the sizes."""
    pairs, sizes, rows, columns, _ = given
    row, column = (
        np.arange(rows.shape[1]) < sizes[:, :1],
        np.arange(columns.shape[1]) < sizes[:, 1:],
    )
    parts = (pairs, row[:, :, None] & column[:, None]), (rows, row), (columns, column)
    pairs, rows, columns = (with_garbage(*part).astype(dtype) for part in parts)
    return pairs, sizes, rows, columns


@KINDS
def test_numbers_of_matchings(complete):
    for r in range(1, 5):
        for c in range(1, 5):
            assert len(matchings(r, c, complete)) == number_of_matchings(r, c, complete)


@pytest.mark.parametrize(
    ("shape", "dtype", "complete"), [((4, 3), "float32", True), ((3, 4), "float64", False)], ids=str
)
def test_thousands_against_enumeration(shape, dtype, complete):
    """The best, the k best and the best wrong matching of all sizes, with ties, forbidden pairs and
    padding; some have no complete matching."""
    given, random = cases(0, len(repeats(2_400, 1_000)), *shape), np.random.default_rng(3)
    every = listed(given, complete)
    y = np.array([own[random.integers(len(own))] for own in every.outputs], np.int32)
    with jax.enable_x64(dtype == "float64"):
        found = jax.device_get(together(complete)(*typed(given, dtype), y))
    best, ranked, wrong = found
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    empty = check_best(every, best.columns, best.score, tolerance)
    assert best.columns.dtype == np.int32 and best.score.dtype == dtype
    assert (0 < empty < 200) if complete else not empty
    check_k_best(every, ranked.columns, ranked.score, tolerance)
    check_best_wrong(every, y, wrong.columns, wrong.score, tolerance)


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
    best = functools.partial(best_matching, complete=True)
    found = jax.device_get(jax.jit(jax.vmap(best))(pairs, sizes, *zeros))
    for own, y, score in zip(pairs, found.columns, found.score, strict=True):
        i, j = linear_sum_assignment(own, maximize=True)
        assert score == own[i, j].sum() == own[np.arange(R), y].sum()
        assert len(set(y.tolist())) == R


def test_the_derivative_of_the_score_counts_pairs():
    pairs, sizes, rows, columns = (leaf[7] for leaf in typed(cases(6, 8, 2, 4, 0), "float32"))

    def score(potentials):
        pairs, rows, columns = potentials
        found = best_matching(pairs, sizes, rows, columns, complete=False)
        again = score_matching(pairs, found.columns, sizes, rows, columns)
        return found.score, (found.columns, again)

    evaluate = jax.jit(jax.value_and_grad(score, has_aux=True))
    (expected, (y, again)), slope = jax.device_get(evaluate((pairs, rows, columns)))
    assert slope[0].sum() == (y >= 0).sum() > 0
    given = sum(np.vdot(a, b) for a, b in zip(slope, (pairs, rows, columns), strict=True))
    np.testing.assert_allclose([given, again], expected, rtol=1e-6)


def test_of_equal_places_the_exit_and_then_the_lowest_column():
    pairs, sizes = jnp.zeros((3, 4)), jnp.array([3, 4])
    for complete, wanted in ((True, [0, 1, 2]), (False, [-1, -1, -1])):
        found = jax.jit(functools.partial(best_matching, complete=complete))(pairs, sizes)
        assert found.columns.tolist() == wanted


def test_refusals():
    pairs, sizes = jnp.zeros((3, 4)), jnp.array([3, 4])
    call = functools.partial(best_matching, complete=True)
    refused(r"pairs must be \[R, C\]", call, pairs[0], sizes)
    refused("floating-point", call, pairs.astype(int), sizes)
    refused("sizes must be integers", call, pairs, jnp.array([3.0, 4.0]))
    refused(r"rows must be \[R = 3\]", call, pairs, sizes, jnp.zeros(4))
    refused("k must", lambda: k_best_matchings(pairs, sizes, 0, complete=True))
