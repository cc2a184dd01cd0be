"""Samples of trees against the enumerated probabilities of all trees."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.trees.oracles.sampling import sample_tree
from tests.lib.enumeration import check_alone, check_samples, row
from tests.trees.oracles.truth import OVER_SPANS, SHARED, SKEWED, SMALL, cases, listed

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
    found = _drawn(given)
    check_samples(listed(given, False), found)
    none = [not (F > -np.inf).any() for F in given.scores]
    assert all((leaf[none] == -1).all() for leaf in found)


def test_one_key_one_tree_alone_and_in_a_batch() -> None:
    given = cases(OVER_SPANS, SMALL, 0)
    key = jax.random.key(0)
    batch = jax.jit(jax.vmap(sample_tree, (None, 0, 0, None)))(
        given.rules, given.potentials, given.length, key
    )
    check_alone(
        jax.jit(sample_tree),
        lambda i: (given.rules, *row((given.potentials, given.length), i), key),
        batch,
        [3],
    )
