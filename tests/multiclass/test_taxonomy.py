"""Taxonomies: builders, ancestors and heights."""

from __future__ import annotations

import numpy as np

from jaxstruct.multiclass.losses import tree_loss
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


def test_refusals():
    with refused("'kat' is none of the 6 nodes.*close names: 'cat'"):
        taxonomy_from_parents(PARENTS, ("kat",))
    refused("every name once", taxonomy_from_parents, PARENTS, ("cat", "cat"))
    refused("at least one name", taxonomy_from_parents, PARENTS, ())
    refused(r"parents: got 3, expected a non-empty str", taxonomy_from_parents, {3: "a"}, ("a",))
    refused(r"parents\['a'\]: got 3", taxonomy_from_parents, {"a": (3,)}, ("a",))
    refused("every parent once", taxonomy_from_parents, {"a": ("b", "b")}, ("a",))
    with refused("'other' stands below 'news', in an earlier .*'sport'"):
        taxonomy_from_paths({"a": ("sport", "other"), "b": ("news", "other")})
    refused("'mid' stands below None", taxonomy_from_paths, {"a": ("top", "mid"), "b": ("mid",)})
    refused("must be a sequence of names, got 'top'", taxonomy_from_paths, {"a": "top"})
    refused("expected every name once", taxonomy_from_paths, {"a": ("top", "top")})
    refused("at least one name", taxonomy_from_paths, {})
    refused("every name once", taxonomy_from_parents, {"a": None}, ["a"] * 10_000)
    refused(r"parents must be a mapping, .* got \['a'\]", taxonomy_from_parents, ["a"], ["a"])
    refused("classes must be a sequence of names", taxonomy_from_parents, {"a": None}, 3)
    refused("paths must be a mapping", taxonomy_from_paths, [("a", "b")])
    refused("taxonomy must be a Taxonomy .see taxonomy_from_parents", ancestors_or_self, None)
    refused("taxonomy must be a Taxonomy", node_depths, {"a": None})
