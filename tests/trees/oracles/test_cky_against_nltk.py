"""Viterbi trees of random probabilistic grammars against NLTK's own parser."""

from __future__ import annotations

import math

import jax
import nltk
import numpy as np

from jaxstruct.trees.oracles.cky import cky
from jaxstruct.trees.potentials import GrammarRules, TreePotentials, score_tree
from tests.trees.oracles.truth import grammar

S, R, V, T = 4, 14, 3, 6
SENTENCES = 12


def probabilities(random, rules):
    """([R], [S, V]) of binary and lexical rules; those of a symbol sum to one."""
    binary, lexical = random.random(R) + 0.1, random.random((S, V)) + 0.1
    total = np.bincount(rules.parents, weights=binary, minlength=S) + lexical.sum(axis=1)
    return binary / total[rules.parents], lexical / total[:, None]


def nltk_parser(rules, binary, lexical):
    """The same grammar with start symbol 0, as NLTK has it."""
    symbols = [nltk.Nonterminal(f"A{s}") for s in range(S)]
    productions = [
        nltk.ProbabilisticProduction(symbols[a], [symbols[b], symbols[c]], prob=p)
        for a, b, c, p in zip(*rules, binary, strict=True)
    ] + [
        nltk.ProbabilisticProduction(symbols[a], [f"v{v}"], prob=lexical[a, v])
        for a in range(S) for v in range(V)
    ]  # fmt: skip
    return nltk.ViterbiParser(nltk.PCFG(symbols[0], productions))


def test_probabilities_of_the_best_trees(x64):
    random = np.random.default_rng(0)
    start = np.where(np.arange(S) == 0, 0.0, -np.inf)
    parse = jax.jit(jax.vmap(cky, (None, TreePotentials(0, None, None), 0)))
    for seed in range(3):
        rules = grammar(np.random.default_rng(seed), S, R, skewed=False)
        binary, lexical = probabilities(random, rules)
        parser = nltk_parser(rules, binary, lexical)
        lengths = random.integers(1, T + 1, SENTENCES).astype(np.int32)
        words = random.integers(0, V, (SENTENCES, T))
        potentials = TreePotentials(np.log(lexical.T)[words], np.log(binary), start)
        found = parse(GrammarRules(*rules), potentials, lengths)
        for i, length in enumerate(lengths):
            best = next(iter(parser.parse([f"v{v}" for v in words[i, :length]])), None)
            if best is None:
                assert found.score[i] == -np.inf
                continue
            assert math.isclose(float(found.score[i]), math.log(best.prob()), abs_tol=1e-9)
            tree = jax.tree.map(lambda leaf, i=i: leaf[i], found.tree)
            own = potentials._replace(lexical=potentials.lexical[i])
            again = score_tree(GrammarRules(*rules), own, tree, length)
            assert math.isclose(float(again), math.log(best.prob()), abs_tol=1e-9)
