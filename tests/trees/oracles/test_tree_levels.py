"""The best tree of every level against the enumeration of all trees."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import jax
import numpy as np
import pytest

from jaxstruct.trees.oracles.chart_levels import LevelSizes, NodeCounts, capped_sizes, inner_sizes
from jaxstruct.trees.oracles.tree_levels import (
    BestTreeLevel,
    best_of_tree_levels,
    level_trees,
    tree_levels,
)
from jaxstruct.trees.potentials import Parsed, TreePotentials
from tests.core.derivatives import assert_derivatives
from tests.lib.refusals import refused
from tests.lib.thorough import repeats, thorough_after
from tests.trees.oracles.truth import (
    OVER_SPANS,
    SHARED,
    SKEWED,
    SMALL,
    Cases,
    as_dtype,
    cases,
    node_sums,
    one,
    places,
    tree_of,
)

T, S = SMALL.tokens, SMALL.symbols
SHORT = SMALL._replace(tokens=4)
"""Where levels are pairs: most of the time goes by in tracing back a tree for each of them."""


@cache
def _batched(oracle: Callable, sizes: LevelSizes, axes: TreePotentials, extra: int) -> Callable:
    def one_sentence(rules, potentials, matched, predicted, length, *rest):
        counts = NodeCounts(matched, predicted)
        return oracle(rules, potentials, counts, length, sizes, *rest)

    return jax.jit(jax.vmap(one_sentence, (None, axes, 0, None, 0) + (0,) * extra))


def _called(oracle, sizes, given: Cases, counts: NodeCounts, *rest, dtype: str = "float32"):
    potentials = as_dtype(given.potentials, dtype)
    call = _batched(oracle, sizes, given.axes, len(rest))
    found = call(given.rules, potentials, *counts, given.length, *rest)
    return jax.tree.map(np.asarray, found)


def _true_trees(given: Cases, seed: int) -> tuple[list[int], np.ndarray]:
    """(its place among all trees, [N, T, T, S] its nodes) of a random tree of each sentence."""
    random = np.random.default_rng([seed, 1])
    symbols, tokens = given.potentials.lexical.shape[2], given.potentials.lexical.shape[1]
    chosen, spans = [], np.zeros((len(given.length), tokens, tokens, symbols), bool)
    for n, length in enumerate(given.length):
        forest = given.forests[int(length)]
        a = int(random.integers(max(1, len(forest.tops)))) if len(forest.tops) else -1
        chosen.append(a)
        if a >= 0:
            own, real = forest.trees, np.arange(length)
            spans[n, real, real, own.symbols[a, :length]] = True
            inner = own.rules[a] >= 0
            ends = own.ends[a, inner] - 1
            spans[n, own.begins[a, inner], ends, forest.parents[a, inner]] = True
    return chosen, spans


def _inner(spans: np.ndarray) -> np.ndarray:
    return spans & ~np.eye(spans.shape[1], dtype=bool)[None, :, :, None]


def _level_of(given: Cases, n: int, counts: NodeCounts, shape: tuple[int, ...]) -> np.ndarray:
    """[A] the flat level of each tree of a sentence; -1 where it has none."""
    length = int(given.length[n])
    forest = given.forests[length]
    matched = node_sums(np.asarray(counts.matched[n], int), forest, length)
    matched = np.minimum(matched, shape[-1] - 1)
    if counts.predicted is None:
        return matched
    every = np.broadcast_to(counts.predicted, counts.matched[n].shape)
    predicted = node_sums(every, forest, length)
    return np.where(predicted < shape[0], predicted * shape[1] + matched, -1)


def _best_by_level(F: np.ndarray, level: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    best = np.full(int(np.prod(shape)), -np.inf)
    np.maximum.at(best, level[level >= 0], F[level >= 0])
    return best


def _check_trees(given: Cases, counts: NodeCounts, parsed: Parsed, tolerance: float) -> None:
    """Every level's score is the best, and its tree is a tree of that level with that score."""
    shape, close = parsed.score.shape[1:], dict(rtol=tolerance, atol=tolerance)
    for n, F in enumerate(given.scores):
        levels = _level_of(given, n, counts, shape)
        best = _best_by_level(F, levels, shape)
        np.testing.assert_allclose(parsed.score[n].ravel(), best, **close)
        trees = [leaf[n].reshape(len(best), -1) for leaf in parsed.tree]
        assert all((leaf[best == -np.inf] == -1).all() for leaf in trees)
        forest, real = given.forests[int(given.length[n])], np.flatnonzero(best > -np.inf)
        found = [places(forest, tuple(leaf[flat] for leaf in trees)) for flat in real]
        assert all(len(place) == 1 for place in found)
        found = np.concatenate([np.zeros(0, int), *found])
        np.testing.assert_array_equal(levels[found], real)
        np.testing.assert_allclose(F[found], best[real], **close)


def _inner_counts(given: Cases, seed: int) -> tuple[NodeCounts, LevelSizes]:
    return NodeCounts(_inner(_true_trees(given, seed)[1])), inner_sizes(
        given.potentials.lexical.shape[1]
    )


def _pair_counts(given: Cases, seed: int) -> tuple[NodeCounts, LevelSizes]:
    """Matches of 0 to 2 at any node, tokens too, never more than what is predicted there."""
    random = np.random.default_rng([seed, 2])
    tokens, symbols = given.potentials.lexical.shape[1:]
    predicted = np.arange(symbols, dtype=np.int32)[::-1] % 3
    drawn = random.integers(0, 3, (len(given.length), tokens, tokens, symbols))
    matched = np.minimum(drawn, predicted).astype(np.int8)
    most = tuple(2 * (2 * w - 1) + 1 for w in range(1, tokens + 1))
    return NodeCounts(matched, predicted), LevelSizes(most, most)


@pytest.mark.parametrize("kind, size", thorough_after(1, [(OVER_SPANS, SMALL), (SHARED, SKEWED)]))
def test_matched_inner_nodes(kind: str, size: tuple) -> None:
    for seed in repeats(8, 2):
        given = cases(kind, size, seed)
        counts, sizes = _inner_counts(given, seed)
        parsed = _called(level_trees, sizes, given, counts)
        assert parsed.score.dtype == np.float32 and parsed.tree.rules.dtype == np.int32
        _check_trees(given, counts, parsed, 1e-5)
        if kind == OVER_SPANS and seed < 2:
            alone = _called(tree_levels, sizes, given, counts)
            np.testing.assert_array_equal(alone, parsed.score)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_any_counts_up_to_a_cap_in_float64() -> None:
    """Counts of 0 to 2 at any node; the last level holds all trees with at least three."""
    sizes = capped_sizes(T, 3)
    for seed in range(6):
        given = cases(OVER_SPANS, SMALL, seed)
        matched = np.random.default_rng([seed, 3]).integers(0, 3, (50, T, T, S)).astype(np.int32)
        counts = NodeCounts(matched)
        parsed = _called(level_trees, sizes, given, counts, dtype="float64")
        assert parsed.score.dtype == np.float64
        _check_trees(given, counts, parsed, 1e-13)


@pytest.mark.parametrize(
    "kind, size, cap", thorough_after(1, [(OVER_SPANS, SHORT, None), (SHARED, SKEWED, 3)])
)
def test_every_pair_of_matched_and_predicted(kind: str, size: tuple, cap: int | None) -> None:
    """Also with a cap of the matched ones: the last of them holds all trees with at least two."""
    for seed in repeats(5, 2):
        given = cases(kind, size, seed)
        counts, sizes = _pair_counts(given, seed)
        if cap:
            sizes = LevelSizes((cap,) * size.tokens, sizes.predicted)
        _check_trees(given, counts, _called(level_trees, sizes, given, counts), 1e-5)


def _check_best(
    given: Cases, counts: NodeCounts, found: BestTreeLevel, offsets, slopes, valid
) -> None:
    shape = offsets.shape[1:]
    for n in range(len(given.length)):
        level = _level_of(given, n, counts, shape)
        best = _best_by_level(given.scores[n], level, shape)
        usable = valid[n].ravel() & (best > -np.inf) & (offsets[n].ravel() > -np.inf)
        tree = tree_of(found.tree, n)
        if not usable.any():
            assert found.value[n] == -np.inf and all((leaf == -1).all() for leaf in tree)
            assert found.score[n] == -np.inf and found.matched[n] == found.predicted[n] == 0
            continue
        safe = np.where(usable, best, 0)
        values = np.where(usable, offsets[n].ravel() + slopes[n].ravel() * safe, -np.inf)
        np.testing.assert_allclose(found.value[n], values.max(), rtol=1e-5, atol=1e-5)
        (place,) = places(given.forests[int(given.length[n])], tree)
        level = level[place]
        assert level == found.predicted[n] * shape[-1] + found.matched[n]
        np.testing.assert_allclose(values[level], values.max(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.score[n], given.scores[n][place], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [_inner_counts, _pair_counts])
def test_best_of_levels(make: Callable) -> None:
    random = np.random.default_rng(5)
    for seed in repeats(4, 2):
        given = cases(OVER_SPANS, SMALL, seed)
        counts, sizes = make(given, seed)
        shape = (
            (sizes.matched[-1],)
            if sizes.predicted is None
            else (sizes.predicted[-1], sizes.matched[-1])
        )
        shape = (50, *shape)
        offsets = np.where(random.random(shape) < 0.2, -np.inf, random.normal(size=shape))
        slopes, valid = random.random(shape), random.random(shape) < 0.8
        found = _called(best_of_tree_levels, sizes, given, counts, offsets, slopes, valid)
        _check_best(given, counts, found, offsets, slopes, valid)


@pytest.mark.thorough
def test_the_best_tree_that_is_not_the_true_one() -> None:
    """Misses capped at 1: the oracle of the zero-one loss."""
    sizes, offsets, slopes = capped_sizes(T, 1), np.array([-np.inf, 0.0]), np.array([0.0, 1.0])
    others = 0
    for seed in range(6):
        given = cases(SHARED, SMALL, seed)
        chosen, spans = _true_trees(given, seed)
        rest = (np.tile(part, (50, 1)) for part in (offsets, slopes))
        found = _called(best_of_tree_levels, sizes, given, NodeCounts(~spans), *rest)
        for n, true in enumerate(chosen):
            if true < 0:
                continue
            F = np.delete(given.scores[n], true).max(initial=-np.inf)
            np.testing.assert_allclose(found.score[n], F, rtol=1e-5, atol=1e-5)
            if F > -np.inf:
                (place,) = places(given.forests[int(given.length[n])], tree_of(found.tree, n))
                assert place != true
                others += 1
    assert others > 100


@pytest.mark.thorough
def test_one_sentence_alone() -> None:
    given = cases(OVER_SPANS, SMALL, 2)
    counts, sizes = _inner_counts(given, 2)
    batch = _called(tree_levels, sizes, given, counts)
    potentials = one(as_dtype(given.potentials, "float32"), given.axes, 5)
    alone = jax.jit(tree_levels, static_argnums=4)(
        given.rules, potentials, NodeCounts(counts.matched[5]), given.length[5], sizes
    )
    np.testing.assert_array_equal(alone, batch[5])


@pytest.mark.parametrize("counts, sizes, message", [
    (NodeCounts(np.zeros((T, S), int)), inner_sizes(T), "counts.matched must be"),
    (NodeCounts(np.zeros((T, T, S), int), np.zeros(S, int)), inner_sizes(T), "both be given"),
    (NodeCounts(np.zeros((T, T, S), int)), inner_sizes(T - 1), "sizes.matched must be T = 5"),
    (NodeCounts(np.zeros((T, T, S), int)), LevelSizes((3, 2, 3, 4, 5)), "rising"),
])  # fmt: skip
def test_bad_input(counts, sizes, message) -> None:
    given = cases(OVER_SPANS, SMALL, 2)
    potentials = one(given.potentials, given.axes, 0)
    refused(message, tree_levels, given.rules, potentials, counts, 2, sizes)


def test_offsets_must_have_the_shape_of_the_levels() -> None:
    given = cases(OVER_SPANS, SMALL, 2)
    call = partial(best_of_tree_levels, given.rules, one(given.potentials, given.axes, 0))
    with refused(r"must all be \[5\]"):
        call(NodeCounts(np.zeros((T, T, S), int)), 2, inner_sizes(T), np.zeros(4), np.zeros(4))
    with refused("counts.matched must be integers, got float"):
        call(NodeCounts(np.zeros((T, T, S))), 2, inner_sizes(T), np.zeros(5), np.zeros(5))


def _scores_of(counted: Callable) -> tuple[Callable, TreePotentials, tuple[int, ...]]:
    """((oracle, potentials, *rest) -> what it finds, potentials, shape of the levels)."""
    given = cases(SHARED, SMALL, 0)
    counts, sizes = counted(given, 0)

    def called(oracle: Callable, potentials: TreePotentials, *rest: np.ndarray):
        call = _batched(oracle, sizes, given.axes, len(rest))
        return call(given.rules, potentials, *counts, given.length, *rest)

    most = [each[-1] for each in (sizes.predicted, sizes.matched) if each is not None]
    return called, as_dtype(given.potentials, "float64"), (len(given.length), *most)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_derivatives_of_levels_against_differences() -> None:
    """The scores of all levels; they have the same derivative with their trees."""
    called, potentials, shape = _scores_of(_inner_counts)
    assert_derivatives(partial(called, tree_levels), potentials)
    cotangent = np.random.default_rng(1).normal(size=shape)

    @jax.jit
    def gradients(p: TreePotentials) -> tuple:
        both = (partial(called, tree_levels), lambda p: called(level_trees, p).score)
        return tuple(jax.vjp(scores, p)[1](cotangent)[0] for scores in both)

    jax.tree.map(np.testing.assert_array_equal, *gradients(potentials))


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_derivatives_of_the_best_level_against_differences() -> None:
    """Of its score, and of its value by potentials, offsets and slopes."""
    called, potentials, shape = _scores_of(_pair_counts)
    random = np.random.default_rng(0)
    offsets, slopes = random.normal(size=shape), random.random(shape)
    offsets[random.random(shape) < 0.2] = -np.inf

    def best(given: tuple) -> tuple:
        found = called(best_of_tree_levels, *given)
        return found.score, found.value

    assert_derivatives(best, (potentials, offsets, slopes))
