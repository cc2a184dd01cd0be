"""Every public oracle, called eagerly with arrays of NumPy, answers as with those of JAX.

Loops inside trace their bodies, where an array of NumPy cannot be read at a traced place. Tracing
finds that without compiling the oracles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import dependencies, graphs, trees
from jaxstruct.core.types import BinaryTree
from jaxstruct.graphs.oracles import enumeration
from tests.test_never_read import CASES


def _drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def _same(call: Callable, given: Any) -> bool:
    wanted = jax.eval_shape(lambda: call(jax.tree.map(jnp.asarray, given)))
    return jax.eval_shape(lambda: call(given)) == wanted


@pytest.mark.parametrize("name", CASES)
def test_arrays_of_numpy_are_taken(name: str) -> None:
    given = CASES[name]()
    for oracle, call in given.oracles.items():
        assert _same(getattr(call, "value", call), given.potentials), oracle


RULES = trees.GrammarRules(np.array([0, 1]), np.array([1, 0]), np.array([1, 2]))
TREE = BinaryTree(np.array([1, 2, 1, 2]), *np.array([[0, 1, 0], [0, 1, 2], [1, 2, 3], [4, 4, 4]]))
CHART = trees.TreePotentials(_drawn(4, 3), _drawn(2), _drawn(3))
EDGES = np.array([[0, 1], [1, 2]])
MORE: dict[str, tuple[Callable, Any]] = {
    "trees.score_tree": (lambda p: trees.score_tree(RULES, p, TREE, 4), CHART),
    "trees.tree_levels": (
        lambda p: trees.tree_levels(RULES, p, np.ones((4, 4, 3), int), 4, 8), CHART,
    ),
    "graphs.all_scores": (
        lambda p: enumeration.all_scores(
            graphs.GraphPotentials(p[0], EDGES, p[1], np.int32(3), np.int32(2))
        ), (_drawn(3, 2), _drawn(2, 2, 2)),
    ),
}  # fmt: skip
"""What `test_never_read` has not: a call, and its potentials."""


@pytest.mark.parametrize("name", MORE)
def test_arrays_of_numpy_are_taken_by_others(name: str) -> None:
    assert _same(*MORE[name])


def test_the_best_wrong_tree_of_arrays_of_numpy_is_that_of_arrays_of_jax() -> None:
    heads, arcs = np.array([0, 1, 1, 3]), _drawn(5, 4, 2)

    def best(*given: Any) -> Any:
        return dependencies.best_wrong_tree(*given, projective=True)

    found = best(arcs, (heads, heads % 2), 4)
    wanted = best(*jax.tree.map(jnp.asarray, (arcs, (heads, heads % 2), 4)))
    jax.tree.map(np.testing.assert_array_equal, found, wanted)
