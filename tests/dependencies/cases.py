"""Small random treebanks, and their joint features written down as named counts."""

from __future__ import annotations

from collections import Counter

import numpy as np

import jaxstruct as js
from jaxstruct.dependencies.example_checks import crossing_arcs, fault_of

TEMPLATES = (
    "head.tag child.tag distance", "head-1.tag child+1.word direction", "child.word distance",
    "head.word child.word", "head.tag between.tag child.tag",
)  # fmt: skip
LABEL_TEMPLATES = ("child.tag direction", "head.word child.tag")
BEGINS = (1, 2, 3, 4, 5, 7, 11, 21)


def random_tree(random, words, projective):
    while True:
        heads = random.integers(0, words + 1, words).tolist()
        if not fault_of(heads) and not (projective and crossing_arcs(heads).any()):
            return heads


def treebank(seed, n, most, *, labels="", projective=True):
    """(sentences, trees) of 1 to `most` words; with labels trees are lists of pairs."""
    random = np.random.default_rng(seed)
    sentences, trees = [], []
    for i in range(n):
        words = 1 + i % most
        sentences.append(
            [{"word": random.choice(list("abcd")), "tag": random.choice(list("XY"))}
             for _ in range(words)]
        )  # fmt: skip
        heads = random_tree(random, words, projective)
        trees.append(
            [(head, str(random.choice(list(labels)))) for head in heads] if labels else heads
        )
    return sentences, trees


def prepared(sentences, trees, **options):
    return js.dependencies.prepare(
        sentences, trees,
        **{"templates": TEMPLATES, "label_templates": LABEL_TEMPLATES, "min_count": 1} | options,
    )  # fmt: skip


def named_features(templates, sentence, head, child):
    """The features of one arc by name; child is 1.., head 0 for the root."""

    def column(position, name):
        if position == 0:
            return "root"
        inside = 0 < position <= len(sentence)
        return sentence[position - 1][name] if inside else "outside"

    distance, names = abs(child - head), []
    values = {
        "distance": (max(b for b in BEGINS if b <= distance), child > head),
        "direction": child > head,
    }
    for template in templates:
        parts, between = [], None
        for part in template.split():
            place, _, name = part.partition(".")
            if part in values:
                parts.append(values[part])
            elif place == "between":
                low, high = sorted((head, child))
                between = {column(at, name) for at in range(low + 1, high)}
            else:
                offset = int(place.removeprefix("head").removeprefix("child") or 0)
                at = head if place.startswith("head") else child
                parts.append(column(at + offset if at + offset >= 0 else len(sentence) + 9, name))
        for extra in ("",) if between is None else sorted(between):
            names.append((template, *parts, extra))
    return names


def psi(sentence, tree):
    """Psi of one tree as counts of named features."""
    found = Counter()
    for child, one in enumerate(tree, 1):
        head, label = one if isinstance(one, tuple) else (one, None)
        found.update(named_features(TEMPLATES, sentence, head, child))
        if label is not None:
            named = named_features(LABEL_TEMPLATES, sentence, head, child)
            found.update((label, *name) for name in named)
    return found
