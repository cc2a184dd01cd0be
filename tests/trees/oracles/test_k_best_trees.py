"""The k best trees against the enumeration of all trees."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import jax
import numpy as np
import pytest

from jaxstruct.trees.oracles import k_best_trees as oracle
from jaxstruct.trees.oracles.charts import rank_pairs
from jaxstruct.trees.oracles.k_best_trees import k_best_trees, sentence_bytes
from jaxstruct.trees.oracles.recursion import FEW
from jaxstruct.trees.potentials import Parsed, TreePotentials
from tests.core.derivatives import assert_derivatives
from tests.lib.enumeration import check_alone, check_k_best
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
    grammar,
    listed,
    one,
    same_tree,
    tree_of,
)


@cache
def _batched(k: int, axes: TreePotentials) -> Callable:
    return jax.jit(jax.vmap(partial(k_best_trees, k=k), (None, axes, 0)))


def _parsed(given: Cases, k: int, dtype: str = "float32") -> Parsed:
    potentials = as_dtype(given.potentials, dtype)
    return jax.tree.map(np.asarray, _batched(k, given.axes)(given.rules, potentials, given.length))


def _check(given: Cases, parsed: Parsed, tied: bool, tolerance: float) -> None:
    """The first of equals is that of `cky`."""
    check_k_best(listed(given, tied), parsed.tree, parsed.score, tolerance, ties=1)


@pytest.mark.parametrize("kind, size", thorough_after(1, [(OVER_SPANS, SMALL), (SHARED, SKEWED)]))
def test_five_best(kind: str, size: tuple) -> None:
    """All distinct and in order; odd seeds have many ties, whose first is the one of `cky`."""
    for seed in repeats(10, 3):
        given = cases(kind, size, seed)
        parsed = _parsed(given, 5)
        assert parsed.score.dtype == np.float32 and parsed.tree.rules.dtype == np.int32
        _check(given, parsed, seed % 2 == 1, 1e-5)


@pytest.mark.parametrize("kind, size", thorough_after(1, [(SHARED, SKEWED), (OVER_SPANS, SMALL)]))
def test_more_are_sorted_in_the_same_order(kind: str, size: tuple, monkeypatch) -> None:
    """Those of many come first among those of more, ties included, block by block or at once."""
    one = sentence_bytes(40, size.tokens, size.symbols, size.rules, np.dtype("f4"))
    monkeypatch.setattr(oracle, "MOST_BYTES", 3 * one)
    for seed in repeats(6, 2):
        given = cases(kind, size, seed)
        few, many = _parsed(given, 5), _parsed(given, 40)
        _check(given, many, seed % 2 == 1, 1e-5)
        np.testing.assert_array_equal(many.score[:, :5], few.score)
        for mine, other in zip(many.tree, few.tree, strict=True):
            np.testing.assert_array_equal(mine[:, :5], other)


@pytest.mark.thorough
def test_a_wide_batch_takes_no_more_memory_than_is_allowed(monkeypatch) -> None:
    """By what the compiler lays out; long sentences are charts, large grammars are merges."""
    monkeypatch.setattr(oracle, "MOST_BYTES", 2**22)
    for k, S, R, T in ((50, 5, 20, 20), (20, 8, 400, 4)):
        rules = grammar(np.random.default_rng(0), S, R, False)
        shapes = TreePotentials((90, T, S), (R,), (S,), None)
        potentials = TreePotentials(*(s and jax.ShapeDtypeStruct(s, "f4") for s in shapes))
        length = jax.ShapeDtypeStruct((90,), "i4")
        assert 90 * sentence_bytes(k, T, S, R, np.dtype("f4")) > 2 * oracle.MOST_BYTES
        call = jax.vmap(partial(k_best_trees, k=k), (None, TreePotentials(0, None, None, None), 0))
        found = jax.jit(call).lower(rules, potentials, length).compile().memory_analysis()
        assert found.temp_size_in_bytes < 1.2 * oracle.MOST_BYTES + found.output_size_in_bytes


def test_the_program_of_many_trees_is_as_large_as_that_of_few() -> None:
    """Merges that were written out grew with k^2: compiling them took gigabytes and hours."""
    given = cases(OVER_SPANS, SMALL, 2)
    potentials = as_dtype(given.potentials, "float32")

    def lines(k: int) -> int:
        lowered = _batched(k, given.axes).lower(given.rules, potentials, given.length)
        return lowered.as_text().count("\n")

    assert lines(300) < 1.1 * lines(30) < 1.1 * lines(FEW)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_two_best_are_the_first_of_five() -> None:
    """In float64; integer potentials, of odd seeds, are exact in float32 as well."""
    for seed in range(6):
        given = cases(OVER_SPANS, SMALL, seed)
        two = _parsed(given, 2, "float64")
        assert two.score.dtype == np.float64
        _check(given, two, seed % 2 == 1, 1e-13)
        if seed % 2 == 0:
            continue
        with jax.enable_x64(False):  # the program of `test_five_best`
            five = _parsed(given, 5)
        np.testing.assert_array_equal(two.score, five.score[:, :2])
        for n in range(len(given.length)):
            for q in range(2):
                assert same_tree(tree_of(two.tree, n, q), tree_of(five.tree, n, q))


@pytest.mark.thorough
def test_one_sentence_alone() -> None:
    given = cases(OVER_SPANS, SMALL, 2)
    potentials, batch = as_dtype(given.potentials, "float32"), _parsed(given, 5)
    check_alone(
        jax.jit(partial(k_best_trees, k=5)),
        lambda i: (given.rules, one(potentials, given.axes, i), given.length[i]),
        batch,
        [3],
    )


def test_pairs_of_ranks_that_may_be_among_the_best() -> None:
    assert rank_pairs(3) == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]


def test_k_below_one_is_refused() -> None:
    given = cases(OVER_SPANS, SMALL, 2)
    with refused("k must be at least 1, got 0"):
        k_best_trees(given.rules, one(given.potentials, given.axes, 0), 2, 0)


@pytest.mark.usefixtures("x64")
def test_derivatives_against_differences() -> None:
    given = cases(SHARED, SMALL, 0)
    potentials = as_dtype(given.potentials, "float64")
    call = _batched(3, given.axes)
    assert_derivatives(lambda p: call(given.rules, p, given.length).score, potentials)
