"""The best other tree with the same inner nodes, against the enumeration of all trees."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct.core.types import BinaryTree
from jaxstruct.trees.oracles.same_inner_nodes import same_inner_nodes
from tests.trees.oracles.truth import (
    OVER_SPANS,
    SHARED,
    SMALL,
    as_dtype,
    cases,
    one,
    places,
    tree_of,
)


def _inner_nodes(forest, place: int) -> set[tuple[int, int, int]]:
    trees = forest.trees
    rows = zip(trees.begins[place], trees.ends[place], forest.parents[place], strict=True)
    return {(int(begin), int(end), int(A)) for begin, end, A in rows if A >= 0}


@pytest.mark.parametrize("kind", [SHARED, OVER_SPANS])
def test_against_all_trees(kind: str) -> None:
    """Odd seeds have many ties; some potentials are -inf."""
    found, none = 0, 0
    for seed in range(4):
        given, random = cases(kind, SMALL, seed), np.random.default_rng([seed, 9])
        usable = [n for n, F in enumerate(given.scores) if (F > -np.inf).any()]
        true = [int(random.choice(np.flatnonzero(given.scores[n] > -np.inf))) for n in usable]
        forests = [given.forests[int(given.length[n])] for n in usable]
        trees = [tuple(leaf[a] for leaf in forest.trees)
                 for a, forest in zip(true, forests, strict=True)]  # fmt: skip
        potentials = as_dtype(given.potentials, "float32")
        rows = [one(potentials, given.axes, n) for n in usable]
        call = jax.jit(jax.vmap(same_inner_nodes, (None, 0, 0, 0)))
        batch = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
        y = BinaryTree(*(np.stack(leaves) for leaves in zip(*trees, strict=True)))
        best = jax.tree.map(np.asarray, call(given.rules, batch, y, given.length[usable]))
        for i, (n, a, forest) in enumerate(zip(usable, true, forests, strict=True)):
            own = _inner_nodes(forest, a)
            alike = np.array([_inner_nodes(forest, b) == own for b in range(len(forest.tops))])
            if len(own) == 0:
                assert given.length[n] == 1 and alike.all()
            alike[a] = False
            F = np.where(alike, given.scores[n], -np.inf).max()
            tree = tree_of(best.tree, i)
            if F == -np.inf:
                assert best.score[i] == -np.inf and all((leaf == -1).all() for leaf in tree)
                none += 1
                continue
            (place,) = places(forest, tree)
            assert alike[place]
            np.testing.assert_allclose(given.scores[n][place], F, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(best.score[i], F, rtol=1e-5, atol=1e-5)
            found += 1
    assert found > 40 and none > 20
