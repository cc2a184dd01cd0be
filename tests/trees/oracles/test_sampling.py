"""Samples of trees against the enumerated probabilities of all trees."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import chi2

from jaxstruct.trees.oracles.sampling import sample_tree
from tests.trees.oracles.truth import OVER_SPANS, SHARED, SKEWED, SMALL, cases, places

DRAWS = 500


def _drawn(given):
    """Leaves [sentences, DRAWS, ..]."""
    many = jax.vmap(sample_tree, (None, None, None, 0))
    keys = jax.random.split(jax.random.key(0), (len(given.length), DRAWS))
    found = jax.jit(jax.vmap(many, (None, given.axes, 0, 0)))(
        given.rules, given.potentials, given.length, keys
    )
    return jax.tree.map(np.asarray, found)


@pytest.mark.parametrize("kind, size", [(OVER_SPANS, SMALL), (SHARED, SKEWED)])
def test_trees_have_their_probabilities(kind, size) -> None:
    """Pearson's statistic over all trees of 50 sentences of all lengths."""
    given = cases(kind, size, 0)
    found, statistic, freedom = _drawn(given), 0.0, 0
    for n, F in enumerate(given.scores):
        own = np.concatenate([leaf[n] for leaf in found], axis=1)
        rows, counts = np.unique(own, axis=0, return_counts=True)
        if not (F > -np.inf).any():
            assert (rows == -1).all()
            continue
        p = np.exp(F - F[F > -np.inf].max())
        expected, seen = DRAWS * p / p.sum(), np.zeros(len(F))
        cuts = np.cumsum([leaf.shape[2] for leaf in found])[:-1]
        for row, count in zip(rows, counts, strict=True):
            (place,) = places(given.forests[int(given.length[n])], tuple(np.split(row, cuts)))
            seen[place] += count
        assert (seen[F == -np.inf] == 0).all(), "a forbidden tree"
        common = expected >= 5
        statistic += np.sum((seen - expected)[common] ** 2 / expected[common])
        freedom += max(common.sum() - 1, 0)
    assert freedom > 100
    assert 1e-4 < chi2.sf(statistic, freedom) < 1 - 1e-4


def test_one_key_one_tree_alone_and_in_a_batch() -> None:
    given = cases(OVER_SPANS, SMALL, 0)
    key = jax.random.key(0)
    batch = jax.jit(jax.vmap(sample_tree, (None, 0, 0, None)))(
        given.rules, given.potentials, given.length, key
    )
    one = jax.tree.map(lambda leaf: leaf[3], given.potentials)
    alone = jax.jit(sample_tree)(given.rules, one, given.length[3], key)
    for mine, other in zip(alone, batch, strict=True):
        np.testing.assert_array_equal(mine, other[3])
