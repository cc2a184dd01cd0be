"""A structure in one file, with an encoding in the same, has all that the structures here have.

Three items with features are put in order: F adds up <w, x_i - x_j> over the pairs (i before j),
and Delta is the share of pairs that stand the wrong way round.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import logsumexp

import jaxstruct as js
from tests.lib.refusals import refused

ITEMS, FEATURES = 3, 2
ORDERS = np.array(list(itertools.permutations(range(ITEMS))), np.int32)
"""[6, ITEMS] the place of each item."""


def potentials(w: dict, x: jax.Array) -> jax.Array:
    return x @ w["features"]


def score(theta: jax.Array, y: jax.Array) -> jax.Array:
    return theta @ (ITEMS - 1 - 2 * y).astype(theta.dtype)


def decode(theta: jax.Array) -> jax.Array:
    return jnp.asarray(ORDERS)[jnp.argmax(jax.vmap(score, (None, 0))(theta, jnp.asarray(ORDERS)))]


def loss(y_true: jax.Array, y: jax.Array) -> jax.Array:
    first, second = np.triu_indices(ITEMS, 1)
    return jnp.mean((y_true[first] < y_true[second]) != (y[first] < y[second]))


def _order(number: jax.Array) -> jax.Array:
    return jnp.asarray(ORDERS)[number]


def contenders(theta: jax.Array, y_true: jax.Array) -> js.Contenders:
    orders = jnp.asarray(ORDERS)
    wrong = jnp.any(orders != y_true[None], axis=1)
    scores = jnp.where(wrong, jax.vmap(score, (None, 0))(theta, orders), -jnp.inf)
    return js.Contenders(jax.vmap(loss, (None, 0))(y_true, orders), scores, ())


def output(trace: tuple, level: jax.Array) -> jax.Array:
    del trace
    return _order(level)


def all_outputs(y_true: jax.Array) -> jax.Array:
    place = jnp.argmax(jnp.all(jnp.asarray(ORDERS) == y_true[None], axis=1))
    return jnp.roll(jnp.asarray(ORDERS), -place, axis=0)


class OrderEncoding(NamedTuple):
    """Lists of items as inputs, lists of their names in order as outputs."""

    features: tuple[str, ...]
    structure = "order"

    def problem(self) -> js.Problem:
        return js.make_problem(
            {"features": np.zeros(len(self.features), np.float32)},
            js.Model(potentials, score, decode, loss),
            js.Oracles(contenders, output, all_outputs=all_outputs),
        )

    def inputs(self, lists: list[dict[str, list[float]]]) -> np.ndarray:
        return np.array([[*one.values()] for one in lists], np.float32)

    def outputs(self, ordered: list[list[str]], lists: list[dict]) -> np.ndarray:
        both = zip(ordered, lists, strict=True)
        return np.array([[own.index(name) for name in one] for own, one in both], np.int32)

    def decode(self, outputs: np.ndarray, lists: Any = None) -> list:
        if lists is None:
            return np.asarray(outputs).tolist()
        ordered = (np.array([*one])[np.argsort(y)] for y, one in zip(outputs, lists, strict=True))
        return [one.tolist() for one in ordered]


def _examples(n: int, noise: float) -> tuple[list, list]:
    random = np.random.default_rng(7)
    rows = random.normal(size=(n, ITEMS, FEATURES))
    values = rows @ np.array([1.0, -0.5]) + noise * random.normal(size=(n, ITEMS))
    lists = [dict(zip("abc", own.tolist(), strict=True)) for own in rows]
    return lists, [np.array([*"abc"])[np.argsort(-own)].tolist() for own in values]


ENCODING = OrderEncoding(("price", "age"))
LISTS, ORDERED = _examples(80, 0.5)
DATA = js.Prepared(ENCODING, ENCODING.inputs(LISTS), ENCODING.outputs(ORDERED, LISTS), {})
PROBLEM, X, Y = DATA


@pytest.fixture(scope="module")
def solution() -> js.Solution:
    js.check_problem(PROBLEM, X, Y, listed=ORDERS)
    return js.fit(PROBLEM, X[:60], Y[:60], "svm1_slack", C=30.0)


@pytest.fixture(scope="module")
def model(solution: js.Solution) -> js.models.TrainedModel:
    assert solution.status == js.Status.CONVERGED
    return js.trained(DATA, solution)


def _scores(solution: js.Solution, x: np.ndarray) -> np.ndarray:
    """[n, 6] of every order, by NumPy."""
    return np.einsum("nif,f,ki->nk", x, solution.weights["features"], ITEMS - 1 - 2 * ORDERS)


def test_it_predicts_streams_and_goes_through_a_file(solution, model, tmp_path) -> None:
    expected = [
        [*np.array([*"abc"])[np.argsort(ORDERS[k])]] for k in _scores(solution, X).argmax(axis=1)
    ]
    assert model.predict(LISTS) == expected
    assert list(js.predict_stream(model, iter(LISTS), batch=16)) == expected
    path = js.save(model, tmp_path / "orders.model")
    refused(r"structure 'order'.* give load\(encoding=\)", js.load, path)
    read = js.load(path, encoding=OrderEncoding)
    assert read.encoding == ENCODING and read.predict(LISTS) == expected


def test_names_of_files_are_distinct() -> None:
    class Chain(OrderEncoding):
        structure = "chain"

    refused("'chain', a name of jaxstruct's own records", js.load, "none", encoding=Chain)
    refused("must be of a NamedTuple with an attribute structure", js.load, "none", encoding=dict)


def test_it_explains_its_weights_and_its_support(solution, model) -> None:
    (table,) = js.explain(model).tables
    assert table.names == ("[0]", "[1]") and table.weights[0] > 0 > table.weights[1]
    (support,) = js.explain(model, solution=solution, example=0, data=LISTS).tables
    assert all(text.startswith("['") for text in support.outputs)

    class Named(OrderEncoding):
        def tables(self, weights: dict, options: dict, largest: int) -> list:
            del options
            return [js.models.ranking("of items", self.features, weights["features"], largest)]

    named = js.trained(js.Prepared(Named(*ENCODING), X, Y, {}), solution)
    assert js.explain(named).tables[0].names == ("price", "age")


def test_it_ranks_and_calibrates(solution) -> None:
    scores = _scores(solution, X)
    best = js.confidence.k_best(PROBLEM, solution, X, k=3)
    np.testing.assert_allclose(best.scores, -np.sort(-scores, axis=1)[:, :3], rtol=1e-5, atol=1e-5)
    held_out = X[60:], Y[60:]
    temperature = js.confidence.fit_temperature(PROBLEM, solution, *held_out)
    found = js.confidence.log_losses(PROBLEM, solution, *held_out, temperature=temperature)
    scaled = scores[60:] / temperature.value
    true = (ORDERS[None] == Y[60:, None]).all(axis=2)
    expected = logsumexp(scaled, axis=1) - scaled[true]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    key = jax.random.key(0)
    (drawn,) = js.confidence.sample(PROBLEM, solution, X[:2], key, temperature=temperature)
    assert np.sort(drawn, axis=1).tolist() == [[0, 1, 2]] * 2


def test_it_is_a_random_field_and_stands_behind_a_network() -> None:
    field = js.baselines.fit_random_field(PROBLEM, X, Y, C=80.0)
    assert field.status == js.Status.CONVERGED and field.dual <= field.primal

    def objective(w: dict, name: str) -> jax.Array:
        hidden, of_one = jnp.tanh(X @ w["hidden"]) @ w["out"], getattr(js.losses, name)
        return jnp.mean(jax.vmap(lambda theta, y: of_one(PROBLEM, theta, y))(hidden, Y))

    objective = jax.jit(jax.value_and_grad(objective), static_argnums=1)
    w = {"hidden": np.random.default_rng(0).normal(size=(2, 4)), "out": np.zeros(4)}
    for name in ("log_loss", "smoothed_hinge", "structured_hinge", "perceptron"):
        before, gradient = objective(w, name)
        step = optax.apply_updates(w, jax.tree.map(lambda leaf: -0.1 * np.asarray(leaf), gradient))
        assert float(objective(step, name)[0]) < float(before) or name == "perceptron"
