"""All that oracles say of a sentence, one program, against every dependency tree of small ones."""

from __future__ import annotations

import functools
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
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
from jaxstruct.dependencies.example_checks import crossing_arcs, fault_of
from jaxstruct.dependencies.oracles.decoding import Decoded, best_of_errors
from jaxstruct.dependencies.structure import number_of_trees
from tests.dependencies.oracles.truth import cases, labelled_trees, listed, trees
from tests.lib.enumeration import (
    Listed,
    check_best,
    check_best_wrong,
    check_k_best,
    check_levels,
    check_samples,
    check_sums,
    check_used,
    flat,
    pearson,
    row,
    with_garbage,
)
from tests.lib.refusals import refused
from tests.lib.thorough import repeats

KINDS = pytest.mark.parametrize("projective", [True, False], ids=["projective", "any"])
N, T, R, K, DRAWS = len(repeats(400, 160)), 4, 2, 6, 300


class Asked(NamedTuple):
    """Of each sentence [N, ..]: its length, which scores count, heads and labels of y, wrong arcs
    [T + 1, T, R], and of every number of them [T + 1] an offset and a slope."""

    length: np.ndarray
    above: np.ndarray
    y: tuple
    wrong: np.ndarray
    offsets: np.ndarray
    slopes: np.ndarray


def answers(potentials: jax.Array, asks: Asked, projective: bool) -> dict:
    """All that is said of one sentence."""
    given, kind = (potentials, asks.length), dict(projective=projective)

    def best(potentials: jax.Array) -> tuple:
        found = best_tree(potentials, asks.length, **kind)
        return found.score, found

    (_, of_best), used = jax.value_and_grad(best, has_aux=True)(potentials)
    found = {
        "best": of_best,
        "again": jax.value_and_grad(score_tree)(potentials, *of_best[:2], asks.length),
        "used": used,
        "k best": k_best_trees(*given, K, asks.above, **kind),
        "wrong": best_wrong_tree(potentials, asks.y, asks.length, **kind),
        "sums": jax.value_and_grad(partial(log_partition, length=asks.length, **kind))(potentials),
        "marginals": marginals(*given, **kind),
    }
    if projective:
        alone = jnp.where(jnp.eye(T + 1, dtype=bool), 0, -jnp.inf)  # one number after the other
        of_errors = jax.vmap(partial(best_of_errors, potentials, asks.wrong, asks.length))
        every = of_errors(
            jnp.concatenate([alone, asks.offsets[None]]),
            jnp.concatenate([jnp.ones_like(alone), asks.slopes[None]]),
        )
        found["levels"], found["mixed"] = row(every, slice(T + 1)), row(every, T + 1)
    return found


@functools.cache
def together(projective: bool):
    return jax.jit(jax.vmap(partial(answers, projective=projective)))


def drawing(projective: bool):
    """(potentials, lengths, keys [N, draws]) -> samples; optimised, as they run long."""
    draw = jax.vmap(partial(sample_tree, projective=projective), (None, None, 0))
    return jax.jit(jax.vmap(draw), compiler_options={"xla_backend_optimization_level": 1})


@functools.cache
def uses_of(length: int, projective: bool) -> np.ndarray:
    """[K, P] how often each tree of so many words uses each arc."""
    outputs = labelled_trees(length, R, projective).reshape(-1, 2, length)
    found, at = np.zeros((len(outputs), T + 1, T, R)), np.arange(len(outputs))
    for word in range(length):
        found[at, outputs[:, 0, word], word, outputs[:, 1, word]] += 1
    return flat(found, 1)


def check_mixed(
    every: Listed, levels: list[np.ndarray], asks: Asked, found: Decoded, tolerance: float
) -> None:
    """The tree of the best number of wrong arcs, each number with an offset and a slope."""
    for i, F in enumerate(every.scores):
        there = F > -np.inf
        values = asks.slopes[i, levels[i]] * np.where(there, F, 0) + asks.offsets[i, levels[i]]
        values = np.where(there, values, -np.inf)
        own = np.concatenate([found.heads[i], found.labels[i]])
        if values.max() == -np.inf:
            assert (own == -1).all() and found.score[i] == -np.inf
            continue
        (at,) = np.flatnonzero((every.outputs[i] == own).all(axis=1))
        np.testing.assert_allclose(values[at], values.max(), atol=10 * tolerance)
        np.testing.assert_allclose(found.score[i], F[at], atol=tolerance)


@pytest.mark.parametrize(("projective", "dtype"), [(True, "float32"), (False, "float64")])
def test_against_enumeration(projective: bool, dtype: str) -> None:
    """Ties, forbidden arcs, garbage where there is none; the first sentence has no tree."""
    given, random = cases(1, N, T, R), np.random.default_rng(5)
    potentials = given.potentials.copy()
    potentials[0, 1:] = potentials[0, 0] = -np.inf
    given = given._replace(potentials=potentials)
    every = listed(given, projective)

    def uses(i: int) -> np.ndarray:
        return uses_of(int(given.length[i]), projective)

    true = np.array([own[random.integers(len(own))] for own in every.outputs], np.int32)
    words, heads = np.arange(T), np.arange(T + 1)[:, None]
    length = given.length[:, None, None]
    real = ((words < length) & (heads <= length) & (heads != words + 1))[..., None]
    wrong = random.random(potentials.shape) < 0.6
    offsets = random.integers(-3, 3, (N, T + 1)).astype(dtype)
    offsets[random.random((N, T + 1)) < 0.3] = -np.inf
    slopes = random.integers(0, 3, (N, T + 1)).astype(dtype)
    asks = Asked(
        given.length, np.full(N, -np.inf, dtype), (true[:, :T], true[:, T:]), wrong, offsets,
        slopes,
    )  # fmt: skip
    tolerance, of_sums = (1e-5, 2e-5) if dtype == "float32" else (1e-12, 1e-11)
    with jax.enable_x64(dtype == "float64"):
        run = together(projective)
        found, large = (  # exp overflows
            jax.device_get(run(with_garbage((by * potentials).astype(dtype), real), own))
            for by, own in ((1, asks), (100, asks._replace(above=np.full(N, 50, dtype))))
        )
        keys = jax.random.split(jax.random.key(0), (N, DRAWS))
        draw = drawing(projective)
        drawn = draw(with_garbage(potentials.astype(dtype), real), given.length, keys)
    types = {leaf.dtype for leaf in jax.tree.leaves(found)}
    assert types == {np.dtype(dtype), np.dtype("int32")}
    best, ranked, above = found["best"], found["k best"], large["k best"]
    empty = check_best(every, (best.heads, best.labels), best.score, tolerance)
    assert best.score[0] == -np.inf and 0 < empty < N // 10
    there = best.score > -np.inf
    again, slope = found["again"]
    np.testing.assert_allclose(again[there], best.score[there], rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(slope[there], found["used"][there])
    check_k_best(every, (ranked.heads, ranked.labels), ranked.score, tolerance)
    wrong_tree = found["wrong"]
    output = wrong_tree.heads, wrong_tree.labels
    check_best_wrong(every, true, output, wrong_tree.score, tolerance)
    scaled = Listed(every.outputs, [100 * F for F in every.scores], every.tied)
    stay = scaled._replace(scores=[np.where(F > 50, F, -np.inf) for F in scaled.scores])
    check_k_best(stay, (above.heads, above.labels), above.score, tolerance)
    for listing, said, room in ((every, found, 1), (scaled, large, 100)):
        for slope, log_z in (said["sums"][::-1], said["marginals"]):
            check_sums(listing, uses, log_z, slope, of_sums / 10, of_sums, room * of_sums)
        output = said["best"].heads, said["best"].labels
        check_used(listing, uses, output, said["used"], of_none=False)
    check_samples(every, drawn)
    if projective:
        levels = []
        for i, outputs in enumerate(every.outputs):
            words = np.arange(asks.length[i])
            at = outputs[:, words], words[None], outputs[:, T + words]
            levels.append(wrong[i][at].sum(axis=1))
        of_levels = found["levels"]
        output = of_levels.heads, of_levels.labels
        check_levels(every, levels, output, of_levels.score, tolerance)
        check_mixed(every, levels, asks, found["mixed"], tolerance)


@pytest.mark.smoke
@pytest.mark.parametrize(("projective", "numbers"), [(True, [1, 2, 7, 30]), (False, [1, 2, 9, 64])])
def test_numbers_of_trees(projective, numbers):
    assert [len(trees(words, projective)) for words in range(1, 5)] == numbers
    assert [number_of_trees(words, projective) for words in range(1, 5)] == numbers


@functools.cache
def decoding(projective: bool):
    return jax.jit(jax.vmap(partial(best_tree, projective=projective)))


def test_ties_go_by_the_rules_of_the_two_algorithms():
    equal, four = np.zeros((10, 26, 25, 1), np.float32), np.full(10, 4, np.int32)
    found = decoding(True)(equal, four)  # first word on the root, first split of a span
    assert found.heads[0, :4].tolist() == [0, 1, 2, 3]
    equal[:, 1:, 0] = -np.inf  # so that no arcs form a circle: the lowest head
    found = decoding(False)(equal, four)
    assert found.heads[0, :4].tolist() == [0, 1, 1, 1]
    arcs = np.arange(20, dtype=np.float32).reshape(5, 4, 1)
    own = found.heads[0, :4], found.labels[0, :4]
    assert jax.jit(score_tree)(arcs, *own, 3) == 0 + 5 + 6


@pytest.mark.thorough
@KINDS
def test_longer_sentences(projective):
    """Circles within circles: trees that no change of one arc, and no exchange of two, improves."""
    random = np.random.default_rng(3)
    potentials = random.normal(size=(10, 26, 25, 1)).astype(np.float32)
    length = random.integers(18, 26, 10).astype(np.int32)
    found = decoding(projective)(potentials, length)
    for i, words in enumerate(length):
        own, heads, score = potentials[i], np.asarray(found.heads[i, :words]), float(found.score[i])
        assert not fault_of(heads) and not (projective and crossing_arcs(heads).any())
        for word, head in np.ndindex(words, words + 1):
            changed = heads.copy()
            changed[word] = head
            if own[changed, np.arange(words), 0].sum() > score + 1e-4:
                assert fault_of(changed) or (projective and crossing_arcs(changed).any())


@pytest.mark.parametrize(("potentials", "length", "options", "words"), [
    (jnp.zeros((4, 4, 1)), 3, {}, r"potentials must be \[T \+ 1, T, R\]"),
    (jnp.zeros((5, 4, 1), int), 3, {}, "floating-point"),
    (jnp.zeros((5, 4, 1)), 0, {}, "length must be in 1..4"),
    (jnp.zeros((5, 4, 1)), 3, {"k": 0}, "k must"),
])  # fmt: skip
def test_refusals(potentials, length, options, words):
    call = k_best_trees if options else best_tree
    refused(words, call, potentials, length, projective=True, **options)


@pytest.mark.thorough
@KINDS
def test_long_samples_are_trees_and_have_the_marginals(projective):
    """100 words and 50 labels: every alternative has a small probability, and none is cut off.

    The potentials are a(h, m) + c(r), so that all labels are draws of one distribution.
    """
    T, R, draws = 100, 50, 128
    random = np.random.default_rng(11)
    arcs, kinds = random.normal(size=(T + 1, T, 1)), random.normal(size=R)
    draw = jax.vmap(partial(sample_tree, projective=projective), (None, None, 0))

    # Any trees run long: five times as fast, with a program that compiles twice as long.
    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": int(not projective)})
    def said(potentials):
        keys = jax.random.split(jax.random.key(1), draws)
        return draw(potentials, T, keys), marginals(potentials, T, projective=projective)[0]

    drawn, tables = said(jnp.asarray(arcs + kinds, jnp.float32))
    heads, labels = map(np.asarray, drawn)
    for own in heads:
        assert not fault_of(own) and not (projective and crossing_arcs(own).any())
    P = np.asarray(tables, np.float64).sum(axis=2)
    groups = np.arange(T + 1) // 8
    shares = [(np.bincount(labels.reshape(-1), minlength=R), np.exp(kinds) * T)]
    for word in (0, 50, 99):
        seen = np.bincount(groups[heads[:, word]], minlength=groups[-1] + 1)
        shares.append((seen, np.bincount(groups, P[:, word])))
    for seen, share in shares:
        found = pearson(seen, share * seen.sum() / share.sum())
        assert 1e-4 < chi2.sf(*found) < 1 - 1e-4
