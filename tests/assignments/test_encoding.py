"""Two sets as people hold them: kinds of examples, names, what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array

import jaxstruct as js
from jaxstruct.core.padding import padded
from tests.lib.refusals import refused

prepare = js.assignments.prepare


def grids():
    """The same two examples as arrays, as lists of rows by name and as mappings of all pairs."""
    arrays = [np.arange(6.0).reshape(2, 3, 1) / 7, np.arange(4.0).reshape(2, 2, 1) - 1]
    lists = [[[{"a": float(v[0])} for v in row] for row in one] for one in arrays]
    maps = [
        {(i, j): {"a": float(one[i, j, 0])} for j in range(one.shape[1]) for i in (1, 0)}
        for one in arrays
    ]
    for one in maps:  # rows come in the order of their first pairs: 1, 0
        assert next(iter(one))[0] == 1
    return arrays, lists, maps


def first_of(data, w):
    """(theta of the first example under these weights, the padded outputs)."""
    x, outputs = padded(data.problem.padding, *data[1:])
    w = {name: jnp.asarray(leaf, jnp.float32) for name, leaf in w.items()}
    return data.problem.model.potentials(w, jax.tree.map(lambda leaf: leaf[0], x)), outputs


def test_kinds_of_examples_are_one():
    """theta is the same however the features of pairs are given."""
    arrays, lists, maps = grids()
    y = [[(0, 2), (1, 0)], [(1, 1), (0, 0)]]
    tables = []
    for X in (arrays, lists, maps):
        data = prepare(X, y)
        theta, outputs = first_of(data, {"pairs": np.ones(1)})
        tables.append((np.asarray(theta.pairs), np.asarray(theta.allowed), outputs[0]))
    np.testing.assert_allclose(tables[0][0][:2, :3], arrays[0][..., 0], rtol=1e-6)
    for one in tables:
        assert one[1].sum() == 6 and one[1][:2, :3].all()
    np.testing.assert_allclose(tables[0][0], tables[1][0], rtol=1e-6)
    np.testing.assert_array_equal(tables[0][2][:3], [2, 0, -1])
    turned = [1, 0]
    np.testing.assert_allclose(tables[2][0][turned, :3], arrays[0][..., 0], rtol=1e-6)
    np.testing.assert_array_equal(tables[2][2][turned], [2, 0])


@pytest.mark.parametrize(
    "form",
    [
        [2, -1], np.array([2, -1]), {0: 2}, np.array([[0, 2]]), (np.array([0]), np.array([2])),
        np.array([[False, False, True], [False] * 3]), csr_array([[0, 0, 1.0], [0, 0, 0]]),
    ],
)  # fmt: skip
def test_forms_of_a_matching_are_one(form):
    """The column of each row, SciPy's two index arrays, indicators: the pairs that they stand for.

    Two arrays are rows and columns, also where they could be two pairs: (0, 0) and (1, 1).
    """
    data = prepare(grids()[0], [form, (np.arange(2), np.arange(2))], unmatched=True)
    assert data.encoding.decode(data.outputs) == [[(0, 2)], [(0, 0), (1, 1)]]
    for y in ([form, [0, 1]], [[(0, 2)], {0: 0, 1: 1}]):
        outputs = data.encoding.outputs(y, grids()[0])
        assert data.encoding.decode(outputs) == [[(0, 2)], [(0, 0), (1, 1)]]


def test_some_pairs_are_listed_and_others_forbidden():
    X = [{("x", "p"): {"a": 1.0}, ("y", "q"): {"a": 2.0}, ("x", "q"): {"a": 3.0}}]
    data = prepare(X, [{"x": "p", "y": "q"}])
    theta, _ = first_of(data, {"pairs": np.ones(1)})
    np.testing.assert_array_equal(theta.pairs[:2, :2], [[1, 3], [0, 2]])
    np.testing.assert_array_equal(theta.allowed[:2, :2], [[True, True], [False, True]])
    assert theta.allowed.sum() == 3 and data.encoding.decode(data.outputs, X) == [
        [("x", "p"), ("y", "q")]
    ]


def test_items_have_features_of_their_own():
    pairs = np.zeros((2, 2, 1), np.float32)
    X = [(pairs, {"x": {"new": True}, "y": {}}, [{"old": 1.0}, {"old": 2.0}])]
    data = prepare(X, [[("y", 1)]], unmatched=True)
    names = [one.names for one in (data.encoding.rows, data.encoding.columns)]
    assert names == [("new", "constant"), ("old", "constant")]
    theta, _ = first_of(data, {"pairs": [0], "rows": [5, 1], "columns": [3, 0.5]})
    np.testing.assert_allclose(theta.rows[:2], [6, 1])
    np.testing.assert_allclose(theta.columns[:2], [3.5, 6.5])
    with refused(r"examples\[0\] has no features of rows"):
        data.encoding.inputs([pairs])
    with refused("features of rows, which complete matchings never read: say unmatched=True"):
        prepare(X, [[("y", 1), ("x", 0)]])


def test_refusals_name_the_place():
    X, y = grids()[0], [[(0, 2), (1, 0)], [(1, 1), (0, 0)]]
    refused(r"examples must be a list", prepare, X[0], y)
    refused(r"examples\[1\] must be .*got a tuple of 2", prepare, [X[0], (X[1], [])], y)
    refused(r"examples\[0\]\[1\] has 1 columns, examples\[0\]\[0\] has 2", prepare,
            [[[[1.0], [2.0]], [[1.0]]]], y[:1])  # fmt: skip
    refused("keys that are tuples", prepare, [{"a": [1.0]}], [[]])
    refused("matchings must be of n = 2 examples, got 1", prepare, X, y[:1])
    refused(r"matchings\[1\] names the column 5: expected a position in 0..1", prepare, X,
            [y[0], [(1, 5)]])  # fmt: skip
    refused(r"matchings\[0\] matches an item of the pair \(1, 2\) twice", prepare, X,
            [[(0, 2), (1, 2)], y[1]])  # fmt: skip
    refused(r"matchings\[0\] must hold pairs", prepare, X, [["ab", 3], y[1]])
    refused(r"matchings\[0\] has 1 columns for 2 rows", prepare, X, [[1], y[1]])
    refused(r"matchings\[0\] has 2 rows, but 1 columns", prepare, X,
            [(np.arange(2), np.arange(1)), y[1]])  # fmt: skip
    refused(r"expected \[r, c\] = \[2, 3\]", prepare, X, [np.eye(2, dtype=bool), y[1]])
    refused(r"indicator .* give matching == 1", prepare, X, [np.eye(2, 3), y[1]])
    named = {("a", "u"): [1.0], ("b", "v"): [2.0]}
    refused("the items have names: give pairs", prepare, [named], [[0, 1]])
    refused(r"examples must hold an example", prepare, [], [])
    refused(r"has the pair .*, but rows have no item 'z'", prepare,
            [({("z", 0): [1.0]}, {"x": [1.0]}, None)], [[]], unmatched=True)  # fmt: skip
