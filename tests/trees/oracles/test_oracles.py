"""All that oracles say of a sentence, one program, against every tree of small grammars."""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import jax
import numpy as np
import pytest

from jaxstruct.trees.oracles import k_best_trees as oracle
from jaxstruct.trees.oracles.inside_outside import log_partition, rule_marginals, sample_tree
from jaxstruct.trees.oracles.k_best_trees import cky, k_best_trees, sentence_bytes, tree_levels
from jaxstruct.trees.oracles.recursion import FEW, rank_pairs
from jaxstruct.trees.potentials import GrammarRules, TreePotentials, score_tree
from tests.core.derivatives import assert_derivatives
from tests.lib.enumeration import (
    Listed,
    check_best,
    check_k_best,
    check_levels,
    check_samples,
    check_sums,
    check_used,
    flat,
    row,
)
from tests.lib.refusals import refused
from tests.trees.oracles.truth import (
    OWN,
    SHARED,
    SKEWED,
    SMALL,
    Cases,
    as_dtype,
    cases,
    grammar,
    listed,
    node_sums,
)

SHORT = SMALL._replace(tokens=4)
"""Where levels are pairs: most of the time goes by in tracing back a tree for each of them."""
K, DRAWS = 5, 200


class Asked(NamedTuple):
    """Of each sentence [N, ..], beside its potentials.

    Fields:
      counts: [N, T, T, S] integers counted at nodes.
    """

    length: np.ndarray
    counts: np.ndarray


def asked(given: Cases, counts: np.ndarray | None = None) -> Asked:
    """Counts of inner nodes of a random tree, or as given."""
    (N, T, S), random = given.potentials.lexical.shape, np.random.default_rng(5)
    if counts is None:
        counts = np.zeros((N, T, T, S), bool)
        for n, length in enumerate(given.length):
            forest = given.forests[int(length)]
            if len(forest.tops):
                a = random.integers(len(forest.tops))
                inner = forest.trees.rules[a] >= 0
                begins, ends = forest.trees.begins[a, inner], forest.trees.ends[a, inner]
                counts[n, begins, ends - 1, forest.parents[a, inner]] = True
    return Asked(given.length, counts)


def answers(rules, potentials, asks: Asked, levels: int) -> dict:
    """All that is said of one sentence."""
    given = rules, potentials, asks.length

    def best(potentials: TreePotentials) -> tuple:
        found = cky(rules, potentials, asks.length)
        return found.score, found

    (_, parsed), used = jax.value_and_grad(best, has_aux=True)(potentials)
    return {
        "best": parsed,
        "again": score_tree(rules, potentials, parsed.tree, asks.length),
        "used": used,
        "k best": k_best_trees(*given, K),
        "sums": jax.value_and_grad(log_partition, 1)(*given),
        "marginals": rule_marginals(*given),
        "levels": tree_levels(rules, potentials, asks.counts, asks.length, levels),
    }


@cache
def together(axes: TreePotentials, levels: int):
    return jax.jit(jax.vmap(partial(answers, levels=levels), (None, axes, 0)))


@cache
def drawing(axes: TreePotentials):
    """Optimised, as it runs long."""
    draw = jax.vmap(sample_tree, (None, None, None, 0))
    call = jax.vmap(draw, (None, axes, 0, 0))
    return jax.jit(call, compiler_options={"xla_backend_optimization_level": 1})


@cache
def levels_together(axes: TreePotentials, levels: int):
    def of_one(rules, potentials, asks: Asked):
        return tree_levels(rules, potentials, asks.counts, asks.length, levels)

    return jax.jit(jax.vmap(of_one, (None, axes, 0)))


def uses_of(given: Cases, length: int) -> np.ndarray:
    """[A, P] how often all trees over so many tokens use each potential."""
    (T, S), R = given.potentials.lexical.shape[1:], given.potentials.rules.shape[-1]
    trees, parents, tops = given.forests[length]
    at = np.arange(len(tops))
    shapes = TreePotentials(
        (T, S), (R,), (S,), None if given.potentials.spans is None else (T, T, S)
    )
    found = TreePotentials(*(shape and np.zeros((len(at), *shape)) for shape in shapes))
    found.root[at, tops] += 1
    for t in range(length):
        found.lexical[at, t, trees.symbols[:, t]] += 1
    for m in range(length - 1):
        found.rules[at, trees.rules[:, m]] += 1
        if found.spans is not None:
            found.spans[at, trees.begins[:, m], trees.ends[:, m] - 1, parents[:, m]] += 1
    return flat(found, 1)


def check_uses(given: Cases, every: Listed, found: dict, tolerance: float) -> None:
    """log Z, its gradient, marginals, and what the best tree uses."""
    known = {length: uses_of(given, length) for length in given.forests}

    def uses(n: int) -> np.ndarray:
        return known[int(given.length[n])]

    tables, sums = found["marginals"], found["sums"]
    own = TreePotentials(*tables[:3], None if given.potentials.spans is None else tables.spans)
    for log_z, slope in (sums, (tables.log_partition, own)):
        check_sums(every, uses, log_z, slope, *(tolerance,) * 3)
    check_used(every, uses, found["best"].tree, found["used"])


def check_of_levels(given: Cases, every: Listed, counts: np.ndarray, found, tolerance) -> None:
    """Every level has the best of its trees, the last one those of all larger sums."""
    last, levels = found.score.shape[1] - 1, []
    for n, length in enumerate(given.length):
        sums = node_sums(counts[n].astype(int), given.forests[int(length)], int(length))
        levels.append(np.minimum(sums, last))
    check_levels(every, levels, found.tree, found.score, tolerance)


@pytest.mark.parametrize(
    ("kind", "size", "dtype"), [(OWN, SMALL, "float32"), (SHARED, SKEWED, "float64")]
)
def test_against_enumeration(kind: str, size: tuple, dtype: str) -> None:
    """Of equals, of odd seeds, the lowest top symbol, then in preorder the lowest rule, the lowest
    split. Matches of inner nodes are levels, one of them a cap in float64."""
    none, levels, tolerance, of_sums = 0, size.tokens, 1e-5, 2e-5
    if dtype == "float64":
        levels, tolerance, of_sums = 2, 1e-13, 1e-12
    for seed in range(2):
        given = cases(kind, size, seed)
        every, asks = listed(given, seed % 2 == 1), asked(given)
        with jax.enable_x64(dtype == "float64"):
            call = together(given.axes, levels)
            own = given.rules, as_dtype(given.potentials, dtype)
            keys = jax.random.split(jax.random.key(0), (len(given.length), DRAWS))
            found = jax.device_get(call(*own, asks))
            found["drawn"] = jax.device_get(drawing(given.axes)(*own, given.length, keys))
        types = {leaf.dtype for leaf in jax.tree.leaves(found)}
        assert types == {np.dtype(dtype), np.dtype("int32")}
        parsed, ranked = found["best"], found["k best"]
        empty = check_best(every, parsed.tree, parsed.score, tolerance)
        there = parsed.score > -np.inf
        close = dict(rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found["again"][there], parsed.score[there], **close)
        check_k_best(every, ranked.tree, ranked.score, tolerance, ties=1)
        check_uses(given, every, found, of_sums)
        check_samples(every, found["drawn"])
        drawn = flat(found["drawn"], 2)
        assert (drawn[parsed.score == -np.inf] == -1).all()
        check_of_levels(given, every, asks.counts, found["levels"], tolerance)
        none += empty
    assert none > 0 or size is SKEWED


def test_levels_of_every_pair_of_matched_and_predicted() -> None:
    """0 to 2 at any node, tokens too, never more matched than predicted: level p L + m."""
    kind, size = OWN, SHORT
    predicted = np.arange(size.symbols)[::-1] % 3
    L, random = 2 * (2 * size.tokens - 1) + 1, np.random.default_rng(5)
    for seed in range(2):
        given = cases(kind, size, seed)
        shape = (len(given.length), size.tokens, size.tokens, size.symbols)
        matched = np.minimum(random.integers(0, 3, shape), predicted)
        asks = asked(given, matched + L * predicted)
        call = levels_together(given.axes, L * L)
        found = jax.device_get(call(given.rules, as_dtype(given.potentials, "float32"), asks))
        check_of_levels(given, listed(given, False), asks.counts, found, 1e-5)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_derivatives_against_differences() -> None:
    """Of the k best, all levels, and a tree's score by itself."""
    given = cases(SHARED, SMALL, 0)
    asks, potentials = asked(given), as_dtype(given.potentials, "float64")

    def scores(changed: TreePotentials) -> list:
        def of_one(potentials, asks):
            own = asks.length
            found = tree_levels(given.rules, potentials, asks.counts, own, 3)
            ranked = k_best_trees(given.rules, potentials, own, 2)
            tree = score_tree(given.rules, potentials, row(ranked.tree, 0), own)
            kept = jax.numpy.where(ranked.score[0] > -jax.numpy.inf, tree, 0)
            return ranked.score, found.score, kept

        return jax.vmap(of_one, (given.axes, 0))(changed, asks)

    assert_derivatives(scores, potentials)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_more_are_sorted_in_the_same_order(monkeypatch) -> None:
    """Those of many come first among those of more, ties included, block by block. By what the
    compiler lays out, merges of a large grammar take no more memory than is allowed."""
    kind, size = SHARED, SKEWED
    bytes_of = sentence_bytes(40, size.tokens, size.symbols, size.rules, np.dtype("f8"))
    monkeypatch.setattr(oracle, "MOST_BYTES", 3 * bytes_of)
    for seed in range(2):
        given = cases(kind, size, seed)
        call = given.rules, as_dtype(given.potentials, "float64")
        few = together(given.axes, 2)(*call, asked(given))["k best"]
        program = ranked(40, given.axes).lower(*call, given.length).compile()
        found = program.memory_analysis()
        assert found.temp_size_in_bytes < 1.2 * oracle.MOST_BYTES + found.output_size_in_bytes
        many = jax.device_get(program(*call, given.length))
        check_k_best(listed(given, seed % 2 == 1), many.tree, many.score, 1e-13, ties=1)
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[:, :K], b), many, few)


@cache
def ranked(k: int, axes: TreePotentials):
    return jax.jit(jax.vmap(partial(k_best_trees, k=k), (None, axes, 0)))


def shapes_of(N: int, T: int, S: int, R: int) -> tuple:
    """(rules, shapes of potentials, of lengths, axes) of sentences that share rules."""
    rules = grammar(np.random.default_rng(0), S, R, False)
    shapes = TreePotentials((N, T, S), (R,), (S,), None)
    potentials = TreePotentials(*(s and jax.ShapeDtypeStruct(s, "f4") for s in shapes))
    return rules, potentials, jax.ShapeDtypeStruct((N,), "i4"), TreePotentials(0, None, None, None)


@pytest.mark.thorough
def test_a_wide_batch_takes_no_more_memory_than_is_allowed(monkeypatch) -> None:
    """By what the compiler lays out; long sentences are charts."""
    monkeypatch.setattr(oracle, "MOST_BYTES", 2**22)
    k, S, R, T = 50, 5, 20, 20
    *given, axes = shapes_of(90, T, S, R)
    assert 90 * sentence_bytes(k, T, S, R, np.dtype("f4")) > 2 * oracle.MOST_BYTES
    call = jax.jit(jax.vmap(partial(k_best_trees, k=k), (None, axes, 0)))
    found = call.lower(*given).compile().memory_analysis()
    assert found.temp_size_in_bytes < 1.2 * oracle.MOST_BYTES + found.output_size_in_bytes


@pytest.mark.thorough
def test_long_sentences_take_the_memory_of_their_charts() -> None:
    """One chart for log Z and four for marginals, T (T + 1) / 2 by S floats each."""
    T, S, N = 30, 10, 64
    *given, axes = shapes_of(N, T, S, 40)
    for sums, charts in ((log_partition, 1), (rule_marginals, 4)):
        found = jax.jit(jax.vmap(sums, (None, axes, 0))).lower(*given).compile().memory_analysis()
        assert found.temp_size_in_bytes < 1.2 * charts * T * (T + 1) / 2 * S * N * 4


def test_the_program_of_many_trees_is_as_large_as_that_of_few() -> None:
    """Merges that were written out grew with k^2: compiling them took gigabytes and hours."""
    *given, axes = shapes_of(50, 5, 3, 6)

    def lines(k: int) -> int:
        return ranked(k, axes).lower(*given).as_text().count("\n")

    assert lines(300) < lines(FEW)


@pytest.mark.parametrize("shift, tolerance", [(0.0, 1e-4), (2000.0, 2e-3)])
def test_far_apart_potentials_neither_overflow_nor_vanish(shift: float, tolerance: float) -> None:
    """A top symbol 400 a rule below the others; F of 6000 is known to 5e-4 in float32."""
    given, top = cases(OWN, SMALL, 0), 1
    n = int(np.flatnonzero(given.length == 3)[0])
    lexical = np.nan_to_num(given.potentials.lexical[n], neginf=0.0) + shift
    lexical[:, 0] -= 300.0
    root = np.where(np.arange(SMALL.symbols) == top, 0.0, -np.inf)
    rules = np.where(given.rules.parents == top, 0.0, 400.0)
    asks = asked(given)
    asks = asks._replace(length=np.full_like(given.length, 3))  # as often as the program has them
    one = TreePotentials(lexical, rules, root, 0 * np.nan_to_num(given.potentials.spans[n]))
    potentials = as_dtype(jax.tree.map(lambda leaf: np.stack([leaf] * len(asks.length)), one), "f4")
    found = together(given.axes, SMALL.tokens)(given.rules, potentials, asks)["marginals"]
    found = row(jax.device_get(found), 0)
    assert float(found.log_partition) > -np.inf
    np.testing.assert_allclose(found.lexical[:3].sum(axis=1), 1, rtol=tolerance)
    np.testing.assert_allclose(found.rules.sum(), 2, rtol=tolerance)
    assert all(np.isfinite(leaf).all() for leaf in found)


def test_pairs_of_ranks_that_may_be_among_the_best() -> None:
    assert rank_pairs(3) == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]


@pytest.mark.thorough
def test_one_rule() -> None:
    """Right-branching only: (0 (0 (0 ..))) from 0 -> 1 0; both symbols over tokens."""
    rules = GrammarRules(*np.array([[0], [1], [0]]))
    lexical = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    potentials = TreePotentials(lexical, np.full(1, 0.5, np.float32), np.zeros(2, np.float32))
    parsed = jax.jit(cky)(rules, potentials, 3)
    expected = [[1, 1, 0, -1], [0, 0, -1], [0, 1, -1], [1, 2, -1], [3, 3, -1]]
    assert [leaf.tolist() for leaf in parsed.tree] == expected
    assert float(parsed.score) == 1 + 3 + 4 + 2 * 0.5


RULES = GrammarRules(np.array([0, 0]), np.array([0, 1]), np.array([1, 0]))
POTENTIALS = TreePotentials(np.zeros((3, 2)), np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("rules, potentials, length, message", [
    (RULES._replace(lefts=np.array([0])), POTENTIALS, 2, r"rules.lefts must be \[R = 2\], got"),
    (RULES._replace(lefts=np.array([1, 0])), POTENTIALS, 2, "sorted by parent.*rule 0.*lexsort"),
    (RULES._replace(rights=np.array([1, 2])), POTENTIALS, 2, r"symbols in 0\.\.1.*got 0\.\.2"),
    (RULES, POTENTIALS._replace(lexical=np.zeros((1, 2))), 1, "T >= 2"),
    (RULES, POTENTIALS._replace(lexical=np.zeros((4, 3, 2))), 1, "jax.vmap"),
    (RULES, POTENTIALS._replace(rules=np.zeros(3)), 2, r"rules must be \[R = 2\], got"),
    (RULES, POTENTIALS._replace(root=np.zeros(3)), 2, "potentials.root"),
    (RULES, POTENTIALS._replace(spans=np.zeros((3, 2))), 2, "potentials.spans"),
    (RULES, POTENTIALS, 4, r"length must be in 1\.\.3"),
    (RULES, POTENTIALS, 0, r"length must be in 1\.\.3"),
    (RULES, POTENTIALS, np.ones(2, int), "scalar"),
    (RULES._replace(lefts=np.zeros(2)), POTENTIALS, 2, "rules.lefts must be integers"),
    (RULES, TreePotentials(*(leaf.astype(int) for leaf in POTENTIALS[:3])), 2, "floating-point"),
])  # fmt: skip
def test_bad_input(rules, potentials, length, message) -> None:
    refused(message, cky, rules, potentials, length)


TWO = np.array([2, 2])


def test_rules_of_each_sentence_are_refused() -> None:
    own = GrammarRules(*(np.stack([leaf, leaf]) for leaf in RULES))
    potentials = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), POTENTIALS)
    refused("shared by all sentences", jax.eval_shape, jax.vmap(cky), own, potentials, TWO)


GIVEN = TreePotentials(np.zeros((5, 3)), np.zeros(2), np.zeros(3))
COUNTED = np.zeros((5, 5, 3), int)
THREE = GrammarRules(np.array([0, 0]), np.array([0, 1]), np.array([1, 2]))


@pytest.mark.parametrize("oracle, arguments, message", [
    (tree_levels, (THREE, GIVEN, np.zeros((5, 3), int), 2, 5),
     r"counts must be \[T = 5, T = 5, S = 3\] integers, got .*vmap"),
    (tree_levels, (THREE, GIVEN, 1.0 * COUNTED, 2, 5), "counts must be .* integers, got float"),
    (tree_levels, (THREE, GIVEN, COUNTED, 2, 0), "levels must be at least 1, got 0"),
    (k_best_trees, (RULES, POTENTIALS, 2, 0), "k must be at least 1, got 0"),
])  # fmt: skip
def test_levels_and_ranks_that_do_not_fit(oracle, arguments: tuple, message: str) -> None:
    refused(message, oracle, *arguments)
