"""Loss matrices; heights in random trees and partial orders against enumeration."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from jaxstruct.multiclass.losses import (
    chain_lengths,
    common_ancestor_height,
    parents_first,
    tree_loss,
    zero_one_loss,
)
from tests.lib.refusals import refused


def random_order(rng, nodes):
    number = rng.permutation(nodes)
    parents = [()] * nodes
    for node in range(1, nodes):
        above = rng.choice(node, size=rng.integers(0, min(node, 3) + 1), replace=False)
        parents[number[node]] = tuple(int(number[parent]) for parent in above)
    return tuple(parents)


def chains_up(parents, node):
    """Every upward chain from a node, by plain recursion."""
    yield [node]
    for parent in parents[node]:
        for chain in chains_up(parents, parent):
            yield [node, *chain]


def slow_length(parents, node, ancestor):
    return max(len(chain) - 1 for chain in chains_up(parents, node) if chain[-1] == ancestor)


def slow_above(parents, node):
    return {chain[-1] for chain in chains_up(parents, node)}


def slow_height(parents, y, z):
    """Smallest height of the minimal common ancestors; of a top above all where there is none."""
    shared = slow_above(parents, y) & slow_above(parents, z)
    minimal = [a for a in shared if not any(b != a and a in slow_above(parents, b) for b in shared)]
    if not minimal:
        return 1 + max(len(chain) - 1 for node in (y, z) for chain in chains_up(parents, node))
    return min(max(slow_length(parents, y, a), slow_length(parents, z, a)) for a in minimal)


def test_zero_one_loss():
    np.testing.assert_array_equal(zero_one_loss(3), [[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    assert zero_one_loss(2).dtype == np.float64
    for k in (0, -1, 2.0, True):
        refused("k must be at least 1", zero_one_loss, k)


@pytest.mark.smoke
def test_tree_loss_counts_levels_not_edges():
    #        0
    #      1   2
    #     3 4  5 6
    taxonomy = SimpleNamespace(
        parents=((), (0,), (0,), (1,), (1,), (2,), (2,)), classes=(3, 4, 5, 6)
    )
    want = [[0, 1, 2, 2], [1, 0, 2, 2], [2, 2, 0, 1], [2, 2, 1, 0]]
    delta = tree_loss(taxonomy)
    np.testing.assert_array_equal(delta, want)
    assert delta.dtype == np.float64


def test_heights_of_random_orders_and_forests_by_enumeration():
    rng = np.random.default_rng(1)
    several = forest = 0
    for _ in range(25):
        parents = random_order(rng, 9)
        classes = tuple(range(9))
        want = [[slow_height(parents, y, z) for z in classes] for y in classes]
        np.testing.assert_array_equal(common_ancestor_height(parents, classes), want)
        several += any(len(above) > 1 for above in parents)
        forest += sum(not above for above in parents) > 1
    assert several > 5 and forest > 5


def test_classes_without_any_order_give_zero_one_loss():
    taxonomy = SimpleNamespace(parents=((),) * 4, classes=(0, 1, 2, 3))
    np.testing.assert_array_equal(tree_loss(taxonomy), zero_one_loss(4))


def test_a_cycle_is_refused():
    refused(r"nodes \[1, 2, 3\] lie on or below a cycle", chain_lengths, ((), (2,), (1, 0), (2,)))


def test_parents_come_first_and_deep_chains_need_no_recursion():
    rng = np.random.default_rng(2)
    parents = random_order(rng, 30)
    place = {node: i for i, node in enumerate(parents_first(parents))}
    assert len(place) == 30
    assert all(place[p] < place[node] for node in range(30) for p in parents[node])
    deep = ((), *((i,) for i in range(1500)))
    assert common_ancestor_height(deep, (0, 1500))[0, 1] == 1500
