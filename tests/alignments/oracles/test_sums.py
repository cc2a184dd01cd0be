"""Sums over all alignments against enumeration, samples against their probabilities."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.alignments.oracles.sums import log_partition, marginals, sample
from jaxstruct.alignments.potentials import AlignmentPotentials
from tests.alignments.oracles.test_pairwise import CASES, M, N, cases, features
from tests.alignments.oracles.truth import every, score

each = pytest.mark.parametrize("local", [True, False])
DRAWS = 20_000


@pytest.mark.parametrize(
    "dtype, tolerance, local", [("float64", 1e-10, True), ("float32", 2e-4, False)]
)
def test_sums_are_those_of_enumeration(x64, dtype, tolerance, local):
    potentials, lengths = cases(dtype, False)
    found = jax.jit(jax.vmap(partial(marginals, local=local)))(potentials, lengths)
    pairs, opened, later = (np.asarray(leaf, float) for leaf in potentials)
    w = np.concatenate([pairs.reshape(CASES, -1), -opened[:, None], -later[:, None]], axis=1)
    for m, n in np.unique(lengths, axis=0):
        own = np.all(lengths == (m, n), axis=1)
        used = features(m, n, local)
        scores = w[own] @ used.T
        top = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - top)
        logs = top[:, 0] + np.log(weights.sum(axis=1))
        counts = weights @ used / weights.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.log_partition[own], logs, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(
            np.asarray(found.pairs)[own].reshape(-1, M * N), counts[:, : M * N], atol=tolerance
        )
        np.testing.assert_allclose(found.opened[own], counts[:, -2], atol=4 * tolerance)
        np.testing.assert_allclose(found.later[own], counts[:, -1], atol=4 * tolerance)


@each
def test_samples_have_their_probabilities(x64, local):
    """Chi-square over all alignments of 3 and 2 letters, one pair forbidden."""
    random = np.random.default_rng(3)
    pairs = random.normal(size=(M, N))
    pairs[1, 1] = -np.inf
    potentials = AlignmentPotentials(jnp.asarray(pairs), jnp.float64(0.4), jnp.float64(-0.2))
    lengths = jnp.array([3, 2])
    keys = jax.random.split(jax.random.key(0), DRAWS)
    draw = jax.jit(jax.vmap(partial(sample, potentials, lengths, local=local)))
    operations, begin = map(np.asarray, draw(keys))
    listed = {
        (*ops, *[-1] * (M + N - len(ops)), *at): score(pairs, 0.4, -0.2, ops, at)
        for ops, at in every(3, 2, local)
    }
    seen = dict.fromkeys(listed, 0)
    rows, counts = np.unique(np.column_stack([operations, begin]), axis=0, return_counts=True)
    for row, count in zip(rows.tolist(), counts, strict=True):
        seen[tuple(row)] += int(count)  # a KeyError: no alignment
    F = np.array(list(listed.values()))
    p = np.exp(F - F.max()) / np.exp(F - F.max()).sum()
    counts = np.array(list(seen.values()))
    assert (counts[p == 0] == 0).all() and counts.sum() == DRAWS
    common = p * DRAWS >= 5
    chi = np.sum((counts - DRAWS * p)[common] ** 2 / (DRAWS * p[common]))
    degrees = common.sum()
    assert chi < degrees + 5 * np.sqrt(2 * degrees), (chi, degrees)


def test_the_derivative_of_log_z_is_finite_where_pairs_are_forbidden():
    potentials = AlignmentPotentials(jnp.full((M, N), -jnp.inf), jnp.float32(1), jnp.float32(1))
    found = jax.jit(jax.value_and_grad(partial(log_partition, local=False)))
    value, counts = found(potentials, jnp.array([M, N]))
    assert np.isfinite(value) and all(np.isfinite(leaf).all() for leaf in counts)
    assert (np.asarray(counts.pairs) == 0).all()
