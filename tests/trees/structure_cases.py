"""A small grammar read off random trees, and every tree that it has for a sentence."""

from __future__ import annotations

from functools import cache, lru_cache

import jax
import numpy as np

from jaxstruct.core.types import BinaryTree
from jaxstruct.data.trees import Tree, tags
from jaxstruct.trees.phrases.binarisation import Binarisation
from jaxstruct.trees.phrases.evaluation import ALL_TOKENS, score
from jaxstruct.trees.phrases.grammar import read_grammar
from jaxstruct.trees.phrases.integer_trees import decode, encode
from jaxstruct.trees.potentials import GrammarRules
from jaxstruct.trees.structure import sentence_inputs
from tests.trees.oracles.truth import forest

T = 4
LABELS, TAGS = ("S", "N", "V"), ("a", "b")


def random_tree(random, tokens: int, top: bool = True) -> Tree:
    """Wide nodes, unary chains, phrases over one token."""
    label = LABELS[random.integers(1 if not top else 0, len(LABELS) if not top else 1)]
    if tokens == 1 and (not top or random.random() < 0.5):
        tag = TAGS[random.integers(len(TAGS))]
        leaf = Tree(tag, (), tag)
        return Tree(label, (leaf,)) if top or random.random() < 0.4 else leaf
    if random.random() < 0.25 or tokens == 1:
        return Tree(label, (random_tree(random, tokens, False),))
    parts = min(tokens, int(random.integers(2, 4)))
    cuts = np.sort(random.choice(np.arange(1, tokens), parts - 1, replace=False))
    widths = np.diff([0, *cuts, tokens])
    return Tree(label, tuple(random_tree(random, int(width), False) for width in widths))


def same_label_chains(tree: Tree) -> bool:
    """Whether a label stands right above itself."""
    below = [child for child in tree.children]
    twice = len(below) == 1 and below[0].label == tree.label
    return twice or any(same_label_chains(child) for child in below)


@cache
def trees(n: int = 10, seed: int = 0) -> tuple[Tree, ...]:
    random, found = np.random.default_rng(seed), []
    while len(found) < n:
        tree = random_tree(random, int(random.integers(1, T + 1)))
        if not same_label_chains(tree):
            found.append(tree)
    return tuple(found)


@cache
def grammar(seed: int = 0):
    return read_grammar(trees(seed=seed), Binarisation(memory=0))


@cache
def examples(seed: int = 0):
    """(inputs, outputs) of the trees that the grammar was read off."""
    own = grammar(seed)
    encoded = [encode(own, tree, T).tree for tree in trees(seed=seed)]
    sentences = [tags(tree) for tree in trees(seed=seed)]
    outputs = jax.tree.map(lambda *leaves: np.stack(leaves), *encoded)
    return sentence_inputs(own, sentences, T), outputs


@lru_cache(maxsize=64)
def all_trees(seed: int, row: int) -> list[BinaryTree]:
    """Every tree of the grammar over sentence `row`."""
    own, (x, _) = grammar(seed), examples(seed)
    rules = GrammarRules(*own.binary_rules.T)
    found = forest(rules, len(own.symbols), T, int(x.length[row]))
    lexical = {tuple(rule) for rule in own.lexical_rules.tolist()}
    kept = []
    for a, top in enumerate(found.tops):
        tree = BinaryTree(*(leaf[a] for leaf in found.trees))
        tokens = range(int(x.length[row]))
        fits = all((int(tree.symbols[t]), int(x.terminals[row, t])) in lexical for t in tokens)
        if fits and own.root_counts[top] > 0:
            kept.append(tree)
    return kept


def psi(seed: int, row: int, tree: BinaryTree) -> np.ndarray:
    """Counts of lexical rules, roots and rules, one by one, in the order of the names."""
    own, (x, _) = grammar(seed), examples(seed)
    lexical, rules = np.zeros(len(own.lexical_rules)), np.zeros(len(own.binary_rules))
    root = np.zeros(len(own.symbols))
    for t in range(int(x.length[row])):
        pair = (int(tree.symbols[t]), int(x.terminals[row, t]))
        lexical[own.lexical_rules.tolist().index(list(pair))] += 1
    for rule in tree.rules:
        if rule >= 0:
            rules[rule] += 1
    top = own.binary_rules[tree.rules[0], 0] if tree.rules[0] >= 0 else tree.symbols[0]
    root[top] += 1
    return np.concatenate([lexical, root, rules])


def nodes(seed: int, tree: BinaryTree) -> set[tuple[int, int, int]]:
    """(first token, last token, symbol) of all nodes."""
    own = grammar(seed)
    found = {(t, t, int(s)) for t, s in enumerate(tree.symbols) if s >= 0}
    for rule, begin, end in zip(tree.rules, tree.begins, tree.ends, strict=True):
        if rule >= 0:
            found.add((int(begin), int(end) - 1, int(own.binary_rules[rule, 0])))
    return found


def inner_nodes(seed: int, tree: BinaryTree) -> set[tuple[int, int, int]]:
    """Those over two tokens or more."""
    return {node for node in nodes(seed, tree) if node[1] > node[0]}


def same(a: BinaryTree, b: BinaryTree) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def loss(name: str, seed: int, true: BinaryTree, tree: BinaryTree) -> float:
    """Delta by sets of nodes, or by the evaluation measures of debinarised trees."""
    if name == "zero_one":
        return float(not same(true, tree))
    if name in ("node_f1", "all_node_f1"):
        of = nodes if name == "all_node_f1" else inner_nodes
        own = of(seed, true)
        return 1 - len(own & of(seed, tree)) / len(own) if own else 0.0
    own = grammar(seed)
    words = [str(t) for t in range(int((np.asarray(true.symbols) >= 0).sum()))]
    counted = score([decode(own, true, words)], [decode(own, tree, words)], ALL_TOKENS)
    total = int(counted.predicted[0] + counted.gold[0])
    return 1 - 2 * int(counted.matched[0]) / total if total else 0.0


def bound_by(name: str, formulation: str, delta: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Which of the trees y != y_i have a constraint: with f1 those of a positive loss only."""
    return wrong & (delta > 0) if name == "f1" or formulation.endswith("_slack") else wrong


def row_of(tree, i):
    return jax.tree.map(lambda leaf: leaf[i], tree)


def flat(weights) -> np.ndarray:
    return np.concatenate([np.ravel(weights[name]) for name in sorted(weights)])
