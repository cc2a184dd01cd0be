"""The problem of dependency trees: features, contract, losses, and its optimum against a QP."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.core.padding import padded
from jaxstruct.dependencies import Parse
from jaxstruct.dependencies.example_checks import crossing_arcs, fault_of, lifted
from tests.dependencies.cases import prepared, psi, treebank
from tests.dependencies.oracles.truth import labelled_trees
from tests.lib.enumeration import flat, row
from tests.lib.refusals import refused
from tests.lib.structures import Every, check_oracles
from tests.truth.optimum import check_optimum


def of_pairs(words, labels, projective):
    """All trees of a sentence as `prepare` takes them."""
    found = labelled_trees(words, len(labels) or 1, projective).reshape(-1, 2, words)
    if not labels:
        return [heads.tolist() for heads, _ in found]
    return [[(int(head), labels[label]) for head, label in zip(*one, strict=True)] for one in found]


@functools.cache
def data_of(labels, projective, dtype="float32", n=9):
    """Sentences of two and three words: one word alone has one tree without labels."""
    every = treebank(1, n, 3, labels=labels, projective=projective)
    sentences, trees = ([one for one in each if len(one) > 1] for each in every)
    options = {"loss": "labelled_hamming"} if labels else {}
    data = prepared(sentences, trees, projective=projective, dtype=dtype, **options)
    return sentences, trees, data


def padded_pairs(data, pairs):
    """Sentences and trees as the functions of the problem take them."""
    sentences, trees = zip(*pairs, strict=True)
    given = data.encoding.inputs(list(sentences)), data.encoding.outputs(list(trees))
    return jax.device_get(padded(data.problem.padding, *given))


def test_inner_products_are_counts_of_named_features(x64, labels="pq"):
    """<Psi, Psi'> of any two trees of two sentences; every slot is exact."""
    sentences, _, data = data_of(labels, False, "float64")
    pairs = [(own, tree) for own in sentences[:2] for tree in of_pairs(len(own), labels, False)]
    x, y = padded_pairs(data, pairs)
    features = jax.jit(jax.vmap(js.joint_feature, (None, 0, 0)))(data.problem, x, y)["features"]
    counts = [psi(*pair) for pair in pairs]
    names = sorted({name for one in counts for name in one}, key=str)
    table, features = (
        np.array([[one[name] for name in names] for one in counts]),
        np.asarray(features),
    )
    np.testing.assert_allclose(features @ features.T, table @ table.T, atol=1e-9)


@functools.cache
def enumerated():
    """Of any trees without labels: (Psi [n, k, D], Delta [n, k], truths [n]).

    Where there are fewer a wrong one is repeated.
    """
    sentences, trees, _ = data_of("", False, "float64")
    every = [
        sorted(of_pairs(len(sentence), "", False), key=lambda tree, true=true: tree != true)
        for sentence, true in zip(sentences, trees, strict=True)
    ]  # the true one first
    counts = [[psi(s, tree) for tree in own] for s, own in zip(sentences, every, strict=True)]
    names = sorted({name for own in counts for one in own for name in one}, key=str)
    most = max(map(len, every))
    features, losses, truths = [], [], []
    for own, one, true in zip(every, counts, trees, strict=True):
        table = np.array([[count[name] for name in names] for count in one], float)
        wrong = np.array([sum(a != b for a, b in zip(tree, true, strict=True)) for tree in own])
        features.append(np.pad(table, ((0, most - len(own)), (0, 0)), mode="edge"))
        losses.append(np.pad(wrong.astype(float), (0, most - len(own)), mode="edge"))
        truths.append(own.index(true))
    return np.array(features), np.array(losses), np.array(truths)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("formulation", "tolerance", "rtol"), [("svm1", 1e-6, 2e-6), ("svm2_slack", 1e-4, 1e-4)]
)
def test_the_optimum_of_any_trees_is_that_of_the_quadratic_program(
    x64, formulation, tolerance, rtol
):
    """The search of slack re-scaling leaves a gap, which the list of what it missed closes."""
    data = data_of("", False, "float64")[2]
    check_optimum(data, formulation, 5.0, enumerated(), tolerance, rtol)


def test_projective_trees_have_levels_of_errors(x64, labels="pq"):
    """Against all trees; labels cost nothing: level 0 holds the right heads with others."""
    sentences, trees, _ = data_of(labels, True, "float64")
    data = prepared(sentences, trees, loss="normalised_hamming", dtype="float64")
    model = data.problem.model
    every = [(own, tree) for own in sentences[:2] for tree in of_pairs(len(own), labels, True)]
    potentials, score, loss = (
        jax.jit(jax.vmap(each, (None, 0))) for each in (model.potentials, model.score, model.loss)
    )
    x, y = padded_pairs(data, every)  # trees of both sentences, so that one program serves both
    for seed, (sentence, tree) in enumerate(zip(sentences[:2], trees, strict=False)):
        at, own = every.index((sentence, tree)), [pair[0] is sentence for pair in every]
        one, true = (row(each, np.array([at])) for each in (x, y))
        weights = np.random.default_rng(seed).normal(size=data.encoding.features.size)
        theta = potentials({"features": jnp.asarray(weights)}, one)
        F, delta = np.asarray(score(row(theta, 0), y)), np.asarray(loss(row(true, 0), y))
        listed = Every(flat(y, 1)[own], F[own], delta[own], at - own.index(True))
        check_oracles(data.problem, theta, true, lambda _, listed=listed: listed)


def test_losses_count_words():
    sentences, trees = treebank(3, 4, 4, labels="pq")
    for loss, expected in (
        ("hamming", 1), ("labelled_hamming", 3), ("normalised_hamming", 1 / 4),
        ("normalised_labelled_hamming", 3 / 4),
    ):  # fmt: skip
        data = prepared(sentences, trees, loss=loss)
        _, y = padded(data.problem.padding, *data[1:])
        one = jax.tree.map(lambda leaf: leaf[3], y)
        other = Parse(one.heads.copy(), one.labels.copy())
        other.labels[0] = 1 - other.labels[0]
        other.heads[1], other.labels[2] = 9, 1 - other.labels[2]
        np.testing.assert_allclose(data.problem.model.loss(one, other), expected)
        assert data.problem.model.loss(one, one) == 0


def test_confidence():
    sentences, trees = treebank(4, 12, 4)
    data, random = prepared(sentences, trees, projective=False), np.random.default_rng(0)
    drawn = {"features": random.normal(size=data.encoding.features.size).astype(np.float32)}
    model = js.trained(data, drawn)
    found = js.confidence.marginals(*model.on(sentences)).probabilities
    best = js.confidence.k_best(*model.on(sentences), k=3)
    assert found[3].shape == (5, 4)
    np.testing.assert_allclose(found[3].sum(axis=0), 1, rtol=1e-5)
    scores = np.asarray(best.scores)
    assert (scores[:, 1:] <= scores[:, :-1]).all() and (scores[0, 1:] == -np.inf).all()


def test_crossing_arcs_are_lifted():
    heads = [3, 4, 0, 3, 2]
    assert crossing_arcs(heads).any()
    moved = lifted(heads)
    assert not fault_of(moved) and not crossing_arcs(moved).any()
    random = np.random.default_rng(0)
    for _ in range(200):
        heads = random.integers(0, 8, 7).tolist()
        if fault_of(heads):
            refused("heads:", lambda heads=heads: lifted(heads))
            continue
        moved = lifted(heads)
        assert not fault_of(moved) and not crossing_arcs(moved).any()
        if not crossing_arcs(heads).any():
            assert moved == heads


def test_refusals_name_the_example():
    sentences, trees = treebank(5, 6, 3)
    crossing = [[{"word": "a", "tag": "X"}] * 4], [[3, 4, 0, 3]]
    with refused(r"outputs.heads\[0\] has arcs that cross: take projective=False"):
        js.fit(*prepared(*crossing), C=1.0)
    with refused(r"outputs.heads\[2\] is no tree: word 1 hangs on a circle"):
        js.fit(*prepared(sentences, [*trees[:2], [2, 1, 0], *trees[3:]]), C=1.0)
    with refused(r"outputs.heads\[1\] is no tree: 2 words hang on the root"):
        js.fit(*prepared(sentences, [trees[0], [0, 0], *trees[2:]]), C=1.0)
    with refused(r"loss 'labelled_hamming' needs trees with labels"):
        prepared(sentences, trees, loss="labelled_hamming")
    refused("loss", lambda: prepared(sentences, trees, loss="f1"))
    refused("projective", lambda: prepared(sentences, trees, projective=1))
