"""Sets of labels: every loss and formulation against an independent QP with all sets."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.graphs.marginals import UNITS, Marginals, set_marginals
from jaxstruct.graphs.multi_label import LOSSES, multi_label, set_losses
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.objective.most_violated import oracle_for
from tests.graphs.random_graphs import every_labelling
from tests.graphs.structure_cases import check_optimum, flat
from tests.lib.refusals import refused

N, D, L = 12, 3, 3
SETS = every_labelling(L, 2)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)).round(2)
Y = SETS[RNG.integers(0, len(SETS), N)]
pytestmark = pytest.mark.usefixtures("x64")


def psi(x: np.ndarray) -> np.ndarray:
    """[8, D L + 12] of every set, as the weights are laid out."""
    labels = np.einsum("d,kl->kdl", x, SETS).reshape(len(SETS), -1)
    hot = np.eye(2)[SETS]
    pairs = [np.einsum("ks,kt->kst", hot[:, a], hot[:, b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    return np.concatenate([labels, np.stack(pairs, axis=1).reshape(len(SETS), -1)], axis=1)


def losses(name: str, y: np.ndarray) -> np.ndarray:
    """[8] of every set, by counting."""
    wrong = np.array([sum(a != b for a, b in zip(own, y, strict=True)) for own in SETS], float)
    both = np.array([sum(a and b for a, b in zip(own, y, strict=True)) for own in SETS], float)
    total = SETS.sum(axis=1) + y.sum()
    f1 = np.where(total > 0, 1 - 2 * both / np.maximum(total, 1), 0)
    ranking = np.array([misordered(y, own) for own in SETS])
    found = {"hamming": wrong, "normalised_hamming": wrong / L, "zero_one": wrong > 0, "f1": f1}
    return (found | {"ranking": ranking})[name].astype(float)


def misordered(y: np.ndarray, own: np.ndarray) -> float:
    """The part of the pairs (in y, not in y) out of order; level pairs count half."""
    pairs = [(own[a], own[b]) for a in np.flatnonzero(y) for b in np.flatnonzero(y == 0)]
    return float(np.mean([(a < b) + 0.5 * (a == b) for a, b in pairs])) if pairs else 0.0


def test_losses_are_those_counted() -> None:
    of = jax.jit(set_losses, static_argnums=0)
    for name in LOSSES:
        for y in SETS:
            found = of(name, y[None], SETS)
            np.testing.assert_allclose(np.asarray(found, float), losses(name, y), atol=1e-12)


@pytest.mark.thorough
def test_the_optimum() -> None:
    problem = multi_label(D, L, loss="f1", dtype="float64")
    places = [int(np.flatnonzero((SETS == y).all(axis=1))[0]) for y in Y]
    features = np.stack([psi(x) for x in X])
    truth = features, np.stack([losses("f1", y) for y in Y]), places
    check_optimum((problem, X, Y), "svm2_slack", 5.0, truth)
    w = weights_of(problem)
    found = js.predict(problem, w, X)
    np.testing.assert_array_equal(found, SETS[(features @ flat(w)).argmax(axis=1)])


@jax.jit
def augmented(problem: js.Problem, w: dict, y: Marginals | jax.Array, scale: jax.Array) -> tuple:
    """(what the oracle finds for each example, its score and loss)."""

    def of_example(x: jax.Array, y: Marginals | jax.Array) -> tuple:
        theta, model = problem.model.potentials(w, x), problem.model
        found = problem.oracles.loss_augmented_decode(theta, y, scale)
        return found, model.score(theta, found.output), model.loss(y, found.output)

    return jax.vmap(of_example)(jnp.asarray(X), y)


def weights_of(problem: js.Problem) -> dict:
    """Random weights."""
    rng = np.random.default_rng(1)
    shapes = {name: leaf.shape for name, leaf in problem.initial_weights.items()}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("inference", ["relaxed", "reweighted"])
def test_inexact_oracles_and_the_ranking_loss(inference: str) -> None:
    """On both sides of the maximum over all sets; `test_certificates` trains with these oracles."""
    problem = multi_label(D, L, loss="ranking", inference=inference, dtype="float64")
    w, y = weights_of(problem), set_marginals(Y) if inference == "relaxed" else Y
    scores = np.stack([psi(x) for x in X]) @ flat(w)
    costs = np.stack([losses("ranking", own) for own in Y])
    for scale in (0.0, 1.0, 20.0):
        best = (scores + scale * costs).max(axis=1)
        found, score, loss = jax.device_get(augmented(problem, w, y, scale))
        value, bound = score + scale * loss, found.bound
        assert (bound >= best - 1e-9).all() and (value <= bound + 1e-9).all()
        if inference == "relaxed":
            nodes = found.output.nodes
            assert (nodes.sum(axis=2) == UNITS).all()
            whole = np.isin(nodes, (0, UNITS)).all(axis=(1, 2)) & (bound - value < 1e-6)
            assert whole.mean() > 0.5
            np.testing.assert_allclose(value[whole], best[whole], atol=1e-6)
            continue
        assert (value <= best + 1e-9).all() and np.isclose(value, best).mean() > 0.5
        at = [int(np.flatnonzero((SETS == own).all(axis=1))[0]) for own in found.output]
        np.testing.assert_allclose(loss, costs[np.arange(N), at], atol=1e-12)


@pytest.mark.thorough
def test_relaxed_predictions_are_marginals_with_the_features_of_sets() -> None:
    problem = multi_label(D, L, loss="ranking", inference="relaxed", dtype="float64")
    w, whole = weights_of(problem), set_marginals(Y)
    found = jax.device_get(augmented(problem, w, whole, 0.0)[0].output)
    assert found.nodes.shape == (N, L, 2) and (found.nodes.sum(axis=2) == UNITS).all()
    best = SETS[np.argmax(np.stack([psi(x) for x in X]) @ flat(w), axis=1)]
    assert (np.argmax(found.nodes, axis=2) == best).all(axis=1).mean() > 0.5
    own = jax.device_get(jax.jit(jax.vmap(partial(js.joint_feature, problem)))(X, whole))
    for i, y in enumerate(Y):
        place = int(np.flatnonzero((SETS == y).all(axis=1))[0])
        row = flat(jax.tree.map(lambda leaf, i=i: leaf[i], own))
        np.testing.assert_allclose(row, psi(X[i])[place], atol=1e-12)


def test_contenders_serve_all_formulations() -> None:
    problem = multi_label(D, L, loss="f1", dtype="float64")
    assert {oracle_for(problem, each) for each in FORMULATIONS.values()} == {"contenders"}


@pytest.mark.thorough
def test_sparse_inputs_and_no_pairs() -> None:
    dense = multi_label(D, L, pairs=False, dtype="float64")
    w = {"labels": RNG.normal(size=(D, L))}
    rows = np.where(np.abs(X) < 0.5, 0, X)
    indices = np.where(rows != 0, np.arange(D, dtype=np.int32), D)
    found = [js.predict(dense, w, x) for x in (rows, js.SparseFeatures(indices, rows))]
    np.testing.assert_array_equal(found[0], (rows @ w["labels"] > 0).astype(int))
    np.testing.assert_array_equal(found[0], found[1])


def test_what_does_not_fit_is_refused() -> None:
    for options, message in (
        ({"number_of_labels": 18}, r"18 nodes \(with padding\) of 2 labels have 262144"),
        ({"loss": "rank"}, "loss is 'rank'; choose one of"),
        ({"inference": "elimination"}, "inference is 'elimination'; choose one of"),
        ({"inference": "modes", "loss": "f1"}, 'loss="f1" needs inference="enumeration"'),
        ({"pairs": "no"}, "pairs must be True or False"),
        ({"inference": "relaxed", "pairs": False}, 'inference="relaxed" needs pairs=True'),
    ):
        sizes = {"number_of_features": D, "number_of_labels": L}
        refused(message, multi_label, **sizes | options)
    relaxed, problem = (multi_label(D, L, inference=one) for one in ("relaxed", "enumeration"))
    refused("outputs must be Marginals .* by graphs.set_marginals", js.fit, relaxed, X, Y)
    whole = set_marginals(Y)
    half = whole._replace(nodes=whole.nodes // 2)
    refused("outputs.nodes must be 5040 at one label each", js.fit, relaxed, X, half)
    refused(r"outputs\[0, 1\] is 2: expected 0..1", set_marginals, Y + 1)
    refused(r"inputs must be \[n, number_of_features = 3\], got", js.fit, problem, X[:, :2], Y)
    refused(r"outputs must be \[n = 12, L = 3\] zeros and ones", js.fit, problem, X, Y[:, :2])
    refused(r"outputs\[\d+, \d\] is 2: expected 0..1", js.fit, problem, X, Y + 1)
