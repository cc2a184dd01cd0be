"""The data of the tasks, drawn from seeds; and what scores tools without a score of their own."""

from __future__ import annotations

import numpy as np

from experiments.tasks import generated
from jaxstruct.trees import read_tree, score, summarise

NOUNS, VERBS, PREPOSITIONS = ("dog cat man town park".split(), "sees likes finds".split(),
                              "in near with".split())  # fmt: skip


def texts() -> tuple[list[str], list[str], list[str], list[str]]:
    """(texts, classes) to train and to test: 2,000 and 500 of 20 classes."""
    strings, numbers = generated.strings(2500)
    strings, classes = strings.tolist(), [f"class {number}" for number in numbers]
    return strings[:2000], classes[:2000], strings[2000:], classes[2000:]


def tagged() -> tuple[list, list, list, list]:
    """(sentences, labels) to train and to test: 300 and 100, tokens as lists of feature names."""
    drawn = generated.sentences(400, 2000)
    ends = [slice(*pair) for pair in zip(drawn.offsets[:-1], drawn.offsets[1:], strict=True)]
    X = [[[f"f{j}" for j in token] for token in drawn.features[own]] for own in ends]
    y = [[f"label {number}" for number in drawn.labels[own]] for own in ends]
    return X[:300], y[:300], X[300:], y[300:]


def treebank() -> tuple[list[str], list[str]]:
    """Bracketed trees to train and to test, 80 and 40, whose prepositions say where they belong."""
    random = np.random.default_rng(0)
    trees = [f"(S {_noun_phrase(random, 0)} {_verb_phrase(random)})" for _ in range(120)]
    return trees[:80], trees[80:]


def _noun_phrase(random: np.random.Generator, depth: int) -> str:
    plain = f"(NP (DT the) (NN {random.choice(NOUNS)}))"
    if depth > 1 or random.random() < 0.7:
        return plain
    return f"(NP {plain} (PP (IN of) {_noun_phrase(random, depth + 1)}))"


def _verb_phrase(random: np.random.Generator) -> str:
    plain = f"(VP (VBZ {random.choice(VERBS)}) {_noun_phrase(random, 1)})"
    if random.random() < 0.5:
        return plain
    return f"(VP {plain} (PP (IN {random.choice(PREPOSITIONS)}) {_noun_phrase(random, 1)}))"


def bracket_f1(found: list[str], right: list[str]) -> float:
    """Labelled F1 of bracketed trees."""
    true, parsed = ([read_tree(one, "tree") for one in trees] for trees in (right, found))
    return summarise(score(true, parsed), failed_are_wrong=True).f1
