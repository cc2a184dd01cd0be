"""Probabilistic grammars: by hand, as the maximiser of the likelihood, and their decoding."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence

import jax
import numpy as np
import pytest

from experiments.machines.probabilistic_grammar import fit_probabilistic_grammar
from jaxstruct.data.bracketing import read_trees
from jaxstruct.data.trees import Tree, tags
from jaxstruct.trees.oracles.k_best_trees import cky
from jaxstruct.trees.phrases.binarisation import Binarisation
from jaxstruct.trees.phrases.grammar import Grammar, read_grammar, terminals_of
from jaxstruct.trees.phrases.integer_trees import decode, encode
from jaxstruct.trees.potentials import GrammarRules, TreePotentials
from tests.trees.oracles.truth import forest
from tests.trees.random_trees import random_trees


def log_likelihood(
    grammar: Grammar, weights: dict[str, np.ndarray], trees: Sequence[Tree]
) -> np.ndarray:
    """log P(x, y) of trees, summed in float64 over the rules that they use.

    Args:
      grammar: whose rules the weights are of.
      weights: of `fit_probabilistic_grammar`; of any other weights the result is F(x, y; w).
      trees: n trees (cleaned, not binarised).

    Returns:
      [n] float64; -inf where the grammar cannot make the tree.
    """
    tables = {name: np.asarray(table, np.float64) for name, table in weights.items()}
    pairs = map(tuple, grammar.lexical_rules.tolist())
    place = {pair: number for number, pair in enumerate(pairs)}

    def of_one(tree: Tree) -> float:
        found = encode(grammar, tree)
        if found.tree is None:
            return -math.inf
        symbols, rules = found.tree.symbols, found.tree.rules
        symbols, rules = symbols[symbols >= 0], rules[rules >= 0]
        top = grammar.binary_rules[rules[0], 0] if rules.size else symbols[0]
        read = zip(symbols.tolist(), found.terminals.tolist(), strict=False)
        lexical = [place[pair] for pair in read]
        used = tables["lexical"][lexical].sum() + tables["rules"][rules].sum()
        return float(used + tables["root"][top])

    return np.array([of_one(tree) for tree in trees], np.float64)


HAND = """
(S (NP (DT the) (NN dog)) (VP (VB barks)))
(S (NP (NN dogs)) (VP (VB bark)))
(NP (DT the) (NN end))
(S (NP (DT a) (NN cat)) (VP (VB sees) (NP (NN dogs))))
"""


@pytest.fixture(scope="module")
def hand():
    return read_grammar(read_trees(HAND))


def by_name(grammar, weights):
    """Rule in words -> probability."""
    names, read = np.array(grammar.symbols), np.array(grammar.terminals)
    tables = [
        ([" ".join(names[row]) for row in grammar.binary_rules], weights["rules"]),
        ([f"{names[a]} -> {read[b]}" for a, b in grammar.lexical_rules], weights["lexical"]),
        (list(names), weights["root"]),
    ]
    return {name: math.exp(w) for of, table in tables for name, w in zip(of, table, strict=True)}


def test_relative_frequencies_by_hand(hand):
    found = by_name(hand, fit_probabilistic_grammar(hand))
    roots = {"S": 3 / 4, "NP": 1 / 4} | dict.fromkeys(("DT", "NN", "NP+NN", "VB", "VP+VB", "VP"), 0)
    binary = {"S NP VP+VB": 1 / 3, "S NP+NN VP+VB": 1 / 3, "S NP VP": 1 / 3, "NP DT NN": 1,
              "VP VB NP+NN": 1}  # fmt: skip
    lexical = dict.fromkeys(("DT -> DT", "NN -> NN", "NP+NN -> NN", "VB -> VB", "VP+VB -> VB"), 1.0)
    assert found == pytest.approx(roots | binary | lexical, abs=1e-6)


def test_branching_and_reading_share_one_distribution():
    """X is over one token once, over two of them once; its rules are in two tables."""
    grammar = read_grammar(read_trees("(S (X a) (X (A a) (B b)))"))
    found = by_name(grammar, fit_probabilistic_grammar(grammar))
    assert found["X A B"] == found["X -> X"] == pytest.approx(0.5)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_symbol_sums_to_one(smoothing, dtype):
    grammar = read_grammar(random_trees(3, 60), Binarisation(memory=1))
    weights = fit_probabilistic_grammar(grammar, smoothing=smoothing, dtype=dtype)
    assert {table.dtype for table in weights.values()} == {np.dtype(dtype)}
    mass = np.zeros(len(grammar.symbols))
    np.add.at(mass, grammar.binary_rules[:, 0], np.exp(weights["rules"]))
    np.add.at(mass, grammar.lexical_rules[:, 0], np.exp(weights["lexical"]))
    np.testing.assert_allclose(mass, 1, rtol=1e-5)
    assert np.exp(weights["root"]).sum() == pytest.approx(1, abs=1e-5)
    assert np.array_equal(weights["root"] > -np.inf, grammar.root_counts > 0)


def other_distribution(grammar, weights, source, step):
    """Weights moved at random, normalised symbol by symbol."""
    moved = {name: table + step * source.normal(size=len(table)) for name, table in weights.items()}
    mass = np.zeros(len(grammar.symbols))
    for name, parents in (("rules", grammar.binary_rules), ("lexical", grammar.lexical_rules)):
        np.add.at(mass, parents[:, 0], np.exp(moved[name]))
    moved["rules"] -= np.log(mass)[grammar.binary_rules[:, 0]]
    moved["lexical"] -= np.log(mass)[grammar.lexical_rules[:, 0]]
    moved["root"] -= np.log(np.exp(moved["root"]).sum())
    return moved


@pytest.mark.parametrize("step", [0.01, 0.1, 1.0])
def test_it_maximises_the_likelihood(step):
    trees, source = random_trees(5, 60), np.random.default_rng(0)
    grammar = read_grammar(trees)
    weights = fit_probabilistic_grammar(grammar, dtype="float64")
    best = log_likelihood(grammar, weights, trees).sum()
    others = [other_distribution(grammar, weights, source, step) for _ in range(20)]
    assert all(log_likelihood(grammar, other, trees).sum() < best for other in others)
    smoothed = fit_probabilistic_grammar(grammar, smoothing=0.5, dtype="float64")
    assert log_likelihood(grammar, smoothed, trees).sum() < best


def potentials_of(grammar, weights, read):
    """What CKY takes, from the tables of rules."""
    table = np.full((len(grammar.symbols), len(grammar.terminals)), -np.inf)
    table[tuple(grammar.lexical_rules.T)] = weights["lexical"]
    lexical = table.T[terminals_of(grammar, read)]
    return TreePotentials(lexical, weights["rules"], weights["root"])


@functools.lru_cache
def program():
    return jax.jit(cky)


def test_decoding_finds_the_most_probable_of_all_trees(x64):
    """All trees of a small ambiguous grammar are enumerated and judged by `log_likelihood`."""
    source, labels = random.Random(1), "AB"

    def drawn(size):
        if size == 1:
            return Tree("t", word="t")
        cut = source.randint(1, size - 1)
        return Tree(source.choice(labels), (drawn(cut), drawn(size - cut)))

    grammar = read_grammar([drawn(source.randint(2, 6)) for _ in range(60)])
    rules = GrammarRules(*grammar.binary_rules.T)
    weights = fit_probabilistic_grammar(grammar, dtype="float64")
    read = ["t"] * 5
    every = forest(rules, len(grammar.symbols), 5, 5)
    reads = set(grammar.lexical_rules[:, 0].tolist())  # the one terminal is t
    possible = np.isin(every.trees.symbols, list(reads)).all(axis=1)

    def judged(chosen):
        some = [jax.tree.map(lambda leaf, a=a: leaf[a], every.trees) for a in chosen]
        return log_likelihood(grammar, weights, [decode(grammar, tree) for tree in some])

    known = judged(np.flatnonzero(possible))
    assert np.isfinite(known).sum() > 50
    others = judged(np.flatnonzero(~possible)[::20])  # of 50,000, a symbol over t that reads none
    assert len(others) > 2000 and (others == -np.inf).all()
    found = program()(rules, potentials_of(grammar, weights, read), 5)
    assert float(found.score) == pytest.approx(known.max(), rel=1e-12)
    tree = decode(grammar, found.tree)
    assert tags(tree) == tuple(read)
    assert log_likelihood(grammar, weights, [tree])[0] == pytest.approx(known.max(), rel=1e-12)
