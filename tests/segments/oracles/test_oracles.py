"""Oracles of segmentations against every segmentation of short sequences."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from jaxstruct.segments import SegmentPotentials, k_best, log_partition, marginals, sample, viterbi
from tests.lib.enumeration import (
    check_alone,
    check_best,
    check_k_best,
    check_samples,
    check_sums,
    row,
)
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.segments.oracles.truth import cases, counts

best = jax.jit(jax.vmap(viterbi))


def check(given, dtype, tolerance):
    found = best(*given.typed(dtype))
    assert found.codes.dtype == jnp.int32 and found.score.dtype == dtype
    check_best(given.listed(), found.codes, found.score, tolerance)
    return found


@pytest.mark.smoke
def test_four_thousand_best_segmentations():
    given = cases(0, 4000)
    found = check(given, "float32", 1e-5)
    check_alone(jax.jit(viterbi), given.typed("float32"), found, range(0, 40, 4))


@pytest.mark.thorough
def test_best_segmentations_of_float64(x64):
    check(cases(1, 400), "float64", 1e-12)


@pytest.mark.parametrize("k", [2, 7])
def test_k_best_are_distinct_and_in_order(k):
    given = cases(3, 600)
    found = jax.jit(jax.vmap(partial(k_best, k=k)))(*given.typed("float32"))
    check_k_best(given.listed(), found.codes, found.score, 1e-5)


@pytest.mark.parametrize("dtype", thorough_after(1, ["float32", "float64"]))
def test_sums_equal_enumeration(dtype):
    """And gradients of log Z are expected uses."""
    given = cases(4, 400)
    every = given.listed()

    @jax.jit
    @jax.vmap
    def said(p, length):
        return jax.value_and_grad(log_partition)(p, length), marginals(p, length)

    def uses(i):
        return counts(int(given.length[i]))

    with jax.enable_x64(dtype == "float64"):
        sums, tables = jax.device_get(said(*given.typed(dtype)))
    close = (2e-6 if dtype == "float32" else 1e-12,) * 3
    check_sums(every, uses, *sums, *close)
    size = tables.segments[0].size
    of_segments = tables.log_partition, tables.segments
    check_sums(every, lambda i: uses(i)[:, :size], *of_segments, *close)


@pytest.mark.thorough
def test_large_potentials_do_not_overflow():
    given = cases(5, 100)
    with np.errstate(over="ignore"):  # garbage where segments would end beyond the length
        potentials = jax.tree.map(lambda leaf: 300 * leaf, given.typed("float32")[0])
    found = jax.jit(jax.vmap(marginals))(potentials, given.length)
    for i, F in enumerate(given.listed().scores):
        np.testing.assert_allclose(found.log_partition[i], logsumexp(300 * F), rtol=2e-6, atol=1e-4)
    assert np.isfinite(found.segments).all()


def test_samples_have_their_probabilities():
    given = cases(7, 24)
    draw = jax.vmap(sample, (None, None, 0))
    keys = jax.random.split(jax.random.key(0), 2000)
    drawn = jax.jit(jax.vmap(draw, (0, 0, None)))(*given.typed("float32"), keys)
    check_samples(given.listed(), drawn)


def test_refusals():
    potentials, length = row(cases(8, 4).typed("float32"), 0)
    refused(r"segments must be \[T, L, S\]", viterbi, potentials._replace(segments=jnp.ones(3)), 1)
    refused(r"transitions must be \[S = 2, S = 2\]", viterbi,
            potentials._replace(transitions=jnp.ones(3)), length)  # fmt: skip
    refused(
        "floating", viterbi, SegmentPotentials(np.ones((2, 1, 1), int), np.ones((1, 1), int)), 1
    )
    refused("length must be in 0..5", viterbi, potentials, 6)
    refused("k must be", k_best, potentials, length, 0)
