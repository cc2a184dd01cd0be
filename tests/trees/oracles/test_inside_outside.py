"""Log-partition function and marginals of trees against enumeration and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import numpy as np
import pytest

from jaxstruct.trees.oracles.inside_outside import TreeMarginals, log_partition, rule_marginals
from jaxstruct.trees.potentials import TreePotentials
from tests.trees.oracles.truth import (
    OVER_SPANS,
    SHARED,
    SKEWED,
    SMALL,
    Cases,
    as_dtype,
    cases,
    grammar,
    one,
)

gradient_of_log_partition = jax.value_and_grad(log_partition, 1)


@cache
def _batched(oracle: Callable, axes: TreePotentials) -> Callable:
    return jax.jit(jax.vmap(oracle, (None, axes, 0)))


def _truth(given: Cases, n: int) -> TreeMarginals:
    """Sums over all trees of one sentence, in float64."""
    T, S, R = given.potentials.lexical.shape[1], *_sizes(given)
    length, F = int(given.length[n]), given.scores[n]
    forest = given.forests[length]
    top = F.max(initial=-np.inf)
    lexical, root, spans = np.zeros((T, S)), np.zeros(S), np.zeros((T, T, S))
    rules = np.zeros((T, T, R))
    if top == -np.inf:
        return TreeMarginals(lexical, rules, root, spans, -np.inf)
    weights = np.exp(F - top)
    p = weights / weights.sum()
    np.add.at(root, forest.tops, p)
    for t in range(length):
        np.add.at(lexical[t], forest.trees.symbols[:, t], p)
    for m in range(length - 1):
        begins, lasts = forest.trees.begins[:, m], forest.trees.ends[:, m] - 1
        np.add.at(rules, (begins, lasts, forest.trees.rules[:, m]), p)
        np.add.at(spans, (begins, lasts, forest.parents[:, m]), p)
    return TreeMarginals(lexical, rules, root, spans, top + np.log(weights.sum()))


def _sizes(given: Cases) -> tuple[int, int]:
    return given.potentials.lexical.shape[2], given.potentials.rules.shape[-1]


def _check(given: Cases, dtype: str, tolerance: float) -> None:
    arguments = given.rules, as_dtype(given.potentials, dtype), given.length
    found = jax.tree.map(np.asarray, _batched(rule_marginals, given.axes)(*arguments))
    value, gradient = _batched(gradient_of_log_partition, given.axes)(*arguments)
    assert value.dtype == dtype and found.rules.dtype == dtype
    np.testing.assert_allclose(value, found.log_partition, rtol=1e-6)
    for n in range(len(given.length)):
        truth = _truth(given, n)
        if found.rules.ndim == 2:
            truth = truth._replace(rules=truth.rules.sum(axis=(0, 1)))
        for mine, other in zip(found, truth, strict=True):
            np.testing.assert_allclose(mine[n], other, rtol=tolerance, atol=tolerance)
    for name in TreePotentials._fields:
        if getattr(gradient, name) is not None:
            np.testing.assert_array_equal(getattr(gradient, name), getattr(found, name))


@pytest.mark.parametrize("kind, size, grammars", [(OVER_SPANS, SMALL, 4), (SHARED, SKEWED, 2)])
def test_equals_enumeration(kind: str, size: tuple, grammars: int) -> None:
    """Also where potentials are -inf, where no tree is left, and with NaN beyond the length."""
    none = 0
    for seed in range(grammars):
        given = cases(kind, size, seed)
        none += sum(not (F > -np.inf).any() for F in given.scores)
        _check(given, "float32", 2e-5)
    assert none > 0 or size is SKEWED


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_float64() -> None:
    for seed in range(2):
        _check(cases(OVER_SPANS, SMALL, seed), "float64", 1e-12)


@pytest.mark.usefixtures("x64")
def test_gradient_against_finite_differences() -> None:
    """Along random directions over all sentences at once; forbidden potentials stay put."""
    given = cases(OVER_SPANS, SMALL, 0)
    potentials = as_dtype(given.potentials, "float64")
    alive = np.array([(F > -np.inf).any() for F in given.scores])
    call = _batched(gradient_of_log_partition, given.axes)
    gradient = jax.tree.map(np.asarray, call(given.rules, potentials, given.length)[1])
    random = np.random.default_rng(0)
    for _ in range(3):
        direction = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), potentials)

        def moved(step: float, direction: TreePotentials = direction) -> np.ndarray:
            new = jax.tree.map(lambda leaf, way: leaf + step * way, potentials, direction)
            return np.asarray(call(given.rules, new, given.length)[0])[alive]

        slope = (moved(1e-6) - moved(-1e-6)) / 2e-6
        products = jax.tree.map(
            lambda count, way: np.sum((count * way).reshape(len(alive), -1), 1),
            gradient,
            direction,
        )
        total = sum(jax.tree.leaves(products))[alive]
        assert np.abs(total).max() > 1
        np.testing.assert_allclose(slope, total, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shift, tolerance", [(0.0, 1e-4), (2000.0, 2e-3)])
def test_far_apart_potentials_neither_overflow_nor_vanish(shift: float, tolerance: float) -> None:
    """A top symbol 400 a rule below the others; F of 6000 is known to 5e-4 in float32."""
    given = cases(SHARED, SKEWED, 0)
    n = int(np.flatnonzero(given.length == 3)[0])
    potentials = one(as_dtype(given.potentials, "float32"), given.axes, n)
    lexical = np.nan_to_num(potentials.lexical, neginf=0.0) + shift
    lexical[:, 0] -= 300.0
    root = np.where(np.arange(7) == 1, 0.0, -np.inf).astype(np.float32)
    rules = np.where(given.rules.parents == 1, 0.0, 400.0).astype(np.float32)
    every = np.full_like(given.length, 3)  # one sentence as often as the program has them
    lexical, root = (np.stack([leaf] * len(every)) for leaf in (lexical.astype(np.float32), root))
    call = _batched(rule_marginals, given.axes)
    found = call(given.rules, TreePotentials(lexical, rules, root), every)
    found = jax.tree.map(lambda leaf: None if leaf is None else np.asarray(leaf)[0], found)
    assert float(found.log_partition) > -np.inf
    np.testing.assert_allclose(found.lexical.sum(axis=1), 1, rtol=tolerance)
    np.testing.assert_allclose(found.rules.sum(), 2, rtol=tolerance)
    assert all(np.isfinite(leaf).all() for leaf in found)


def test_long_sentences_take_the_memory_of_their_charts() -> None:
    """One chart for log Z and four for marginals, T (T + 1) / 2 by S floats each."""
    T, S, R, B = 30, 10, 40, 64
    rules = grammar(np.random.default_rng(0), S, R, False)
    shapes = TreePotentials((B, T, S), (R,), (S,), None)
    potentials = TreePotentials(*(s and jax.ShapeDtypeStruct(s, "f4") for s in shapes))
    length, axes = jax.ShapeDtypeStruct((B,), "i4"), TreePotentials(0, None, None, None)
    for oracle, charts in ((log_partition, 1), (rule_marginals, 4)):
        found = _batched(oracle, axes).lower(rules, potentials, length).compile()
        taken = found.memory_analysis().temp_size_in_bytes
        assert taken < 1.2 * charts * T * (T + 1) / 2 * S * B * 4
