"""Graphs of which some nodes are not labelled, against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.contract import Incomplete, Truth
from jaxstruct.core.padding import padded
from tests.lib.refusals import refused

pytestmark = pytest.mark.usefixtures("x64")
COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
EDGES = [(0, 1), (1, 2), (2, 3), (0, 3)]
KINDS = [0, None, {1, 2}, 2, 1]


def graphs(seed: int, n: int) -> tuple[list, list]:
    """(n squares of nodes with two features, their labels, some None or sets)."""
    random = np.random.default_rng(seed)
    given = [(random.normal(size=(4, 2)), EDGES) for _ in range(n)]
    return given, [[KINDS[k] for k in random.integers(0, 5, 4)] for _ in range(n)]


def tables(labels: list) -> np.ndarray:
    """[4, 3] bool, which labels are possible."""
    may = [{0, 1, 2} if one is None else one if isinstance(one, set) else {one} for one in labels]
    return np.array([[s in own for s in range(3)] for own in may])


EVERY = np.array([*itertools.product(range(3), repeat=4)])


def scores(w: dict, nodes: np.ndarray) -> np.ndarray:
    """[81] F of every labelling."""
    unary = nodes @ np.asarray(w["nodes"])
    pairs = np.asarray(w["pairs"])[0]
    F = unary[np.arange(4), EVERY].sum(axis=1)
    return F + sum(pairs[EVERY[:, a], EVERY[:, b]] for a, b in EDGES)


def costs(loss: object, possible: np.ndarray) -> np.ndarray:
    """[81] Delta of every labelling."""
    table = COSTS if loss is COSTS else 1 - np.eye(3)
    each = np.array([table[own].min(axis=0) for own in possible])
    return each[np.arange(4), EVERY].sum(axis=1)


@pytest.mark.parametrize("loss", ["hamming", COSTS], ids=["hamming", "costs"])
@pytest.mark.parametrize("inference", ["elimination", "enumeration", "reweighted"])
def test_the_objective_is_as_defined(inference: str, loss) -> None:
    given, labels = graphs(0, 8)
    options = {"inference": inference, "loss": loss, "dtype": "float64"}
    plans = inference == "elimination"
    data = js.graphs.prepare(given, labels, classes=range(3), plans=plans, **options)
    found = js.fit_latent(*data, C=4.0, tolerance=1e-2 if inference == "reweighted" else 1e-5)
    J = sum(float((np.asarray(leaf) ** 2).sum()) for leaf in jax.tree.leaves(found.weights)) / 2
    for (nodes, _), own, h in zip(given, labels, found.details.completions, strict=True):
        F, possible = scores(found.weights, nodes), tables(own)
        agrees = possible[np.arange(4), EVERY].all(axis=1)
        assert possible[np.arange(4), h].all()
        J += 4.0 / 8 * ((F + costs(loss, possible)).max() - F[agrees].max())
    if inference != "reweighted":
        assert found.status is js.Status.CONVERGED
    assert found.primal == pytest.approx(J, rel=1e-9 if plans else 1e-2)
    course = found.details.trace.objective[~found.details.trace.warm]
    assert (np.diff(course) <= 0).all()


@pytest.mark.parametrize("inference", ["elimination", "enumeration"])
def test_the_likelihood_is_that_of_all_that_agree(inference: str) -> None:
    given, labels = graphs(1, 1)
    data = js.graphs.prepare(
        given, labels, classes=range(3), plans=True, inference=inference, dtype="float64"
    )
    problem, possible = data.problem, tables(labels[0])
    random = np.random.default_rng(2)
    w = jax.tree.map(lambda leaf: jnp.asarray(random.normal(size=leaf.shape)),
                     problem.initial_weights)  # fmt: skip
    x, _ = padded(problem.padding, data.inputs, data.outputs.output)
    theta = problem.model.potentials(w, jax.tree.map(lambda leaf: leaf[0], x))
    V = theta.nodes.shape[0]
    table = jnp.zeros((V, 3), bool).at[:4].set(possible)
    truth = Truth(problem.model.complete(theta, table), table)
    F = scores(w, given[0][0])
    agrees = possible[np.arange(4), EVERY].all(axis=1)
    assert EVERY[agrees][F[agrees].argmax()].tolist() == truth.output[:4].tolist()
    value, slope = jax.value_and_grad(problem.inference.log_loss, allow_int=True)(theta, truth)
    P, Q = np.exp(F), np.exp(F) * agrees
    assert float(value) == pytest.approx(np.log(P.sum() / Q.sum()), abs=1e-9)
    one = np.eye(3)[EVERY]  # [81, 4, 3]
    wanted = np.tensordot(P / P.sum() - Q / Q.sum(), one, 1)
    np.testing.assert_allclose(slope.nodes[:4], wanted, atol=1e-9)


def test_estimators_and_refusals() -> None:
    random = np.random.default_rng(3)
    labels = [random.integers(0, 2, 4).tolist() for _ in range(30)]
    given = [(np.eye(2)[own] + 0.3 * random.normal(size=(4, 2)), EDGES) for own in labels]
    known = [[y if random.random() < 0.5 else None for y in own] for own in labels]
    ways: list[dict[str, Any]] = [{"plans": True}, {"plans": True, "objective": "log_loss"}, {}]
    for options in ways:
        model = js.estimators.GraphLabeller(C=10.0, tol=0.01, **options).fit(given, known)
        assert model.score(given, labels) > 0.9
    data = js.graphs.prepare(given, known)
    assert isinstance(data.outputs, Incomplete)
    refused("outputs are Incomplete", js.fit, *data)
    refused(
        "no Model.restrict", js.estimators.GraphLabeller(objective="log_loss").fit, given, known
    )
    zero_one = js.graphs.prepare(given, known, loss="zero_one")
    refused("add up|additive", js.fit_latent, *zero_one)
    nobody = js.graphs.prepare(given, known)
    empty = nobody.outputs.known
    none = Incomplete(nobody.outputs.output, js.Ragged(empty.rows & False, empty.offsets))
    refused(r"outputs\[0\] does not agree with what is known", js.fit_latent, *nobody[:2], none)
