"""CKY against the enumeration of all trees of small grammars."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.types import BinaryTree
from jaxstruct.trees.oracles.cky import cky
from jaxstruct.trees.potentials import (
    GrammarRules,
    Parsed,
    TreePotentials,
    score_tree,
)
from tests.core.derivatives import assert_derivatives
from tests.lib.enumeration import check_alone, check_best
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.trees.oracles.truth import (
    OVER_SPANS,
    OWN,
    SHARED,
    SKEWED,
    SMALL,
    Cases,
    as_dtype,
    cases,
    listed,
    one,
)

KINDS = [(SHARED, SMALL), (OVER_SPANS, SMALL), (SHARED, SKEWED), (OWN, SKEWED)]
GRAMMARS = 20


@cache
def _batched(oracle: Callable, axes: TreePotentials) -> Callable:
    return jax.jit(jax.vmap(oracle, (None, axes, 0)))


def _parsed(given: Cases, dtype: str = "float32") -> Parsed:
    found = _batched(cky, given.axes)(given.rules, as_dtype(given.potentials, dtype), given.length)
    return jax.tree.map(np.asarray, found)


def _check(given: Cases, parsed: Parsed, tied: bool, tolerance: float) -> int:
    """Every tree is the preferred one of the best; how many sentences have no parse."""
    return check_best(listed(given, tied), parsed.tree, parsed.score, tolerance)


@pytest.mark.parametrize("kind, size", thorough_after(2, KINDS))
def test_best_trees_and_ties(kind: str, size: tuple) -> None:
    """Ties go to the lowest top symbol, then in preorder to the lowest rule, the lowest split."""
    none = 0
    for seed in range(GRAMMARS):
        given = cases(kind, size, seed)
        parsed = _parsed(given)
        assert parsed.score.dtype == np.float32
        assert {leaf.dtype for leaf in parsed.tree} == {np.dtype("int32")}
        none += _check(given, parsed, seed % 2 == 1, 1e-5)
    assert none > 5 or size is SKEWED


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("kind, size", KINDS[1:2])
def test_float64(kind: str, size: tuple) -> None:
    for seed in range(4):
        given = cases(kind, size, seed)
        parsed = _parsed(given, "float64")
        assert parsed.score.dtype == np.float64
        _check(given, parsed, seed % 2 == 1, 1e-13)


@pytest.mark.parametrize("kind, size", KINDS[1:2])
def test_score_of_the_tree(kind: str, size: tuple) -> None:
    given = cases(kind, size, 2)
    arguments = given.rules, as_dtype(given.potentials, "float32"), given.length
    parsed = _parsed(given)
    scored = jax.jit(jax.vmap(score_tree, (None, given.axes, 0, 0)))
    again = scored(*arguments[:2], parsed.tree, given.length)
    np.testing.assert_allclose(again, parsed.score, rtol=1e-5, atol=1e-5)


def test_gradient_of_a_score_counts_what_the_tree_uses() -> None:
    given = cases(OVER_SPANS, SMALL, 1)
    parsed = _parsed(given)
    n = int(np.flatnonzero((given.length == 4) & (parsed.score > -np.inf))[0])
    potentials = one(as_dtype(given.potentials, "float32"), given.axes, n)
    tree = jax.tree.map(lambda leaf: leaf[n], parsed.tree)
    gradient = jax.jit(jax.grad(score_tree, 1))(given.rules, potentials, tree, 4)
    lexical = np.zeros((5, 3))
    lexical[np.arange(4), tree.symbols[:4]] = 1
    np.testing.assert_array_equal(gradient.lexical, lexical)
    rules, spans = np.zeros((5, 5, 6)), np.zeros((5, 5, 3))
    for rule, begin, end in zip(tree.rules[:3], tree.begins[:3], tree.ends[:3], strict=True):
        rules[begin, end - 1, rule] += 1
        spans[begin, end - 1, given.rules.parents[rule]] += 1
    np.testing.assert_array_equal(gradient.rules, rules)
    np.testing.assert_array_equal(gradient.spans, spans)
    np.testing.assert_array_equal(gradient.root, np.eye(3)[given.rules.parents[tree.rules[0]]])


@pytest.mark.thorough
def test_padding_nesting_and_single_calls_change_nothing() -> None:
    """Nested batches of wider sentences, and one call: `test_one_rule` makes one without jit."""
    given = cases(SHARED, SMALL, 3)
    potentials, batch = as_dtype(given.potentials, "float32"), _parsed(given)
    nested = jax.vmap(jax.vmap(cky, (None, given.axes, 0)), (None, given.axes, 0))
    wider = np.pad(potentials.lexical, ((0, 0), (0, 2), (0, 0)), constant_values=np.nan)
    split = TreePotentials(
        wider.reshape(5, 10, 7, 3), potentials.rules, potentials.root.reshape(5, 10, 3)
    )
    found = jax.jit(nested)(given.rules, split, given.length.reshape(5, 10))
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(batch), strict=True):
        mine = np.asarray(mine).reshape(50, *np.shape(mine)[2:])
        np.testing.assert_array_equal(mine[:, : other.shape[1]] if mine.ndim > 1 else mine, other)
        assert mine.ndim == 1 or (mine[:, other.shape[1] :] == -1).all()
    check_alone(
        jax.jit(cky),
        lambda i: (given.rules, one(potentials, given.axes, i), given.length[i]),
        batch,
        [7],
    )


def test_the_second_call_does_not_compile() -> None:
    batched = _batched(cky, cases(SHARED, SMALL, 0).axes)
    before = batched._cache_size()
    _parsed(cases(SHARED, SMALL, 0))
    first = batched._cache_size()
    _parsed(cases(SHARED, SMALL, 1))
    assert before <= first == batched._cache_size()


RULES = GrammarRules(np.array([0, 0]), np.array([0, 1]), np.array([1, 0]))
POTENTIALS = TreePotentials(np.zeros((3, 2)), np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("rules, potentials, length, message", [
    (RULES._replace(lefts=np.array([0])), POTENTIALS, 2, r"rules.lefts must be \[R = 2\], got"),
    (RULES._replace(lefts=np.array([1, 0])), POTENTIALS, 2, "sorted by parent.*rule 0.*lexsort"),
    (RULES._replace(rights=np.array([1, 2])), POTENTIALS, 2, r"symbols in 0\.\.1.*got 0\.\.2"),
    (RULES, POTENTIALS._replace(lexical=np.zeros((1, 2))), 1, "T >= 2"),
    (RULES, POTENTIALS._replace(lexical=np.zeros((4, 3, 2))), 1, "jax.vmap"),
    (RULES, POTENTIALS._replace(rules=np.zeros(3)), 2, r"rules must be \[R = 2\] or \[T = 3"),
    (RULES, POTENTIALS._replace(root=np.zeros(3)), 2, "potentials.root"),
    (RULES, POTENTIALS._replace(spans=np.zeros((3, 2))), 2, "potentials.spans"),
    (RULES, POTENTIALS, 4, r"length must be in 1\.\.3"),
    (RULES, POTENTIALS, 0, r"length must be in 1\.\.3"),
    (RULES, POTENTIALS, np.ones(2, int), "scalar"),
])  # fmt: skip
def test_bad_input(rules, potentials, length, message) -> None:
    refused(message, cky, rules, potentials, length)


def test_bad_dtypes() -> None:
    with refused("rules.lefts must be integers"):
        cky(RULES._replace(lefts=np.zeros(2)), POTENTIALS, 2)
    whole = TreePotentials(*(None if leaf is None else leaf.astype(int) for leaf in POTENTIALS))
    refused("floating-point", cky, RULES, whole, 2)


def test_rules_of_each_sentence_are_refused() -> None:
    own = GrammarRules(*(np.stack([leaf, leaf]) for leaf in RULES))
    potentials = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), POTENTIALS)
    refused("shared by all sentences", lambda: jax.vmap(cky)(own, potentials, np.array([2, 2])))


def test_one_rule() -> None:
    """Right-branching only: (0 (0 (0 ..))) from 0 -> 1 0; both symbols over tokens."""
    rules = GrammarRules(*np.array([[0], [1], [0]]))
    lexical = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    potentials = TreePotentials(lexical, np.full(1, 0.5, np.float32), np.zeros(2, np.float32))
    parsed = cky(rules, potentials, 3)
    assert parsed.tree.symbols.tolist() == [1, 1, 0, -1]
    assert parsed.tree.rules.tolist() == [0, 0, -1]
    assert parsed.tree.begins.tolist() == [0, 1, -1]
    assert parsed.tree.splits.tolist() == [1, 2, -1]
    assert parsed.tree.ends.tolist() == [3, 3, -1]
    assert float(parsed.score) == 1 + 3 + 4 + 2 * 0.5


@pytest.mark.usefixtures("x64")
def test_derivatives_against_differences() -> None:
    """Of the score without its tree, over rules of spans."""
    given = cases(OVER_SPANS, SMALL, 0)
    call = _batched(cky, given.axes)
    potentials = as_dtype(given.potentials, "float64")
    assert_derivatives(lambda p: call(given.rules, p, given.length).score, potentials)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_gradients_count_what_the_tree_uses() -> None:
    """Summed over the sentences where they share the rules; 0 where there is no parse."""
    given = cases(SHARED, SMALL, 12)
    potentials, length, axes = as_dtype(given.potentials, "float64"), given.length, given.axes

    def summed(scores: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(scores > -jnp.inf, scores, 0))

    @jax.jit
    def gradients(potentials: TreePotentials) -> tuple:
        parsed = jax.vmap(cky, (None, axes, 0))(given.rules, potentials, length)
        trees = BinaryTree(*map(jax.lax.stop_gradient, parsed.tree))

        def of_trees(p: TreePotentials) -> jax.Array:
            each = jax.vmap(score_tree, (None, axes, 0, 0))(given.rules, p, trees, length)
            return jnp.sum(jnp.where(parsed.score > -jnp.inf, each, 0))

        def with_tree(p: TreePotentials) -> jax.Array:
            return summed(jax.vmap(cky, (None, axes, 0))(given.rules, p, length).score)

        return parsed.score, *(jax.grad(f)(potentials) for f in (of_trees, with_tree))

    score, counts, *found = jax.tree.map(np.asarray, gradients(potentials))
    for each in found:
        jax.tree.map(np.testing.assert_array_equal, each, counts)
    parses = score > -np.inf
    assert counts.lexical.sum() == length[parses].sum() and 0 < parses.sum() < len(length)
    assert counts.rules.sum() == (length[parses] - 1).sum()
