"""Oracles of dependency trees against every tree of small sentences, however they are called."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2

from jaxstruct.dependencies import (
    best_tree,
    best_wrong_tree,
    k_best_trees,
    log_partition,
    marginals,
    sample_tree,
    score_tree,
)
from jaxstruct.dependencies.heads import crossing_arcs, fault_of
from jaxstruct.dependencies.inference import number_of_trees
from jaxstruct.dependencies.oracles.decoding import best_of_errors
from tests.dependencies.oracles.truth import Cases, cases, labelled_trees, listed, scores, trees
from tests.lib.enumeration import (
    check_alone,
    check_best,
    check_k_best,
    check_samples,
    pearson,
)
from tests.lib.refusals import refused

KINDS = pytest.mark.parametrize("projective", [True, False], ids=["projective", "any"])


@functools.cache
def batched(oracle, projective, **options):
    return jax.jit(jax.vmap(functools.partial(oracle, projective=projective, **options)))


def typed(given: Cases, dtype: str):
    return jnp.asarray(given.potentials, dtype), jnp.asarray(given.length)


def possible(given: Cases, projective: bool) -> Cases:
    """The cases of which some tree is allowed."""
    some = np.array([(F > -np.inf).any() for F in listed(given, projective).scores])
    return Cases(*(leaf[some] for leaf in given))


def check(given: Cases, found, projective: bool, tolerance: float) -> None:
    check_best(listed(given, projective), (found.heads, found.labels), found.score, tolerance)
    assert found.heads.dtype == jnp.int32


@pytest.mark.parametrize(("projective", "numbers"), [(True, [1, 2, 7, 30]), (False, [1, 2, 9, 64])])
def test_numbers_of_trees(projective, numbers):
    assert [len(trees(words, projective)) for words in range(1, 5)] == numbers
    assert [number_of_trees(words, projective) for words in range(1, 5)] == numbers


@KINDS
def test_ten_thousand_best_trees(projective):
    """Ties, forbidden arcs and padding; without labels."""
    given = possible(cases(0, 10_000, 4, 1), projective)
    assert len(given.length) > 9_000
    check(given, batched(best_tree, projective)(*typed(given, "float32")), projective, 1e-5)


@pytest.mark.smoke
@KINDS
def test_best_trees_with_labels(projective):
    given = possible(cases(1, 300, 4, 2), projective)
    check(given, batched(best_tree, projective)(*typed(given, "float32")), projective, 1e-5)


@pytest.mark.thorough
@KINDS
def test_best_trees_of_float64(x64, projective):
    given = possible(cases(2, 200, 5, 1), projective)
    check(given, batched(best_tree, projective)(*typed(given, "float64")), projective, 1e-12)


def test_ties_go_by_the_rules_of_the_two_algorithms():
    equal = jnp.zeros((5, 4, 1))
    found = best_tree(equal, 4, projective=True)  # first word on the root, first split of a span
    assert found.heads.tolist() == [0, 1, 2, 3]
    of_first = equal.at[1:, 0].set(-jnp.inf)  # so that no arcs form a circle: the lowest head
    assert best_tree(of_first, 4, projective=False).heads.tolist() == [0, 1, 1, 1]


@pytest.mark.thorough
@KINDS
def test_longer_sentences(projective):
    """Circles within circles: trees that no change of one arc, and no exchange of two, improves."""
    random = np.random.default_rng(3)
    potentials = random.normal(size=(20, 31, 30, 1)).astype(np.float32)
    length = random.integers(20, 31, 20).astype(np.int32)
    found = batched(best_tree, projective)(potentials, length)
    for i, words in enumerate(length):
        own, heads, score = potentials[i], np.asarray(found.heads[i, :words]), float(found.score[i])
        assert not fault_of(heads) and not (projective and crossing_arcs(heads).any())
        for word in range(words):
            for head in range(words + 1):
                changed = heads.copy()
                changed[word] = head
                if fault_of(changed) or (projective and crossing_arcs(changed).any()):
                    continue
                assert own[changed, np.arange(words), 0].sum() <= score + 1e-4


@KINDS
def test_all_forbidden(projective):
    potentials = jnp.full((5, 4, 1), -jnp.inf)
    assert best_tree(potentials, 3, projective=projective).score == -jnp.inf
    k_best = functools.partial(k_best_trees, k=2, projective=projective)
    found = jax.jit(k_best)(potentials, 3)
    assert (found.heads == -1).all() and (found.score == -jnp.inf).all()
    value, slope = jax.value_and_grad(functools.partial(log_partition, projective=projective))(
        potentials, 3
    )
    assert value == -jnp.inf and not slope.any()


@KINDS
def test_k_best_are_distinct_and_in_order(projective):
    given = cases(4, 240, 4, 2)
    run = batched(k_best_trees, projective, k=9)
    found = run(*typed(given, "float32"))
    output = found.heads, found.labels
    check_k_best(listed(given, projective), output, found.score, 1e-5)
    short = batched(k_best_trees, projective, k=4)(*typed(given, "float32"))
    np.testing.assert_array_equal(short.score, found.score[:, :4])


@KINDS
def test_the_best_wrong_tree(projective):
    given, random = cases(5, 200, 4, 2, forbidden=0.0), np.random.default_rng(5)
    T = given.potentials.shape[2]
    every = listed(given, projective)
    true = np.array([own[random.integers(len(own))] for own in every.outputs])
    run = jax.jit(jax.vmap(functools.partial(best_wrong_tree, projective=projective)))
    y = jnp.asarray(true[:, :T], jnp.int32), jnp.asarray(true[:, T:], jnp.int32)
    potentials, length = typed(given, "float32")
    found = run(potentials, y, length)
    for i, (outputs, F) in enumerate(zip(every.outputs, every.scores, strict=True)):
        wrong = (outputs != true[i]).any(axis=1)
        best = F[wrong].max(initial=-np.inf)
        np.testing.assert_allclose(found.score[i], best, atol=1e-5)
        if best > -np.inf:
            own = np.concatenate([found.heads[i], found.labels[i]])
            assert (own != true[i]).any() and (outputs == own).all(axis=1).sum() == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_best_of_every_number_of_wrong_arcs(x64, dtype):
    """Right and wrong labels of one arc, ties, forbidden arcs, padding; one by one and nested."""
    given, T = cases(10, 60, 4, 2), 4
    random = np.random.default_rng(1)
    wrong = random.random(given.potentials.shape) < 0.6
    potentials, length = typed(given, dtype)
    some, size = random.integers(0, 3, (60, T + 1)).astype(dtype), (60, T + 1)
    mixed = np.where(random.random(size) < 0.3, -np.inf, random.integers(-3, 3, size)).astype(dtype)
    alone = np.where(np.eye(T + 1), 0, -np.inf).astype(dtype)  # one number after the other
    weights = [(np.tile(row, (60, 1)), np.ones(size, dtype)) for row in alone]
    every = listed(given, True)
    for offsets, slopes in (*weights, (mixed, some)):
        arguments = potentials, wrong, length, offsets, slopes
        found = jax.jit(jax.vmap(best_of_errors))(*arguments)
        nested = jax.tree.map(lambda leaf: leaf.reshape(6, 10, *leaf.shape[1:]), arguments)
        twice = jax.vmap(jax.vmap(best_of_errors))(*nested)
        one = best_of_errors(*(leaf[7] for leaf in arguments))
        for name, leaf in found._asdict().items():
            np.testing.assert_array_equal(getattr(twice, name).reshape(leaf.shape), leaf)
            np.testing.assert_array_equal(getattr(one, name), leaf[7])
        for i, (outputs, F) in enumerate(zip(every.outputs, every.scores, strict=True)):
            words = int(length[i])
            heads, labels = outputs[:, :words], outputs[:, T : T + words]
            errors = wrong[i][heads, np.arange(words)[None], labels].sum(axis=1)
            there = F > -np.inf
            values = offsets[i, errors] + slopes[i, errors] * np.where(there, F, 0)
            values = np.where(there, values, -np.inf)
            own = np.concatenate([found.heads[i], found.labels[i]])
            if values.max() == -np.inf:
                assert (own == -1).all() and found.score[i] == -np.inf
                continue
            at = (outputs == own).all(axis=1)
            assert at.sum() == 1
            np.testing.assert_allclose(values[at], values.max(), atol=1e-5)
            np.testing.assert_allclose(found.score[i], F[at], atol=1e-5)


@KINDS
@pytest.mark.parametrize(("scale", "tolerance"), [(1, 2e-5), (100, 2e-3)])
def test_sums_equal_enumeration(projective, scale, tolerance):
    """log Z and marginals, also of potentials whose sums overflow, and with forbidden arcs."""
    given = cases(6, 300, 4, 2)
    given = given._replace(potentials=scale * given.potentials)
    found, total = batched(marginals, projective)(*typed(given, "float32"))
    for i, F in enumerate(listed(given, projective).scores):
        length = int(given.length[i])
        np.testing.assert_allclose(total[i], logsumexp(F), rtol=2e-6, atol=2e-5)
        expected = np.zeros(found.shape[1:])
        if (F > -np.inf).any():
            outputs = labelled_trees(length, 2, projective)
            P = np.exp(F - logsumexp(F))
            for p, (heads, labels) in zip(P, outputs.reshape(-1, 2, length), strict=True):
                expected[heads, np.arange(length), labels] += p
        np.testing.assert_allclose(found[i], expected, atol=tolerance)


@KINDS
def test_marginals_are_finite_differences(x64, projective):
    potentials = np.random.default_rng(7).normal(size=(6, 5, 2))
    value = jax.jit(functools.partial(log_partition, projective=projective))
    found, _ = marginals(jnp.asarray(potentials), 4, projective=projective)
    for place in [(0, 1, 0), (2, 0, 1), (4, 2, 0), (1, 3, 1), (5, 0, 0), (2, 4, 1)]:
        step = np.zeros_like(potentials)
        step[place] = 1e-5
        slope = (value(potentials + step, 4) - value(potentials - step, 4)) / 2e-5
        np.testing.assert_allclose(found[place], slope, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=(0, 2))[:4], 1, rtol=1e-12)


@KINDS
def test_samples_have_the_probabilities(projective):
    given = cases(8, 30, 3, 2)
    draw = functools.partial(sample_tree, projective=projective)
    keys = jax.random.split(jax.random.key(0), (30, 400))
    given = Cases(given.potentials.astype(np.float32), given.length, given.tied)
    some = np.array([(F > -np.inf).any() for F in listed(given, projective).scores])
    drawn = jax.jit(jax.vmap(jax.vmap(draw, (None, None, 0))))(*typed(given, "float32"), keys)
    given = Cases(*(leaf[some] for leaf in given))
    drawn = jax.tree.map(lambda leaf: np.asarray(leaf)[some], drawn)
    check_samples(listed(given, projective), drawn, 50)


@pytest.mark.thorough
@KINDS
def test_alone_as_in_a_batch_and_with_more_padding(projective):
    given = possible(cases(9, 24, 4, 2), projective)
    potentials, length = typed(given, "float32")
    together = batched(best_tree, projective)(potentials, length)
    alone = jax.jit(functools.partial(best_tree, projective=projective))
    check_alone(alone, (potentials, length), together, range(0, 20, 5))
    wider = jnp.pad(potentials, ((0, 0), (0, 3), (0, 3), (0, 0)), constant_values=7.0)
    padded = batched(best_tree, projective)(wider, length)
    np.testing.assert_array_equal(padded.heads[:, :4], together.heads)
    assert (padded.heads[:, 4:] == -1).all()
    sums = batched(log_partition, projective)
    np.testing.assert_allclose(sums(wider, length), sums(potentials, length), rtol=1e-6)


@KINDS
def test_the_derivative_of_the_score_counts_arcs(projective):
    potentials = jnp.asarray(np.random.default_rng(1).normal(size=(5, 4, 2)), jnp.float32)

    def score(potentials):
        return best_tree(potentials, 3, projective=projective).score

    found = best_tree(potentials, 3, projective=projective)
    slope = jax.grad(score)(potentials)
    assert slope.sum() == 3
    np.testing.assert_allclose(score_tree(slope, found.heads, found.labels, 3), 3)
    outputs = np.stack([found.heads[:3], found.labels[:3]]).reshape(1, -1)
    np.testing.assert_allclose(scores(np.asarray(potentials), outputs), found.score, rtol=1e-6)


def test_refusals():
    with refused(r"potentials must be \[T \+ 1, T, R\]"):
        best_tree(jnp.zeros((4, 4, 1)), 3, projective=True)
    refused("floating-point", lambda: best_tree(jnp.zeros((5, 4, 1), int), 3, projective=True))
    refused("length must be in 1..4", lambda: best_tree(jnp.zeros((5, 4, 1)), 0, projective=True))
    refused("k must", lambda: k_best_trees(jnp.zeros((5, 4, 1)), 3, 0, projective=True))


@pytest.mark.thorough
@KINDS
@pytest.mark.parametrize("scale", [0, 1])
def test_long_samples_are_trees_and_have_the_marginals(projective, scale):
    """150 words and 50 labels: every alternative has a small probability, and none is cut off.

    The potentials are a(h, m) + c(r), so that all labels are draws of one distribution.
    """
    T, R, draws = 150, 50, 128
    random = np.random.default_rng(11)
    arcs, kinds = scale * random.normal(size=(T + 1, T, 1)), scale * random.normal(size=R)
    potentials = jnp.asarray(arcs + kinds, jnp.float32)
    keys = jax.random.split(jax.random.key(1), draws)
    draw = functools.partial(sample_tree, projective=projective)
    heads, labels = map(np.asarray, jax.jit(jax.vmap(draw, (None, None, 0)))(potentials, T, keys))
    for own in heads:
        assert not fault_of(own) and not (projective and crossing_arcs(own).any())
    P = np.asarray(marginals(potentials, T, projective=projective)[0], np.float64).sum(axis=2)
    groups = np.arange(T + 1) // 8
    tables = [(np.bincount(labels.reshape(-1), minlength=R), np.exp(kinds) * T)]
    for word in (0, 75, 149):
        seen = np.bincount(groups[heads[:, word]], minlength=groups[-1] + 1)
        tables.append((seen, np.bincount(groups, P[:, word])))
    for seen, shares in tables:
        found = pearson(seen, shares * seen.sum() / shares.sum())
        assert 1e-4 < chi2.sf(*found) < 1 - 1e-4
