"""Trees of every shape, drawn at random: chains, wide nodes, one word, chains over tags."""

from __future__ import annotations

import random

from jaxstruct.data.trees import Tree, fold

LABELS = ("S", "NP", "VP", "PP", "ADVP|PRT", "X")
TAGS = ("NN", "VB", "DT", ",", "-LRB-", "''", "PRP$")
WORDS = ("dog", "Dogs", "1990s", "well-known", "U.S.", "--", "running", "café")


def random_tree(source: random.Random, tokens: int) -> Tree:
    """A tree of exactly so many tokens."""
    if tokens == 1:
        tree = Tree(source.choice(TAGS), word=source.choice(WORDS))
    else:
        sizes = _parts(source, tokens)
        tree = Tree(source.choice(LABELS), tuple(random_tree(source, size) for size in sizes))
    while source.random() < 0.3:
        tree = Tree(source.choice(LABELS), (tree,))
    return tree


def _parts(source: random.Random, tokens: int) -> list[int]:
    """At least two positive sizes with the sum `tokens`."""
    cuts = source.sample(range(1, tokens), source.randint(1, min(tokens - 1, 5)))
    edges = [0, *sorted(cuts), tokens]
    return [end - begin for begin, end in zip(edges, edges[1:], strict=False)]


def random_trees(seed: int, number: int, most_tokens: int = 12) -> list[Tree]:
    """So many trees of 1 to `most_tokens` tokens."""
    source = random.Random(seed)
    return [random_tree(source, source.randint(1, most_tokens)) for _ in range(number)]


def deep_tree(levels: int) -> Tree:
    """A comb that is `levels` deep, with a chain at every second level."""
    tree = Tree("NN", word="end")
    for level in range(levels - 1):
        children = (tree,) if level % 2 else (Tree("DT", word=f"w{level}"), tree)
        tree = Tree("NP" if level % 3 else "VP", children)
    return tree


def depth(tree: Tree) -> int:
    """The number of nodes from the root to the lowest leaf; 1 for a leaf."""
    return fold(tree, lambda _, parts: 1 + max(parts, default=0))
