"""Taxonomies: builders, ancestors and heights."""

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
from jaxstruct.multiclass.taxonomy import (
    Taxonomy,
    ancestors_or_self,
    node_depths,
    taxonomy_from_parents,
    taxonomy_from_paths,
)
from tests.lib.refusals import refused

PARENTS = {"cat": "mammal", "dog": "mammal", "hen": "bird", "mammal": "animal", "bird": "animal"}
CLASSES = ("hen", "cat", "dog")


def table_by_name(taxonomy):
    table = ancestors_or_self(taxonomy)
    names = np.array(taxonomy.names)
    return {names[node]: set(names[row]) for node, row in zip(taxonomy.classes, table, strict=True)}


def test_from_parents():
    taxonomy = taxonomy_from_parents(PARENTS, CLASSES)
    assert len(taxonomy.names) == 6
    assert [taxonomy.names[node] for node in taxonomy.classes] == list(CLASSES)
    edges = {
        (child, taxonomy.names[parent])
        for child, above in zip(taxonomy.names, taxonomy.parents, strict=True)
        for parent in above
    }
    assert edges == set(PARENTS.items())
    assert table_by_name(taxonomy) == {
        "hen": {"hen", "bird", "animal"},
        "cat": {"cat", "mammal", "animal"},
        "dog": {"dog", "mammal", "animal"},
    }


def test_from_paths_with_and_without_the_class_at_the_end():
    short = {"hen": ("animal", "bird"), "cat": ["animal", "mammal"], "dog": ("animal", "mammal")}
    full = {name: (*path, name) for name, path in short.items()}
    assert taxonomy_from_paths(short) == taxonomy_from_paths(full)
    by_parents = taxonomy_from_parents(PARENTS, CLASSES)
    assert table_by_name(taxonomy_from_paths(short)) == table_by_name(by_parents)
    np.testing.assert_array_equal(tree_loss(taxonomy_from_paths(short)), tree_loss(by_parents))


def test_a_partial_order_and_a_forest():
    diamond = taxonomy_from_parents(
        {
            "a": ("left", "right"),
            "b": "left",
            "c": ["right"],
            "left": "top",
            "right": "top",
            "alone": None,
        },
        ("a", "b", "c", "alone"),
    )
    assert table_by_name(diamond)["a"] == {"a", "left", "right", "top"}
    assert table_by_name(diamond)["alone"] == {"alone"}
    # b and c meet at the top; "alone" meets the others only at the common top above "top"
    want = [[0, 1, 1, 3], [1, 0, 2, 3], [1, 2, 0, 3], [3, 3, 3, 0]]
    np.testing.assert_array_equal(tree_loss(diamond), want)
    depths = dict(zip(diamond.names, node_depths(diamond), strict=True))
    assert depths == {"top": 0, "alone": 0, "left": 1, "right": 1, "a": 2, "b": 2, "c": 2}


def test_ancestors_of_random_orders_by_enumeration():
    rng = np.random.default_rng(0)
    for _ in range(10):
        nodes = 12
        parents = tuple(
            tuple(int(p) for p in np.flatnonzero(rng.random(node) < 0.25)) for node in range(nodes)
        )
        taxonomy = Taxonomy(tuple(map(str, range(nodes))), parents, tuple(range(nodes)))
        step = np.eye(nodes, dtype=int)
        for node, above in enumerate(parents):
            step[node, list(above)] = 1
        reach = np.linalg.matrix_power(step, nodes) > 0
        np.testing.assert_array_equal(ancestors_or_self(taxonomy), reach)
        height = tree_loss(taxonomy)
        np.testing.assert_array_equal(height, height.T)
        np.testing.assert_array_equal(height == 0, np.eye(nodes, dtype=bool))


def test_a_cycle_is_named():
    loop = {"x": "a", "a": "b", "b": "c", "c": ("top", "a")}
    with refused("cycle") as error:
        taxonomy_from_parents(loop, ("x",))
    message = str(error.value)
    turns = ["'a' -> 'b' -> 'c' -> 'a'", "'b' -> 'c' -> 'a' -> 'b'", "'c' -> 'a' -> 'b' -> 'c'"]
    assert any(turn in message for turn in turns) and "'x'" not in message
    refused("'a' -> 'a'", taxonomy_from_parents, {"a": "a"}, ("a",))
    refused("cycle", lambda: tree_loss(Taxonomy(("a", "b"), ((1,), (0,)), (0,))))


def test_taxonomies_that_are_refused():
    parents, paths = taxonomy_from_parents, taxonomy_from_paths
    refused("'kat' is none of the 6 nodes.*close names: 'cat'", parents, PARENTS, ("kat",))
    refused("every name once", parents, PARENTS, ("cat", "cat"))
    refused("at least one name", parents, PARENTS, ())
    refused(r"parents: got 3, expected a non-empty str", parents, {3: "a"}, ("a",))
    refused("every parent once", parents, {"a": ("b", "b")}, ("a",))
    refused("parents must be a mapping", parents, ["a"], ["a"])
    refused("classes must be a sequence of names", parents, {"a": None}, 3)
    other = {"a": ("sport", "other"), "b": ("news", "other")}
    refused("'other' stands below 'news', in an earlier .*'sport'", paths, other)
    refused("must be a sequence of names, got 'top'", paths, {"a": "top"})
    refused("expected every name once", paths, {"a": ("top", "top")})
    refused("paths must be a mapping", paths, [("a", "b")])
    refused("taxonomy must be a Taxonomy .see taxonomy_from_parents", ancestors_or_self, None)


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


def test_a_cycle_is_refused_by_chain_lengths():
    refused(r"nodes \[1, 2, 3\] lie on or below a cycle", chain_lengths, ((), (2,), (1, 0), (2,)))


def test_parents_come_first_and_deep_chains_need_no_recursion():
    rng = np.random.default_rng(2)
    parents = random_order(rng, 30)
    place = {node: i for i, node in enumerate(parents_first(parents))}
    assert len(place) == 30
    assert all(place[p] < place[node] for node in range(30) for p in parents[node])
    deep = ((), *((i,) for i in range(1500)))
    assert common_ancestor_height(deep, (0, 1500))[0, 1] == 1500
