"""A small treebank of ambiguous sentences: where does the prepositional phrase go?"""

from __future__ import annotations

import random
from pathlib import Path

from jaxstruct.data.bracketing import write_line
from jaxstruct.data.trees import Tree, leaves

WORDS = {"DT": ("the", "a"), "NN": ("dog", "park", "tail"), "PRP": ("it",), "IN": ("with", "in"),
         "VBD": ("saw", "bit"), ".": (".",)}  # fmt: skip
LONGEST = 7


def drawn_tree(source: random.Random) -> Tree:
    """A sentence of 2 to 7 tokens."""

    def leaf(tag: str) -> Tree:
        return Tree(tag, word=source.choice(WORDS[tag]))

    def noun_phrase(spare: float) -> Tree:
        if source.random() < 0.4:
            return Tree("NP", (leaf("PRP"),))
        plain = Tree("NP", (leaf("DT"), leaf("NN")))
        return Tree("NP", (plain, prepositional())) if source.random() < spare else plain

    def prepositional() -> Tree:
        return Tree("PP", (leaf("IN"), noun_phrase(0.3)))

    def sentence() -> Tree:
        parts = [leaf("VBD")]
        parts += [noun_phrase(0.6)] if source.random() < 0.8 else []
        parts += [prepositional()] if source.random() < 0.5 else []
        return Tree("S", (noun_phrase(0.2), Tree("VP", tuple(parts))))

    tree = sentence()
    while len(leaves(tree)) > LONGEST:
        tree = sentence()
    return tree


def drawn_trees(seed: int, number: int) -> list[Tree]:
    """So many of them."""
    source = random.Random(seed)
    return [drawn_tree(source) for _ in range(number)]


def write_trees(path: Path, trees: list[Tree]) -> str:
    """A file of bracketed trees in outer brackets, as treebanks have them; returns its path."""
    path.write_text("".join(f"( {write_line(tree)} )\n" for tree in trees), encoding="utf-8")
    return str(path)
