"""The data of the tasks, drawn from seeds; and what scores tools without a score of their own."""

from __future__ import annotations

import numpy as np

from experiments.tasks import generated
from jaxstruct.data.digit_words import DigitWords, load_digit_words
from jaxstruct.trees import read_tree, score, summarise

LETTERS = "ARNDCQEGHILKMFPSTWYV"
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


def digit_words() -> tuple[DigitWords, DigitWords]:
    """Words of handwritten digits to train and to test."""
    return load_digit_words()


def label_sets() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(rows, sets) to train and to test: 600 and 300, 40 features, 6 labels of which some pairs
    exclude each other."""
    random = np.random.default_rng(0)
    X = random.normal(size=(900, 40))
    scores = X @ random.normal(size=(40, 6)) / 3 + random.normal(size=(900, 6))
    y = (scores > 0).astype(int)
    for one in (0, 2, 4):  # of two that exclude each other the one of the larger score
        both = (y[:, one] == 1) & (y[:, one + 1] == 1)
        first = scores[:, one] > scores[:, one + 1]
        y[both & first, one + 1] = 0
        y[both & ~first, one] = 0
    return X[:600], y[:600], X[600:], y[600:]


def aligned() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Aligned pairs to train and to test, 60 each: letters change within groups, and fall out."""
    random = np.random.default_rng(0)
    groups = ["AST", "RKQ", "ND", "EQ", "ILMV", "FYW", "CGP", "H"]
    alike = {letter: group for group in groups for letter in group}
    pairs = [_drawn_pair(random, alike) for _ in range(120)]
    return pairs[:60], pairs[60:]


def _drawn_pair(random: np.random.Generator, alike: dict[str, str]) -> tuple[str, str]:
    rows: tuple[list[str], list[str]] = ([], [])
    while len(rows[0]) < 30:
        letter, kind = str(random.choice(list(LETTERS))), random.random()
        if kind < 0.06:
            run = random.choice(list(LETTERS), random.integers(1, 5)).tolist()
            side = int(random.integers(2))
            rows[side].extend(run)
            rows[1 - side].extend("-" * len(run))
        else:
            partner = letter if kind < 0.5 else random.choice(list(alike[letter]))
            partner = partner if kind < 0.9 else random.choice(list(LETTERS))
            rows[0].append(letter)
            rows[1].append(str(partner))
    return "".join(rows[0]), "".join(rows[1])


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


def partner_share(found: list[tuple[str, str]], right: list[tuple[str, str]]) -> float:
    """The mean share of letters whose partner is the right one, of aligned rows."""
    from jaxstruct.estimators.pair_aligner import share_of_partners

    return float(np.mean([share_of_partners(*pair) for pair in zip(found, right, strict=True)]))
