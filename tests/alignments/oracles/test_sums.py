"""Sums over all alignments against enumeration, samples against their probabilities."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.alignments.oracles.sums import log_partition, marginals, sample
from jaxstruct.alignments.potentials import AlignmentPotentials
from tests.alignments.oracles.test_pairwise import M, N, by_size, cases
from tests.alignments.oracles.truth import every, score
from tests.lib.enumeration import Listed, check_samples

each = pytest.mark.parametrize("local", [True, False])
DRAWS = 20_000


@pytest.mark.parametrize(
    "dtype, tolerance, local", [("float64", 1e-10, True), ("float32", 2e-4, False)]
)
def test_sums_are_those_of_enumeration(x64, dtype, tolerance, local):
    potentials, lengths = cases(dtype, False)
    found = jax.jit(jax.vmap(partial(marginals, local=local)))(potentials, lengths)
    for _, own, scores, used in by_size(potentials, lengths, local):
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
    """Of all alignments of 3 and 2 letters, one pair forbidden."""
    random = np.random.default_rng(3)
    pairs = random.normal(size=(M, N))
    pairs[1, 1] = -np.inf
    potentials = AlignmentPotentials(jnp.asarray(pairs), jnp.float64(0.4), jnp.float64(-0.2))
    lengths = jnp.array([3, 2])
    keys = jax.random.split(jax.random.key(0), DRAWS)
    draw = jax.jit(jax.vmap(partial(sample, potentials, lengths, local=local)))
    outputs = every(3, 2, local)
    rows = [[*ops, *[-1] * (M + N - len(ops)), *at] for ops, at in outputs]
    scores = [score(pairs, 0.4, -0.2, *output) for output in outputs]
    listed = Listed([np.array(rows)], [np.array(scores)], np.zeros(1, bool))
    check_samples(listed, [leaf[None] for leaf in draw(keys)], freedom=10)


def test_the_derivative_of_log_z_is_finite_where_pairs_are_forbidden():
    potentials = AlignmentPotentials(jnp.full((M, N), -jnp.inf), jnp.float32(1), jnp.float32(1))
    found = jax.jit(jax.value_and_grad(partial(log_partition, local=False)))
    value, counts = found(potentials, jnp.array([M, N]))
    assert np.isfinite(value) and all(np.isfinite(leaf).all() for leaf in counts)
    assert (np.asarray(counts.pairs) == 0).all()
